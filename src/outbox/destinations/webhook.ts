/**
 * Sends an event to a URL, signed by the Standard Webhooks spec. One attempt is one request: it never follows a redirect,
 * never calls a private address unless that is allowed, and keeps only the beginning of a response.
 * https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */

import { unlessAborted } from "../../core/clock.ts";
import { because } from "../../core/failures.ts";
import { preview } from "../../core/json.ts";
import { oneOf, optionsOf } from "../../core/options/option-schemas.ts";
import { invalidMessage } from "../../core/options/options.ts";
import { webhookKey } from "../../core/secrets.ts";
import { POLICY } from "../delivery/policy.ts";
import { InvalidDestinationError, UndeliverableError } from "../errors.ts";
import type { Adapter, AdapterContext, Delivery, FieldProblem, WithPolicy } from "./adapter.ts";
import {
  checked,
  excerptOf,
  isPrivateHost,
  type Problem,
  problemOfSecret,
  readSecret,
} from "./requests.ts";

/** An HTTP endpoint. Requests to it are signed by the Standard Webhooks spec. */
export type WebhookDestination = WithPolicy & {
  readonly kind: "webhook";
  /** An `https:` URL. The state of an endpoint is kept for each URL. */
  readonly url: string;
  /** Names of the secrets in `env` that sign it, never the secrets themselves; several while they are rotated. */
  readonly secrets: readonly string[];
};

/**
 * An HTTP endpoint. The request's body is the event as JSON. The headers `webhook-id`, `webhook-timestamp` and
 * `webhook-signature` are those of Standard Webhooks; `webhook-attempt` is the number of the attempt. In `webhook-id`,
 * full stops and characters that a header cannot carry are percent-encoded. The end of a submission comes with a
 * `traceparent` header of its trace.
 * https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 *
 * @param secret the name of the binding that has the secret, never the secret itself; while it is rotated, the names of
 *   the new one and of the old one
 */
export function webhook(
  url: string,
  signed: WithPolicy & { secret: string | readonly string[] },
): WebhookDestination {
  // Without it, the check of the destination says what is missing.
  const { secret, ...options } = signed ?? {};
  const secrets = typeof secret === "string" ? [secret] : secret;
  return { kind: "webhook", url, secrets, ...options };
}

const MAX_URL = 2_048;
const MAX_SECRETS = 8;

/**
 * Statuses that are permanent failures; every other one that is not 2xx is retried. 410 is the spec's way to end a
 * subscription. The others concern the payload, which is the same in each attempt. 400, 401, 403 and 404 are retried: a
 * receiver answers so while its new secret or route is not deployed yet.
 */
const REFUSALS: Readonly<Record<number, { readonly means: string; readonly isGone?: true }>> = {
  410: { means: "it wants no more events", isGone: true },
  413: { means: "the event is too large for it" },
  415: { means: "it takes no JSON" },
  422: { means: "it cannot process the event" },
};

/** A failed attempt, as `transientOf` of core/failures.ts reads it. */
class EndpointError extends Error {
  override readonly name = "EndpointError";
  constructor(
    message: string,
    options?: ErrorOptions,
    readonly statusCode?: number,
    readonly responseHeaders: Readonly<Record<string, string>> = {},
  ) {
    super(message, options);
  }
}

export const KINDS = {
  webhook: {
    schema: optionsOf<WebhookDestination>()({
      kind: oneOf(["webhook"]),
      url: checked<string>(problemOfUrl),
      secrets: checked<readonly string[]>(problemOfSecrets),
      policy: POLICY.optional(),
    }),
    connect({
      env,
      allowPrivateAddresses,
      now,
      reportProblem,
    }: Pick<AdapterContext, "env" | "allowPrivateAddresses" | "now"> &
      Partial<Pick<AdapterContext, "reportProblem">>): Adapter<WebhookDestination> {
      /** Secrets whose absence was reported. */
      const reported = new Set<string>();
      return {
        timeoutMs: 15_000,
        // Each receiver has a limit of its own, and answers 413 above it. Hence no event is sent as a reference.
        maxBytes: Number.POSITIVE_INFINITY,
        keyOf: ({ url }) => keyOfEndpoint(url),
        labelOf: ({ url }) => hostOf(url),
        problemOf: ({ url, secrets }) =>
          problemOfHost(url, allowPrivateAddresses) ?? problemOfAll(env, secrets),
        async deliver({ url, secrets }, delivery: Delivery, signal, { traceparent }) {
          // Checked again: the option may have changed since the destination was stored.
          const problem = problemOfHost(url, allowPrivateAddresses);
          if (problem) {
            throw new UndeliverableError(invalidMessage("url", problem.given, problem.expected));
          }
          const { keys, missing } = await unlessAborted(loadKeys(env, secrets), signal);
          const [error] = missing;
          // It fails the attempt and is retried: to set a secret is all the repair that is needed.
          if (error && keys.length === 0) throw error;
          for (const { message } of missing) {
            if (reported.has(message)) continue;
            reported.add(message);
            const ids = { to: hostOf(url) };
            reportProblem?.({
              type: "outbox:secret",
              level: "warn",
              message: `${message}. Requests are signed with the others; without a need for it, remove its name`,
              ids,
            });
          }
          const request = await signedRequest(delivery, keys, now());
          const headers = { ...(traceparent !== undefined && { traceparent }), ...request.headers };
          await send(url, { ...request, headers, signal });
        },
      };
    },
  },
};

