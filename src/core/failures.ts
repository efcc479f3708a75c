/** Classifies what was thrown (transient, platform reset, or final) and computes the delay before a retry. */

import {
  isDurableObjectCodeUpdateReset,
  isDurableObjectMemoryLimitReset,
  isDurableObjectStorageReset,
} from "agents";

export type Failure = {
  /** The error's stable name, e.g. `APICallError`. */
  readonly name: string;
  /** What went wrong, for a person. */
  readonly message: string;
};

/** A failure that may not happen again: worth another attempt, later. */
export type Transient = {
  /** How long the other side asked to be left alone, in milliseconds. */
  readonly retryAfterMs: number | undefined;
};

/**
 * Statuses that a later attempt may not meet again: timeouts, conflicts of
 * timing, too many requests, and the server's own trouble. 529 is what some
 * model providers answer when they are overloaded.
 * https://www.rfc-editor.org/rfc/rfc9110#name-status-codes
 */
const TRANSIENT_STATUS = new Set([408, 425, 429, 500, 502, 503, 504, 529]);
const TRANSIENT_TEXT =
  /network connection lost|fetch failed|connection (reset|refused|closed)|timed? ?out|stalled/i;

/**
 * Whether what was thrown is transient, and when to try again. Looks through
 * wrappers (`cause`, and `lastError` of the AI SDK's own retries) for a status
 * code, the provider's word, or a network that failed.
 *
 * @param now epoch milliseconds, to tell how far off a date in Retry-After is
 */
export function transientOf(error: unknown, now: number): Transient | undefined {
  return reading(() => readTransient(error, now), undefined);
}

function readTransient(error: unknown, now: number): Transient | undefined {
  for (let at = error, depth = 0; at && depth < 8; depth++) {
    const { statusCode, isRetryable, responseHeaders, message, lastError, cause } =
      at as Partial<ProviderError>;
    const isTransient =
      statusCode === undefined
        ? isRetryable === true || TRANSIENT_TEXT.test(typeof at === "string" ? at : (message ?? ""))
        : TRANSIENT_STATUS.has(statusCode);
    if (isTransient) return { retryAfterMs: retryAfterOf(responseHeaders, now) };
    if (statusCode !== undefined) return undefined;
    at = lastError ?? cause;
  }
  return undefined;
}

/** What errors of model providers carry, as the AI SDK names it. */
type ProviderError = {
  statusCode: number;
  isRetryable: boolean;
  responseHeaders: Record<string, string>;
  message: string;
  lastError: unknown;
  cause: unknown;
};

/** Seconds or a date (https://www.rfc-editor.org/rfc/rfc9110#field.retry-after), or the milliseconds that some send beside it. */
function retryAfterOf(
  headers: Record<string, string> | undefined,
  now: number,
): number | undefined {
  const ms = Number(headers?.["retry-after-ms"] ?? Number.NaN);
  if (ms >= 0) return ms;
  const text = headers?.["retry-after"];
  if (text === undefined) return undefined;
  const wait = /^\d+$/.test(text.trim()) ? Number(text) * 1_000 : Date.parse(text) - now;
  return Number.isNaN(wait) ? undefined : Math.max(0, wait);
}

/** Some providers repeat the whole request in their errors, and a row takes 2 MB. */
const MAX_MESSAGE = 4_096;
const CUT = " [cut]";

/** What was thrown, as plain data that a row can hold; a long message is cut. */
export function failureOf(error: unknown): Failure {
  const { name, message } = reading(() => readFailure(error), UNREADABLE);
  const isLong = message.length > MAX_MESSAGE;
  return { name, message: isLong ? `${message.slice(0, MAX_MESSAGE)}${CUT}` : message };
}

const UNREADABLE: Failure = {
  name: "Error",
  message: "A value was thrown that cannot be read as a text. Throw an Error.",
};

function readFailure(error: unknown): Failure {
  if (!(error instanceof Error)) return { name: "Error", message: String(error) };
  return { name: String(error.name), message: String(error.message) };
}

/** Getters, proxies and objects without a prototype can throw when they are read: what is thrown must always have an end. */
function reading<T>(read: () => T, otherwise: T): T {
  try {
    return read();
  } catch {
    return otherwise;
  }
}

/** The part of a message of {@link failureOf} that the error began with. */
export function uncut(message: string): string {
  return message.endsWith(CUT) ? message.slice(0, -CUT.length) : message;
}

/**
 * Whether the platform is taking this isolate down (deploy, memory limit,
 * storage reset). Nothing written from here on would last, and none of it is
 * the work's fault: the next start recovers from the rows.
 */
export function isReset(error: unknown): boolean {
  const isOne = () =>
    isDurableObjectCodeUpdateReset(error) ||
    isDurableObjectMemoryLimitReset(error) ||
    isDurableObjectStorageReset(error);
  return reading(isOne, false);
}

/** Exponential backoff with a cap and full jitter. */
export type Backoff = {
  /** Upper bound of the first delay, in milliseconds. */
  readonly baseMs: number;
  /** Upper bound of every delay, in milliseconds. */
  readonly capMs: number;
};

/**
 * The delay after `failures` failed attempts (1 for the first).
 *
 * Full jitter, because it spreads a crowd that failed together best:
 * https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
 */
export function backoffMs(failures: number, { baseMs, capMs }: Backoff, random: number): number {
  const ceiling = Math.min(capMs, baseMs * 2 ** Math.min(failures - 1, 30));
  return Math.floor(ceiling * random);
}
