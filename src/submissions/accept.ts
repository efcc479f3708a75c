/** What can be accepted, and what can be asked. Decides by looking at the arguments alone, and stores nothing. */

import { isDeepStrictEqual } from "node:util";
import type { UIMessage } from "ai";
import { DURATION_FORMS, type Duration, millisecondsOf } from "../core/duration.ts";
import { failureOf } from "../core/failures.ts";
import { byteLength } from "../core/json.ts";
import { InvalidSubmissionError } from "./errors.ts";
import type { Submission } from "./rows.ts";
import { NEXT, type SubmissionStatus } from "./states.ts";
import type { NewSubmission } from "./store.ts";
import { ISOLATED, MAIN } from "./turn.ts";
import type { Debounce, InternalSubmitOptions, ListSubmissionsOptions, WhenBusy } from "./types.ts";

type Filter = Pick<ListSubmissionsOptions, "status" | "limit">;

/** Bytes of an id or a key: they are indexed, and travel in names. */
const MAX_ID_BYTES = 2_048;
const WHEN_BUSY: readonly WhenBusy[] = ["enqueue", "reject", "interrupt", "rollback", "steer"];
/** Those that go before every priority, so that they are next. */
const URGENT: readonly WhenBusy[] = ["interrupt", "rollback", "steer"];
const FRONT = -1_000;
/** The platform's alarms reach no further. */
const LAST_TIME = Date.UTC(2189, 0, 1);
/** How much longer than the delay repetitions can put a turn off. */
const MAX_DELAY_FACTOR = 10;
const DEFAULT_LIMIT = 100;
const ROLES = ["user", "assistant", "system"];

/**
 * Checks the arguments of `submitMessages()` and makes of them what is stored.
 *
 * @throws InvalidSubmissionError naming the argument, what it is and what it has to be
 */
export function prepare(
  messages: UIMessage[],
  options: InternalSubmitOptions,
  { maxPayloadBytes, newId, now }: { maxPayloadBytes: number; newId: () => string; now: number },
): NewSubmission {
  checkMessages(messages);
  checkText("submissionId", options.submissionId);
  checkText("idempotencyKey", options.idempotencyKey);
  checkText("thread", options.thread);
  checkNumber("retry.maxAttempts", options.retry?.maxAttempts, 1);
  checkNumber("priority", options.priority, -100, 100);
  checkNumber("budget.tokens", options.budget?.tokens, 1);
  const { thread = MAIN, priority = 0, whenBusy = "enqueue", budget } = options;
  if (options.onConflict !== undefined && !["return", "throw"].includes(options.onConflict)) {
    throw new InvalidSubmissionError(
      "onConflict",
      `onConflict is ${JSON.stringify(options.onConflict)}; expected "return" or "throw".`,
    );
  }
  checkTogether(options, thread, whenBusy);
  const timing = timingOf(options, now);
  const text = serialise("messages", messages);
  checkSize(text, options, maxPayloadBytes);
  const submissionId = options.submissionId ?? newId();
  const { notify } = options;
  return {
    submissionId,
    idempotencyKey: options.idempotencyKey,
    messages: text,
    metadata: options.metadata,
    thread,
    channel: options.channel,
    answer: options.answer,
    notify: typeof notify === "function" ? notify(submissionId) : notify,
    run: options.run,
    retry: options.retry,
    rank: URGENT.includes(whenBusy) ? FRONT : -priority,
    budget: budget?.tokens,
    debounceKey: options.debounce && JSON.stringify([thread, options.debounce.key]),
    ...timing,
  };
}

/** When it may start, and until when. */
function timingOf(
  options: InternalSubmitOptions,
  now: number,
): Pick<NewSubmission, "notBefore" | "expiresAt" | "keyExpiresAt" | "debounceUntil"> {
  const { expiresIn, idempotencyKeyTtl, debounce } = options;
  const wait = debounce && debounceOf(debounce);
  const notBefore = wait ? now + wait.delayMs : timeOf("notBefore", options.notBefore);
  const expiresAt = after(now, msOf("expiresIn", expiresIn));
  checkLifetime(expiresAt, notBefore, expiresIn);
  return {
    notBefore: notBefore !== undefined && notBefore > now ? notBefore : undefined,
    expiresAt,
    keyExpiresAt: after(now, msOf("idempotencyKeyTtl", idempotencyKeyTtl)),
    debounceUntil: after(now, wait?.maxDelayMs),
  };
}