/** @throws InvalidDestinationError for a URL that no webhook can have */
export function checkUrl(text: unknown): void {
  const problem = problemOfUrl(text);
  if (problem) throw invalidUrl(problem);
}

function invalidUrl({ given, expected }: Problem): InvalidDestinationError {
  return new InvalidDestinationError(invalidMessage("url", given, expected));
}

/**
 * The key of a webhook's URL, the same for all its spellings; the fragment is never sent.
 *
 * @throws InvalidDestinationError for an invalid URL
 */
export function keyOfEndpoint(text: string): string {
  const isText = typeof text === "string" && text.length <= MAX_URL && text.isWellFormed();
  const url = isText ? URL.parse(text) : null;
  if (url === null) throw invalidUrl(problemOfUrl(text) as Problem);
  url.hash = "";
  return `webhook ${url.href}`;
}

/** For logs: the rest of a URL may be a secret. Also for kinds without a URL, stored by a newer version: "". */
export function hostOf(url: string): string {
  return URL.parse(url)?.host ?? "";
}

const HMAC = { name: "HMAC", hash: "SHA-256" };

function secretError(name: string, problem: string, options?: ErrorOptions): EndpointError {
  const error = new EndpointError(`The webhook's secret ${name} ${problem}`, options);
  return because(error, "secret-missing", name);
}

/** While secrets are rotated, one that exists is enough. */
function problemOfAll(env: object, secrets: readonly string[]): FieldProblem | undefined {
  const problems = secrets.map((name, at) => problemOfSecret(env, `secrets[${at}]`, name));
  return problems.includes(undefined) ? undefined : problems[0];
}

/** The keys of the usable secrets, and why the others are not. */
async function loadKeys(env: object, names: readonly string[]) {
  const loaded = await Promise.allSettled(names.map((name) => keyOf(env, name)));
  return {
    keys: loaded.flatMap((one) => (one.status === "fulfilled" ? [one.value] : [])),
    missing: loaded.flatMap((one) => (one.status === "rejected" ? [one.reason as Error] : [])),
  };
}

/** @throws EndpointError for a bad secret, without its value */
async function keyOf(env: object, name: string): Promise<CryptoKey> {
  const remedy = `store it in base64, also after "whsec_" or "v1,whsec_": wrangler secret put ${name}`;
  const missing = (problem: string) => secretError(name, problem);
  const secret = await textOf((env as Record<string, unknown>)[name], name);
  if (typeof secret !== "string") throw missing(`is not set; ${remedy}`);
  const bytes = webhookKey(secret);
  if (!bytes) throw missing(`is empty or not base64; ${remedy}`);
  return crypto.subtle.importKey("raw", bytes, HMAC, false, ["sign"]);
}

async function textOf(binding: unknown, name: string): Promise<unknown> {
  try {
    return await readSecret(binding);
  } catch (cause) {
    const remedy = "check that the binding leads to a secret, and that the store has it";
    throw secretError(name, `could not be read; ${remedy}.`, { cause });
  }
}

/** @param now epoch milliseconds */
async function signedRequest({ id, attempt, event }: Delivery, keys: CryptoKey[], now: number) {
  const body = JSON.stringify(event);
  const webhookId = headerSafe(id);
  const timestamp = String(Math.floor(now / 1_000));
  const signed = new TextEncoder().encode(`${webhookId}.${timestamp}.${body}`);
  const signatures = keys.map(async (key) => {
    const signature = await crypto.subtle.sign(HMAC, key, signed);
    return `v1,${new Uint8Array(signature).toBase64()}`;
  });
  const headers = {
    "content-type": "application/json",
    "user-agent": "Perdure",
    "webhook-id": webhookId,
    "webhook-timestamp": timestamp,
    "webhook-signature": (await Promise.all(signatures)).join(" "),
    "webhook-attempt": String(attempt),
  };
  return { method: "POST", headers, body };
}

