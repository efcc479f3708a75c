/**
 * The webhook destination: an event as a request, signed by the Standard
 * Webhooks spec, and the answer as a verdict. One attempt is one request: it
 * never follows a redirect, never calls a private address unless that is
 * allowed, and never keeps more of an answer than a person would read.
 * https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */

import { Webhook } from "standardwebhooks";
import { systemClock } from "../../core/clock.ts";
import { preview } from "../../core/json.ts";
import { withTimeout } from "../../core/timeout.ts";
import { UndeliverableError } from "../errors.ts";
import type { Adapter, Delivery, WebhookDestination } from "../types.ts";
import { isPrivateHost } from "./private-hosts.ts";

export type WebhookAdapterOptions = {
  /** Where the secrets are bound: texts, or secrets of a Secrets Store. */
  readonly env: object;
  /**
   * Whether to call loopback, private and local hosts too, and those over `http:` as well. For development.
   * @default false
   */
  readonly allowPrivateAddresses?: boolean;
  /**
   * The current time, epoch milliseconds; each attempt is signed with its own.
   * @default Date.now
   */
  readonly now?: () => number;
};

const TIMEOUT_MS = 15_000;
const MAX_URL = 2_048;
const MAX_SECRETS = 8;
/** Of an answer's body, in characters: enough for what went wrong, and little enough for a row. */
const MAX_EXCERPT = 1_024;
/** How long that body is waited for, once its status has come. */
const EXCERPT_MS = 1_000;

/**
 * Statuses by which a receiver refuses for good; every other one that is not
 * 2xx is tried again. 410 is the spec's way to end a subscription. The others
 * judge the payload, which is the same in each attempt. 400, 401, 403 and 404
 * are not among them: that is how a receiver answers whose new secret or route
 * is not deployed yet.
 */
const REFUSALS: Readonly<Record<number, { readonly means: string; readonly isGone?: true }>> = {
  410: { means: "it wants no more events", isGone: true },
  413: { means: "the event is too large for it" },
  415: { means: "it takes no JSON" },
  422: { means: "it cannot process the event" },
};

/** A failed attempt, as `transientOf` of core/failures.ts reads it. */
class WebhookError extends Error {
  override readonly name = "WebhookError";
  readonly statusCode: number | undefined;
  /** Only Retry-After. */
  readonly responseHeaders: Readonly<Record<string, string>>;

  constructor(
    message: string,
    { statusCode, retryAfter, ...options }: ErrorOptions & FailedAnswer = {},
  ) {
    super(message, options);
    this.statusCode = statusCode;
    this.responseHeaders = retryAfter == null ? {} : { "retry-after": retryAfter };
  }
}
type FailedAnswer = { statusCode?: number; retryAfter?: string | null };

/**
 * Tells webhooks. A secret that is missing or malformed fails the attempt and
 * is tried again, so that setting it is all the repair there is to do.
 */
export function webhookAdapter({
  env,
  allowPrivateAddresses = false,
  now = systemClock.now,
}: WebhookAdapterOptions): Adapter<WebhookDestination> {
  return {
    timeoutMs: TIMEOUT_MS,
    // Each receiver has a limit of its own and says so with 413. Hence no delivery comes as a reference.
    maxBytes: Number.POSITIVE_INFINITY,
    problemOf: ({ url, secrets }) =>
      problemOfUrl(url, allowPrivateAddresses) ?? problemOfSecrets(secrets, env),
    keyOf: ({ url }) => `webhook ${normalised(url)}`,
    async deliver(destination, delivery: Delivery, signal) {
      // Again, because the options may have changed since it was stored.
      const problem = problemOfUrl(destination.url, allowPrivateAddresses);
      if (problem !== undefined) throw new UndeliverableError(`The webhook ${problem}`);
      const secrets = Promise.all(destination.secrets.map((name) => signerOf(env, name)));
      const signers = await unlessAborted(secrets, signal);
      const request = signedRequest(delivery, signers, new Date(now()));
      await send(destination.url, { ...request, signal });
    },
  };
}

/** One URL for all its spellings; the fragment is never sent. */
function normalised(text: string): string {
  const url = new URL(text);
  url.hash = "";
  return url.href;
}

const SECRET = "The webhook's secret";

/** Whether an attempt failed for this reason because of a secret: it is missing, cannot be read, or is not base64. */
export function isOfSecret(reason: string): boolean {
  return reason.startsWith(`${SECRET} `);
}

/** @throws whatever is wrong with the secret, without its value */
async function signerOf(env: object, name: string): Promise<Webhook> {
  const remedy = `store it in base64, with or without "whsec_" in front: wrangler secret put ${name}`;
  const secret = await textOf((env as Record<string, unknown>)[name], name);
  if (typeof secret !== "string") {
    throw new WebhookError(`${SECRET} ${name} is not set; ${remedy}`);
  }
  try {
    return new Webhook(atob(secret.trim().replace(/^whsec_/, "")), { format: "raw" });
  } catch {
    // Without the cause, which may quote the secret.
    throw new WebhookError(`${SECRET} ${name} is empty or not base64; ${remedy}`);
  }
}

async function textOf(binding: unknown, name: string): Promise<unknown> {
  const { get } = Object(binding) as Partial<SecretsStoreSecret>;
  if (typeof get !== "function") return binding;
  try {
    return await get.call(binding);
  } catch (cause) {
    const remedy = "check that the binding leads to a secret, and that the store has it";
    throw new WebhookError(`${SECRET} ${name} could not be read; ${remedy}.`, { cause });
  }
}

