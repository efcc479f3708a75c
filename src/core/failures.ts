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
    /** The account at the model's provider is used up. */
    | "no-credit"
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

/** A failure that a later attempt may not meet. */
export type Transient = {
  /** The delay that the server asked for (Retry-After), in milliseconds. */
  readonly retryAfterMs: number | undefined;
};

/** A server's answer, as an error describes it. */
export type ErrorResponse = {
  /** The status of the innermost layer with one from 400 on. */
  readonly status?: number | undefined;
  readonly headers?: Readonly<Record<string, string | undefined>> | undefined;
  /** Whether the account has no credit left. Waiting does not help. */
  readonly isQuotaUsedUp: boolean;
  /** Names, codes and messages of all layers, the outermost first. */
  readonly text: string;
  /** Whether a layer without a status says that it can be retried. */
  readonly isRetryable: boolean;
};

/**
 * Statuses of transient failures: timeouts, too many requests and server errors. Some model providers answer 529 when
 * they are overloaded.
 * https://www.rfc-editor.org/rfc/rfc9110#name-status-codes
 */
const TRANSIENT_STATUS = new Set([408, 425, 429, 500, 502, 503, 504, 529]);
const TRANSIENT_TEXT =
  /network connection lost|fetch failed|connection (reset|refused|closed)|timed? ?out|stalled|ECONNRESET|EPIPE|socket hang up|overloaded|rate[\s_-]?limit|too many requests|resource[\s_-]?exhausted|capacity (temporarily )?exceeded|(internal )?server[\s_]error|(service|temporarily) unavailable|bad gateway|gateway time/i;
const RATE_LIMITED_STATUS = new Set([429, 529]);
const RATE_LIMITED_TEXT =
  /\b429\b|rate[\s_-]?limit|too many requests|quota|overloaded|\b529\b|resource[\s_-]?exhausted/i;
/**
 * What providers write for an account without credit: OpenAI and compatible ones a code, with a 429; Anthropic a 400,
 * DeepSeek and OpenRouter a 402. Google's "exceeded your current quota" can be a limit per minute.
 * https://platform.openai.com/docs/guides/error-codes
 */
const QUOTA_CODE = /insufficient[\s_]quota|billing_(hard_limit_reached|not_active)/i;
const QUOTA_TEXT =
  /exceeded your current quota, please check your plan and billing|credit balance is too low/i;
const PAYMENT_TEXT = /credit|balance|billing|quota/i;
const GOOGLE = /resource[\s_-]?exhausted|googleapis|ai\.google|retry in \d/i;

const NO_CREDIT =
  "The account at the model's provider has no credit left, and a retry does not help: add credit or raise its spending limit there, or use another model. The provider's error:";

/**
 * The failure of a model's provider, with its cause and, where its account is used up, the remedy. Providers have no codes in
 * common, so their texts are read here.
 *
 * @param thrown the error itself, whose causes can have the status
 */
export function withProviderCause(failure: Failure, thrown?: unknown): Failure {
  if (failure.cause) return failure;
  const { status = 0, isQuotaUsedUp } = responseOf(thrown);
  const text = `${failure.name} ${failure.message.slice(0, MAX_READ)}`;
  if (isQuotaUsedUp || isQuotaText(text))
    return { ...failure, message: `${NO_CREDIT} ${failure.message}`, cause: { code: "no-credit" } };
  const isLimited = RATE_LIMITED_STATUS.has(status) || RATE_LIMITED_TEXT.test(text);
  return isLimited ? { ...failure, cause: { code: "rate-limited" } } : failure;
}

/**
 * Whether an error is transient, and when to retry. The innermost status decides. Without one, `isRetryable` or the text of
 * any layer does.
 *
 * @param now epoch milliseconds, for a date in Retry-After
 */
export function transientOf(error: unknown, now: number): Transient | undefined {
  const { status, headers, isQuotaUsedUp, isRetryable, text } = responseOf(error);
  if (isQuotaUsedUp) return undefined;
  const isTransient =
    status === undefined ? isRetryable || TRANSIENT_TEXT.test(text) : TRANSIENT_STATUS.has(status);
  return isTransient ? { retryAfterMs: retryAfterOf(headers, now) } : undefined;
}

/** Reads what a server has answered from an error, from the errors that it wraps, and from bodies in them. */
export function responseOf(error: unknown): ErrorResponse {
  const unread = { isQuotaUsedUp: false, isRetryable: false, text: "" };
  return readSafely(() => readResponse(error), unread);
}

