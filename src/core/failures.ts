/** Classifies what was thrown (transient or final, and its cause) and computes the delay before a retry. */

export type Failure = {
  /** The error's stable name, e.g. `APICallError`. */
  readonly name: string;
  /** A description of the problem. */
  readonly message: string;
  readonly cause?: Cause | undefined;
};

/** A cause that a report tells apart. The code that throws an error decides it, and the text of a row begins with it. */
export type Cause = {
  readonly code: /** Another server answered. The detail is the status. */
    | "answered"
    | "binding-missing"
    /** The object may not have survived it. */
    | "crashed"
    | "rate-limited"
    /** The detail is the name of the secret. */
    | "secret-missing"
    | "too-late"
    | "unknown";
  /** Without white space. */
  readonly detail?: string | undefined;
};

const CAUSE = Symbol();

/** Gives an error its cause, which {@link failureOf} returns. */
export function because<Thrown extends Error>(
  error: Thrown,
  code: Cause["code"],
  detail?: string | number,
): Thrown {
  return Object.assign(error, { [CAUSE]: { code, detail } });
}

const STORED = /^#([a-z-]+)(?:\/(\S+))? (.*)$/s;

/** The text of a row: the cause, if there is one, and the message. A long message is cut. */
export function storedFailure(failure: Pick<Failure, "message" | "cause">): string {
  const { cause } = failure;
  const message = cutMessage(failure.message);
  if (!cause) return STORED.test(message) ? `#unknown ${message}` : message;
  const { code, detail } = cause;
  return `#${detail ? `${code}/${detail}` : code} ${message}`;
}

/** Reads {@link storedFailure}. A row of an older version has no cause. */
export function readFailure(text: string): { message: string; cause?: Cause } {
  const found = STORED.exec(text);
  if (!found) return { message: text };
  const [, code, detail, message = ""] = found;
  return { message, cause: { code: code as Cause["code"], detail } };
}

/** A provider's refusal for now: by its status, or by what the SDKs write for it. */
const RATE_LIMITED = /\b429\b|rate[\s_-]?limit|too many requests|quota|overloaded|\b529\b/i;

/** The failure of a model's provider, with its cause. Providers have no codes in common, so their texts are read here. */
export function withProviderCause(failure: Failure): Failure {
  const isLimited = RATE_LIMITED.test(`${failure.name} ${failure.message.slice(0, 500)}`);
  return failure.cause || !isLimited ? failure : { ...failure, cause: { code: "rate-limited" } };
}

/** A failure that a later attempt may not meet. */
export type Transient = {
  /** The delay that the server asked for (Retry-After), in milliseconds. */
  readonly retryAfterMs: number | undefined;
};

/**
 * Statuses of transient failures: timeouts, too many requests and server errors. Some model providers answer 529 when
 * they are overloaded.
 * https://www.rfc-editor.org/rfc/rfc9110#name-status-codes
 */
const TRANSIENT_STATUS = new Set([408, 425, 429, 500, 502, 503, 504, 529]);
const TRANSIENT_TEXT =
  /network connection lost|fetch failed|connection (reset|refused|closed)|timed? ?out|stalled/i;

/**
 * Whether an error is transient, and when to retry. Follows `cause`, and `lastError` of the AI SDK's retries, to a status
 * code, `isRetryable`, or the message of a network failure.
 *
 * @param now epoch milliseconds, for a date in Retry-After
 */
export function transientOf(error: unknown, now: number): Transient | undefined {
  return readSafely(() => readTransient(error, now), undefined);
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

/** Fields of the AI SDK's errors of model providers. */
type ProviderError = {
  statusCode: number;
  isRetryable: boolean;
  responseHeaders: Record<string, string>;
  message: string;
  lastError: unknown;
  cause: unknown;
};

/** Seconds or a date (https://www.rfc-editor.org/rfc/rfc9110#field.retry-after), or the `retry-after-ms` of some providers. */
export function retryAfterOf(
  headers: Readonly<Record<string, string>> | undefined,
  now: number,
): number | undefined {
  const ms = Number(headers?.["retry-after-ms"] ?? Number.NaN);
  if (ms >= 0) return ms;
  const text = headers?.["retry-after"]?.trim() ?? "";
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text) * 1_000;
  // Date.parse() takes other texts for dates, too, such as "-5".
  const at = text.endsWith("GMT") ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? undefined : Math.max(0, at - now);
}

/** Some providers repeat the whole request in their errors, and a row takes 2 MB. */
const MAX_MESSAGE = 4_096;
const CUT = " [cut]";

const UNREADABLE: Failure = {
  name: "Error",
  message: "A value was thrown that cannot be read as a text. Throw an Error.",
};

/** A message that was cut stays as it is. */
function cutMessage(message: string): string {
  return message.length > MAX_MESSAGE ? message.slice(0, MAX_MESSAGE) + CUT : message;
}

/** A thrown value as plain data for a row. A long message is cut. */
export function failureOf(error: unknown): Failure {
  return readSafely(() => {
    const isError = error instanceof Error;
    const message = String(isError ? error.message : error);
    const cause: Cause | undefined = Reflect.get(Object(error), CAUSE);
    return {
      name: isError ? String(error.name) : "Error",
      message: cutMessage(message),
      ...(cause && { cause }),
    };
  }, UNREADABLE);
}

/** Characters of a failure that tell its cause: each store keeps more of them. */
const CAUSE_LENGTH = 300;

/** The common text of failures that differ in ids and numbers only. HTTP statuses stay. */
export function causeOf(text: string): string {
  const shown = (word: string) => (/\d/.test(word) && !/^[1-5]\d\d$/.test(word) ? "#" : word);
  return text.slice(0, CAUSE_LENGTH).replace(/[\w-]+/g, shown);
}

/** Reading a thrown value can throw again (getters, proxies, objects without a prototype). Every turn must still end. */
function readSafely<T>(read: () => T, otherwise: T): T {
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

/** Exponential backoff with a cap and full jitter. */
export type Backoff = {
  readonly baseMs: number;
  readonly capMs: number;
};

/**
 * The delay after `failures` failed attempts (1 for the first). Full jitter spreads clients that failed together:
 * https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
 */
export function backoffMs(failures: number, { baseMs, capMs }: Backoff, random: number): number {
  const ceiling = Math.min(capMs, baseMs * 2 ** Math.min(failures - 1, 30));
  return Math.floor(ceiling * random);
}