function debounceOf({ key, delay, maxDelay }: Debounce): { delayMs: number; maxDelayMs: number } {
  if (key === undefined) checkText("debounce.key", "");
  checkText("debounce.key", key);
  const delayMs = msOf("debounce.delay", delay ?? Number.NaN) ?? 0;
  const maxDelayMs = msOf("debounce.maxDelay", maxDelay) ?? delayMs * MAX_DELAY_FACTOR;
  if (maxDelayMs >= delayMs) return { delayMs, maxDelayMs };
  throw new InvalidSubmissionError(
    "debounce.maxDelay",
    `debounce.maxDelay is ${JSON.stringify(maxDelay)}, which is shorter than the delay, ${JSON.stringify(delay)}.`,
  );
}

/** Options that say different things about the same. */
function checkTogether(options: InternalSubmitOptions, thread: string, whenBusy: WhenBusy): void {
  const refuse = (field: string, message: string) => {
    throw new InvalidSubmissionError(field, message);
  };
  if (!WHEN_BUSY.includes(whenBusy)) {
    refuse(
      "whenBusy",
      `whenBusy is ${JSON.stringify(whenBusy)}; expected one of ${WHEN_BUSY.join(", ")}.`,
    );
  }
  if (options.channel !== undefined && thread !== MAIN) {
    refuse(
      "channel",
      `channel is ${JSON.stringify(options.channel)} and thread ${JSON.stringify(thread)}: ` +
        "channels belong to the main thread. Leave one of them out.",
    );
  }
  if (thread === ISOLATED && whenBusy !== "enqueue") {
    refuse(
      "whenBusy",
      `whenBusy is ${JSON.stringify(whenBusy)} for an isolated turn, which has no other turn to wait for. Leave it out.`,
    );
  }
  if (options.answer && whenBusy === "steer") {
    refuse(
      "whenBusy",
      'whenBusy is "steer" for a turn with an answer of its own, which it cannot give in the turn of another. ' +
        'Use "enqueue" or "interrupt".',
    );
  }
  if (options.notBefore !== undefined && URGENT.includes(whenBusy)) {
    refuse(
      "whenBusy",
      `whenBusy is ${JSON.stringify(whenBusy)}, which is about the turn that runs now, for a turn with notBefore. Leave one of them out.`,
    );
  }
  if (!options.debounce) return;
  const others = ["idempotencyKey", "submissionId", "notBefore"] as const;
  const other =
    others.find((name) => options[name] !== undefined) ??
    (whenBusy === "enqueue" ? undefined : "whenBusy");
  if (other) {
    refuse(
      "debounce",
      `debounce and ${other} cannot be combined: repetitions share one submission, known by debounce.key. Leave one of them out.`,
    );
  }
}

function checkSize(text: string, options: InternalSubmitOptions, most: number): void {
  const rest = serialise("metadata", [options.metadata, options.answer]);
  const bytes = byteLength(text) + byteLength(rest);
  if (bytes <= most) return;
  throw new InvalidSubmissionError(
    "messages",
    `The submission is ${bytes} bytes, and at most ${most} are taken. ` +
      "Keep the content elsewhere (R2, the workspace) and submit a reference to it.",
  );
}

/**
 * The statuses and the limit of a list or a deletion.
 *
 * @throws InvalidSubmissionError for a status that there is none of, or a limit that is not a positive whole number
 */
export function readFilter({ status, limit = DEFAULT_LIMIT }: Filter): {
  statuses: SubmissionStatus[] | undefined;
  limit: number;
} {
  const statuses = status === undefined ? undefined : [status].flat();
  const unknown = statuses?.find((name) => !Object.hasOwn(NEXT, name));
  if (unknown !== undefined) {
    throw new InvalidSubmissionError(
      "status",
      `${JSON.stringify(unknown)} is no status of a submission; one of ${Object.keys(NEXT).join(", ")}.`,
    );
  }
  if (!Number.isInteger(limit) || limit < 1) {
    throw new InvalidSubmissionError("limit", `limit is ${limit}; expected a whole number from 1.`);
  }
  return { statuses, limit };
}

/** Whether a stored submission asks the same, in the same thread. Message ids do not count: a caller that retries makes new ones. */
export function asksTheSame(stored: Submission, repeated: NewSubmission): boolean {
  return isDeepStrictEqual(
    [stored.thread, content(stored.messages), stored.answer],
    [
      repeated.thread,
      content(JSON.parse(repeated.messages) as UIMessage[]),
      repeated.answer && JSON.parse(JSON.stringify(repeated.answer)),
    ],
  );
}