/**
 * The id with percent-encoded characters where a header cannot carry them. A full stop is encoded too: it separates the
 * signed parts, so with one in the id the same signature would fit another id, time and body.
 */
function headerSafe(id: string): string {
  return id
    .toWellFormed()
    .replace(/[^!-~]|[.%]/gu, (char) => (char === "." ? "%2E" : encodeURIComponent(char)));
}

async function send(url: string, request: RequestInit & { signal: AbortSignal }): Promise<void> {
  const { host } = new URL(url);
  const response = await fetch(url, { ...request, redirect: "manual" }).catch((cause) => {
    request.signal.throwIfAborted();
    throw new EndpointError(`${host} could not be reached: ${cause.message}`, { cause });
  });
  if (response.ok) {
    // Delivered, whatever the body is, and whether or not it could be cancelled.
    void response.body?.cancel().catch(() => {});
    return;
  }
  throw because(await failureOf(response, host), "answered", response.status);
}

/** The error of a response other than 2xx. */
async function failureOf(response: Response, host: string): Promise<Error> {
  const { status, headers } = response;
  const excerpt = await excerptOf(response);
  const body = excerpt === "" ? "" : `: ${excerpt}`;
  const refusal = REFUSALS[status];
  if (refusal !== undefined) {
    const { means, ...options } = refusal;
    return new UndeliverableError(`${host} answered ${status}, ${means}${body}`, options);
  }
  const location = headers.get("location");
  const redirect =
    location === null || status < 300 || status > 399
      ? ""
      : `, a redirect to ${preview(location)}, which is not followed; set it as the url if it is right`;
  const retryAfter = headers.get("retry-after");
  const retry = retryAfter === null ? {} : { "retry-after": retryAfter };
  return new EndpointError(`${host} answered ${status}${redirect}${body}`, {}, status, retry);
}

export function problemOfUrl(text: unknown): Problem | undefined {
  const isText = typeof text === "string";
  if (isText && text.length > MAX_URL) {
    const expected = `expected at most ${MAX_URL} characters`;
    return { given: `of ${text.length} characters`, expected };
  }
  if (isText && !text.isWellFormed()) {
    const expected = "expected whole characters, without an unpaired surrogate";
    return { given: "(not shown)", expected };
  }
  const url = isText ? URL.parse(text) : null;
  const expected = expectedOf(url);
  return expected === undefined ? undefined : { given: preview(withoutUserInfo(text)), expected };
}

function expectedOf(url: URL | null): string | undefined {
  if (url === null) return 'expected an absolute URL, such as "https://example.com/hook"';
  if (url.username !== "" || url.password !== "") {
    return "expected no user name or password, because it is stored and shown. The signature identifies the caller";
  }
  if (url.protocol === "https:" || (url.protocol === "http:" && isPrivateHost(url.hostname))) {
    return undefined;
  }
  return "expected https: (http: is for private addresses, with allowPrivateAddresses)";
}

export function problemOfHost(text: string, allowsPrivate: boolean): FieldProblem | undefined {
  if (allowsPrivate || !isPrivateHost(new URL(text).hostname)) return undefined;
  const expected = "expected a public host. For development, set allowPrivateAddresses";
  return { field: "url", given: preview(text), expected };
}

/** Shows no value: a secret itself may stand where its name is expected. */
function problemOfSecrets(names: unknown): Problem | undefined {
  const expected = `expected 1 to ${MAX_SECRETS} names of secrets in env, such as ["WEBHOOK_SECRET"]`;
  if (!Array.isArray(names)) return { given: "(no list)", expected };
  if (names.length < 1 || names.length > MAX_SECRETS) {
    return { given: `of ${names.length} items`, expected };
  }
  const wrong = names.findIndex(
    (name) => typeof name !== "string" || !/^(?!(v1,)?whsec_)./.test(name),
  );
  if (wrong === -1) return undefined;
  const problem = `Item ${wrong + 1} is no name. The secret itself is never stored`;
  return { given: "(not shown)", expected: `${expected}. ${problem}` };
}

/** Without the part before an @, also of an invalid URL: it may be a password. */
function withoutUserInfo(value: unknown): unknown {
  return typeof value === "string" ? value.replace(/^([^:]*:[/\\]*)?.*@/s, "$1...@") : value;
}