/** The same promise, or a rejection with the signal's reason; the work itself goes on. */
async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason);
  signal.addEventListener("abort", abort);
  if (signal.aborted) abort();
  try {
    return await Promise.race([aborted, work]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

function signedRequest({ id, attempt, event }: Delivery, signers: Webhook[], at: Date) {
  const body = JSON.stringify(event);
  const webhookId = headerSafe(id);
  const headers = {
    "content-type": "application/json",
    "user-agent": "Perdure",
    "webhook-id": webhookId,
    "webhook-timestamp": String(Math.floor(at.getTime() / 1_000)),
    "webhook-signature": signers.map((signer) => signer.sign(webhookId, at, body)).join(" "),
    "webhook-attempt": String(attempt),
  };
  return { method: "POST", headers, body };
}

/**
 * The id, with what a header cannot carry percent-encoded. The full stop too:
 * it separates what is signed, so with one in the id the same signature would
 * fit another id, time and body.
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
    throw new WebhookError(`${host} could not be reached: ${cause.message}`, { cause });
  });
  if (response.ok) {
    // Taken, whatever the body says, and whether or not it could be cancelled.
    void response.body?.cancel().catch(() => {});
    return;
  }
  throw await failureOf(response, host);
}

/** What an answer outside of 2xx means for the event. */
async function failureOf(response: Response, host: string): Promise<Error> {
  const { status, headers } = response;
  const excerpt = await excerptOf(response);
  const said = excerpt === "" ? "" : `: ${excerpt}`;
  const refusal = REFUSALS[status];
  if (refusal !== undefined) {
    const { means, ...options } = refusal;
    return new UndeliverableError(`${host} answered ${status}, ${means}${said}`, options);
  }
  const location = headers.get("location");
  const elsewhere =
    location === null || status < 300 || status > 399
      ? ""
      : `, a redirect to ${preview(location)}, which is not followed; make that the url if it is right`;
  return new WebhookError(`${host} answered ${status}${elsewhere}${said}`, {
    statusCode: status,
    retryAfter: headers.get("retry-after"),
  });
}

/** The beginning of an answer's body on one line, or as much as comes in time. The rest is never read. */
async function excerptOf({ body }: Response): Promise<string> {
  if (body === null) return "";
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  const read = async () => {
    while (text.length < MAX_EXCERPT) {
      const { done, value } = await reader.read();
      if (done) return;
      text += decoder.decode(value, { stream: true });
    }
  };
  // A body that breaks off, hangs or is aborted changes nothing: the status is the verdict.
  await withTimeout(read(), EXCERPT_MS).catch(() => {});
  void reader.cancel().catch(() => {});
  return text
    .slice(0, MAX_EXCERPT)
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim();
}

/** Also looks at values that the type would not have let in. */
function problemOfUrl(text: unknown, allowsPrivate: boolean): string | undefined {
  if (typeof text === "string" && text.length > MAX_URL) {
    return `has a url of ${text.length} characters; expected at most ${MAX_URL}.`;
  }
  const has = `has ${preview(withoutUserInfo(text))} as url`;
  const url = typeof text === "string" ? URL.parse(text) : null;
  if (url === null) return `${has}; expected an absolute URL, such as "https://example.com/hook".`;
  if (url.username !== "" || url.password !== "") {
    return `${has}; expected no user name or password in it, because it is stored and shown. The signature tells who calls.`;
  }
  const isPrivate = isPrivateHost(url.hostname);
  if (url.protocol !== "https:" && !(url.protocol === "http:" && isPrivate)) {
    return `${has}; expected https: (http: is for private addresses, where allowPrivateAddresses is set).`;
  }
  if (!isPrivate || allowsPrivate) return undefined;
  return `${has}; expected a public host. For development, set allowPrivateAddresses.`;
}

/** Shows none of them: a secret itself may stand where its name is expected. */
function problemOfSecrets(names: unknown, env: object): string | undefined {
  const expected = `expected 1 to ${MAX_SECRETS} names of secrets in env, such as ["WEBHOOK_SECRET"].`;
  if (!Array.isArray(names)) return `has no list as secrets; ${expected}`;
  if (names.length < 1 || names.length > MAX_SECRETS) {
    return `has ${names.length} secrets; ${expected}`;
  }
  const wrong = names.findIndex((name) => typeof name !== "string" || !/^(?!whsec_)./.test(name));
  if (wrong !== -1) {
    return `has no name at place ${wrong + 1} of its secrets; ${expected} The secret itself is never stored.`;
  }
  const unknown = names.findIndex((name: string) => !isSecret(env, name));
  if (unknown === -1) return undefined;
  return `has at place ${unknown + 1} of its secrets what is no name of a secret of this Worker; ${expected} It is not shown here, because it may be the secret itself. Set it: wrangler secret put WEBHOOK_SECRET`;
}

/** Methods that other bindings have, beside `get`. */
const OF_OTHER_BINDINGS = ["put", "list", "idFromName", "createBatch", "fetch", "send"] as const;

/** Whether this is a text, or a binding to a Secrets Store. */
function isSecret(env: object, name: string): boolean {
  const value: unknown = Object.hasOwn(env, name) ? Reflect.get(env, name) : undefined;
  if (typeof value !== "object" || value === null) return typeof value === "string";
  const has = (method: string) => typeof Reflect.get(value, method) === "function";
  // A binding to another Worker answers to every name.
  return has("get") && !OF_OTHER_BINDINGS.some(has);
}

/** The same without what stands before an @, right URL or not: it may be a password. */
function withoutUserInfo(value: unknown): unknown {
  return typeof value === "string" ? value.replace(/^([^:]*:[/\\]*)?.*@/s, "$1...@") : value;
}