function readResponse(error: unknown): ErrorResponse {
  let status: number | undefined;
  let headers: ErrorResponse["headers"];
  let isRetryable = false;
  const texts: string[] = [];
  for (const layer of layersOf(error)) {
    const text = textOf(layer);
    const found = statusOf(layer) ?? statusIn(text);
    if (found !== undefined) status = found;
    else if (typeof layer === "object" && layer.isRetryable === true) isRetryable = true;
    const own = typeof layer === "object" ? layer.responseHeaders : undefined;
    // A wrapper with a status of success has the headers of that answer.
    if (own && (found !== undefined || headers === undefined)) headers = own;
    texts.push(text);
  }
  const text = texts.join("\n");
  const isUnpaid = status === 402 && PAYMENT_TEXT.test(text);
  const isQuotaUsedUp = isUnpaid || isQuotaText(text);
  return { status, headers, isQuotaUsedUp, isRetryable, text };
}

/** Fields of errors: of the AI SDK, of `fetch` clients, and of bodies such as `{ error: { code: 429 } }`. */
type Layer = {
  readonly name?: unknown;
  readonly message?: unknown;
  readonly statusCode?: unknown;
  readonly status?: unknown;
  readonly code?: unknown;
  readonly type?: unknown;
  readonly isRetryable?: unknown;
  readonly responseHeaders?: ErrorResponse["headers"];
  readonly responseBody?: unknown;
  readonly data?: unknown;
  /** The value that the AI SDK could not read, e.g. an error of another shape in a stream. */
  readonly value?: unknown;
  readonly error?: unknown;
  readonly lastError?: unknown;
  readonly cause?: unknown;
};

const MAX_LAYERS = 16;
/** UTF-16 units of a text that is read. */
const MAX_READ = 2_000;
const MAX_BODY = 65_536;

/** An error and what it wraps, the outermost first. Texts and bodies that are JSON are layers, too. */
function* layersOf(error: unknown): Generator<Layer | string> {
  const found: unknown[] = [error];
  for (let n = 0; n < found.length && n < MAX_LAYERS; n++) {
    const layer = found[n];
    if (typeof layer === "string") yield layer;
    if (typeof layer !== "object" || layer === null) {
      if (typeof layer === "string") found.push(jsonIn(layer));
      continue;
    }
    const one = layer as Layer;
    yield one;
    const { message, responseBody, data = jsonIn(responseBody), value, lastError, cause } = one;
    for (const inner of [jsonIn(message), data, value, one.error, lastError, cause])
      if (inner && !found.includes(inner)) found.push(inner);
  }
}

function jsonIn(text: unknown): unknown {
  const isJson = typeof text === "string" && text.length <= MAX_BODY && /^\s*\{/.test(text);
  return isJson ? readSafely(() => JSON.parse(text) as unknown, undefined) : undefined;
}

/** A status from 400 on: a wrapper's 200 says nothing about the error. */
function statusOf(layer: Layer | string): number | undefined {
  if (typeof layer === "string") return undefined;
  const { statusCode, status, code } = layer;
  return [statusCode, status, code].map(Number).find(isErrorStatus);
}

/** The status in texts such as "429 Too Many Requests" or "status code: 503". */
function statusIn(text: string): number | undefined {
  const [, first, named] =
    /^(\d{3})\b|\b(?:http|status|status code|error code)[\s:=]+(\d{3})\b/i.exec(text) ?? [];
  const status = Number(first ?? named);
  return isErrorStatus(status) ? status : undefined;
}

function isErrorStatus(status: number): boolean {
  return Number.isInteger(status) && status >= 400 && status < 600;
}

function textOf(layer: Layer | string): string {
  if (typeof layer === "string") return layer.slice(0, MAX_READ);
  const { message, name, code, type, status, responseBody } = layer;
  const fields = [message, name, code, type, status, responseBody];
  const texts = fields.filter((one) => typeof one === "string");
  return texts.map((one) => one.slice(0, MAX_READ)).join(" ");
}

function isQuotaText(text: string): boolean {
  return QUOTA_CODE.test(text) || (QUOTA_TEXT.test(text) && !GOOGLE.test(text));
}

/** Seconds or a date (https://www.rfc-editor.org/rfc/rfc9110#field.retry-after), or the `retry-after-ms` of some providers. */
export function retryAfterOf(
  headers: Readonly<Record<string, string | undefined>> | undefined,
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