function content(messages: UIMessage[]) {
  return messages.map(({ role, parts }) => ({ role, parts }));
}

function checkMessages(messages: unknown): void {
  if (typeof messages === "function") {
    throw new InvalidSubmissionError(
      "messages",
      "submitMessages() takes an array of messages, not a function: a submission is stored before it runs. " +
        "Use saveMessages() for the function form.",
    );
  }
  if (!Array.isArray(messages) || messages.length === 0) {
    throw new InvalidSubmissionError(
      "messages",
      `submitMessages requires at least one message, got ${Array.isArray(messages) ? "an empty array" : typeof messages}.`,
    );
  }
  for (const [index, message] of messages.entries()) checkMessage(message, index);
}

function checkMessage(message: Partial<UIMessage> | null, index: number): void {
  const problem =
    message === null || typeof message !== "object"
      ? `is ${message === null ? "null" : typeof message}`
      : typeof message.id !== "string" || message.id === ""
        ? "has no id (a non-empty string)"
        : !ROLES.includes(message.role ?? "")
          ? `has the role ${JSON.stringify(message.role)} (one of ${ROLES.join(", ")})`
          : !Array.isArray(message.parts)
            ? "has no parts (an array)"
            : undefined;
  if (problem) {
    throw new InvalidSubmissionError(
      "messages",
      `Message ${index} ${problem}; expected a UIMessage.`,
    );
  }
}

function checkLifetime(
  expiresAt: number | undefined,
  notBefore: number | undefined,
  expiresIn: Duration | undefined,
): void {
  if (expiresAt === undefined || notBefore === undefined || notBefore < expiresAt) return;
  throw new InvalidSubmissionError(
    "expiresIn",
    `expiresIn is ${JSON.stringify(expiresIn)}, and counts from now: the submission would expire before ` +
      `notBefore, ${new Date(notBefore).toISOString()}, lets it start. Give it more than ` +
      `${notBefore - expiresAt} ms more, or leave it out.`,
  );
}

function after(now: number, ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : now + ms;
}

/** @throws InvalidSubmissionError for what is given and no length of time */
function msOf(field: string, value: Duration | undefined): number | undefined {
  if (value === undefined) return undefined;
  const ms = millisecondsOf(value);
  if (ms !== undefined && Number.isFinite(ms)) return ms;
  const given = typeof value === "string" ? JSON.stringify(value) : String(value);
  throw new InvalidSubmissionError(
    field,
    `${field} is ${given}; expected ${DURATION_FORMS}, or leave it out.`,
  );
}

function timeOf(field: string, value: unknown): number | undefined {
  if (value === undefined) return undefined;
  const time = value instanceof Date ? value.getTime() : Number.NaN;
  if (time < LAST_TIME) return time;
  throw new InvalidSubmissionError(
    field,
    `${field} is ${String(value)}; expected a valid Date before the year 2189.`,
  );
}

function checkNumber(
  field: string,
  value: unknown,
  least: number,
  most = Number.MAX_SAFE_INTEGER,
): void {
  if (value === undefined) return;
  if (Number.isInteger(value) && Number(value) >= least && Number(value) <= most) return;
  const range = most === Number.MAX_SAFE_INTEGER ? `from ${least}` : `from ${least} to ${most}`;
  throw new InvalidSubmissionError(
    field,
    `${field} is ${String(value)}; expected a whole number ${range}, or leave it out.`,
  );
}

function checkText(field: string, value: unknown): void {
  if (value === undefined) return;
  if (typeof value !== "string" || value === "") {
    throw new InvalidSubmissionError(
      field,
      `${field} is ${JSON.stringify(value)}; expected a non-empty string, or leave it out.`,
    );
  }
  const bytes = byteLength(value);
  if (bytes > MAX_ID_BYTES) {
    throw new InvalidSubmissionError(
      field,
      `${field} is ${bytes} bytes long, and at most ${MAX_ID_BYTES} are taken. Use a digest of it.`,
    );
  }
}

function serialise(field: string, value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch (error) {
    throw new InvalidSubmissionError(
      field,
      `${field} cannot be stored as JSON: ${failureOf(error).message}.`,
    );
  }
}
