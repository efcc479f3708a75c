/** One request to a provider's API, and what a response other than success means. */

import { bytesUpTo } from "../../core/bytes-up-to.ts";
import { unlessAborted } from "../../core/clock.ts";
import { because, failureOf, retryAfterOf } from "../../core/failures.ts";
import { parsedJson } from "../../core/json.ts";
import { isPlainObject } from "../../core/options/options.ts";
import { readSecret } from "../../outbox/destinations/requests.ts";
import { RefusedError, UndeliverableError } from "../../outbox/errors.ts";

/** Bytes of a response's body that are read. */
const MAX_BODY = 2 * 1_048_576;
/** Characters of a response's body that an error keeps. */
const MAX_EXCERPT = 1_024;
/** Where a provider asks to wait, and does not say how long. */
const DEFAULT_WAIT_MS = 60_000;
const MAX_WAIT_MS = 86_400_000;
/**
 * Statuses of Cloudflare's own for a server that it could not connect to, so that no request has arrived there.
 * https://developers.cloudflare.com/support/troubleshooting/http-status-codes/cloudflare-5xx-errors/
 */
const NOT_REACHED: ReadonlySet<number> = new Set([521, 523, 525, 526, 530]);

/** Base URLs of the providers' APIs. */
export type ProviderApis = {
  /** @default "https://slack.com/api" */
  readonly slack?: string;
  /** @default "https://discord.com/api/v10" */
  readonly discord?: string;
  /** @default "https://api.telegram.org" */
  readonly telegram?: string;
  /** Of GitHub Enterprise Server: `https://<host>/api/v3`. @default "https://api.github.com" */
  readonly github?: string;
};

export type ProviderRequest = {
  /** The provider's name in errors. */
  readonly provider: string;
  readonly url: string;
  /** @default "POST" */
  readonly method?: "GET" | "POST" | "PATCH";
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: object;
  readonly signal: AbortSignal;
  /** Texts that no error may contain: the token, or a part of the URL. */
  readonly secrets: readonly string[];
  /** @default 2 MiB */
  readonly maxBytes?: number;
  /** Of the clock, for a date in Retry-After. */
  readonly now: () => number;
};

export type ProviderResponse = {
  readonly status: number;
  readonly headers: Headers;
  /** Retry-After in milliseconds, at most a day. */
  readonly waitMs: number | undefined;
  /** The body as JSON; undefined where it is none. */
  readonly json: unknown;
  /** What the provider says, for an error: the status and the beginning of the body, without secrets. */
  readonly says: string;
};

/**
 * Sends a request, without following a redirect.
 *
 * @throws Error where there was no response. The request may have arrived: the runtime has one message for a connection
 *   that was refused and for one that was lost
 */
export async function request({
  provider,
  url,
  method = "POST",
  headers = {},
  body,
  signal,
  secrets,
  maxBytes = MAX_BODY,
  now,
}: ProviderRequest): Promise<ProviderResponse> {
  const init: RequestInit = { method, signal, redirect: "manual" };
  try {
    const response = await fetch(url, {
      ...init,
      headers: {
        ...headers,
        accept: headers.accept ?? "application/json",
        ...(body && { "content-type": "application/json; charset=utf-8" }),
      },
      ...(body && { body: JSON.stringify(body) }),
    });
    // Of a body above the limit, nothing is used.
    const text = new TextDecoder().decode(await bytesUpTo(response.body, maxBytes));
    const says = `${provider} answered ${response.status}${excerptOf(text, secrets)}`;
    const { status, headers: answered } = response;
    const wait = retryAfterOf({ "retry-after": answered.get("retry-after") ?? "" }, now());
    const waitMs = wait === undefined ? undefined : Math.min(Math.max(wait, 1), MAX_WAIT_MS);
    return { status, headers: answered, waitMs, json: parsedJson(text), says };
  } catch (error) {
    signal.throwIfAborted();
    throw new Error(`${provider} could not be reached: ${hide(failureOf(error).message, secrets)}`);
  }
}

/** Of the JSON object in a response; {} where there is none. */
export function objectIn({ json }: ProviderResponse): Record<string, unknown> {
  return isPlainObject(json) ? json : {};
}

/**
 * The error of a response other than success:
 * - 429: not acted on, and nothing is sent to the destination until `waitMs` has passed;
 * - 401: not acted on, and retried: to replace the token is all the repair that is needed;
 * - 5xx and 408: the outcome is not known, unless the server was not reached;
 * - 2xx: another success than expected, perhaps of a proxy: the outcome is not known;
 * - every other status: permanent.
 */
export function failureIn(response: ProviderResponse, waitMs = response.waitMs): Error {
  const { status, says } = response;
  if (status === 429) return new RefusedError(says, { retryAfterMs: waitMs ?? DEFAULT_WAIT_MS });
  if (status === 401 || NOT_REACHED.has(status)) return new RefusedError(says);
  if (status >= 500 || status === 408) return new Error(says);
  if (status >= 200 && status < 300) return new Error(`${says}, which is no answer of its API`);
  if (status >= 300 && status < 400) {
    return new UndeliverableError(`${says}, a redirect, which is not followed`);
  }
  return new UndeliverableError(says);
}

/** Seconds, also a fraction or a text, in milliseconds; undefined for anything else. */
export function millisecondsOf(seconds: unknown): number | undefined {
  if (typeof seconds !== "number" && typeof seconds !== "string") return undefined;
  const ms = Math.ceil(Number(seconds) * 1_000);
  return seconds !== "" && ms >= 0 && Number.isFinite(ms) ? Math.max(ms, 1) : undefined;
}

function excerptOf(text: string, secrets: readonly string[]): string {
  const line = hide(text, secrets)
    .slice(0, MAX_EXCERPT)
    .toWellFormed()
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim();
  return line === "" ? "" : `: ${line}`;
}

function hide(text: string, secrets: readonly string[]): string {
  return secrets.reduce((shown, secret) => shown.replaceAll(secret, "(hidden)"), text);
}

/**
 * A token that is sent in a header or a URL.
 *
 * @throws Error without its value where it is missing or malformed, which is retried: to set it is all the repair that is needed
 */
export async function tokenOf(env: object, name: string, signal: AbortSignal): Promise<string> {
  const remedy = `Set it: wrangler secret put ${name}`;
  const missing = (problem: string) => because(new Error(problem), "secret-missing", name);
  const reading = readSecret(Reflect.get(env, name)).catch(() => {
    throw missing(`The secret ${name} could not be read. Check its binding and its store.`);
  });
  const value = await unlessAborted(reading, signal);
  if (typeof value !== "string" || value.trim() === "") {
    throw missing(`The secret ${name} is not set. ${remedy}`);
  }
  const token = value.trim();
  if (/^[!-~]+$/.test(token)) return token;
  throw missing(`The secret ${name} has characters that no token has. ${remedy}`);
}
