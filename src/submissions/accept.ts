/** What can be accepted, and what can be asked. Decides by looking at the arguments alone, and stores nothing. */

import { isDeepStrictEqual } from "node:util";
import type { UIMessage } from "ai";
import { failureOf } from "../core/failures.ts";
import { InvalidSubmissionError } from "./errors.ts";
import type { Submission } from "./rows.ts";
import { NEXT, type SubmissionStatus } from "./states.ts";
import type { NewSubmission } from "./store.ts";
import type { InternalSubmitOptions, ListSubmissionsOptions, WhenBusy } from "./types.ts";

type Filter = Pick<ListSubmissionsOptions, "status" | "limit">;

/** Bytes of an id or a key: they are indexed, and travel in names. */
const MAX_ID_BYTES = 2_048;
const WHEN_BUSY: readonly WhenBusy[] = ["enqueue", "reject", "interrupt"];
/** Before every priority. */
const FRONT = -1_000;
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
  checkNumber("retry.maxAttempts", options.retry?.maxAttempts, 1);
  checkNumber("idempotencyKeyTtlMs", options.idempotencyKeyTtlMs, 1);
  checkNumber("expiresInMs", options.expiresInMs, 1);
  checkNumber("priority", options.priority, -100, 100);
  const notBefore = timeOf("notBefore", options.notBefore);
  const expiresAt = after(now, options.expiresInMs);
  checkLifetime(expiresAt, notBefore, options.expiresInMs);
  const { priority = 0, whenBusy = "enqueue" } = options;
  if (!WHEN_BUSY.includes(whenBusy)) {
    throw new InvalidSubmissionError(
      "whenBusy",
      `whenBusy is ${JSON.stringify(whenBusy)}; expected one of ${WHEN_BUSY.join(", ")}.`,
    );
  }
  const text = serialise("messages", messages);
  const bytes =
    byteLength(text) + byteLength(serialise("metadata", [options.metadata, options.answer]));
  if (bytes > maxPayloadBytes) {
    throw new InvalidSubmissionError(
      "messages",
      `The submission is ${bytes} bytes, and at most ${maxPayloadBytes} are taken. ` +
        "Keep the content elsewhere (R2, the workspace) and submit a reference to it.",
    );
  }
  const submissionId = options.submissionId ?? newId();
  return {
    submissionId,
    idempotencyKey: options.idempotencyKey,
    messages: text,
    metadata: options.metadata,
    channel: options.channel,
    answer: options.answer,
    notify: options.notify?.(submissionId),
    run: options.run,
    retry: options.retry,
    rank: whenBusy === "interrupt" ? FRONT : -priority,
    notBefore: notBefore !== undefined && notBefore > now ? notBefore : undefined,
    expiresAt,
    keyExpiresAt: after(now, options.idempotencyKeyTtlMs),
  };
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

/** Whether a stored submission asks the same. Message ids do not count: a caller that retries makes new ones. */
export function asksTheSame(stored: Submission, repeated: NewSubmission): boolean {
  return isDeepStrictEqual(
    [content(stored.messages), stored.answer],
    [
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
  expiresInMs: number | undefined,
): void {
  if (expiresAt === undefined || notBefore === undefined || notBefore < expiresAt) return;
  throw new InvalidSubmissionError(
    "expiresInMs",
    `expiresInMs is ${expiresInMs}, and counts from now: the submission would expire before ` +
      `notBefore, ${new Date(notBefore).toISOString()}, lets it start. Give it more than ` +
      `${notBefore - expiresAt} ms more, or leave it out.`,
  );
}

function after(now: number, ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : now + ms;
}

function timeOf(field: string, value: unknown): number | undefined {
  if (value === undefined) return undefined;
  const time = value instanceof Date ? value.getTime() : Number.NaN;
  if (!Number.isNaN(time)) return time;
  throw new InvalidSubmissionError(field, `${field} is ${String(value)}; expected a valid Date.`);
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

function byteLength(text: string): number {
  return new TextEncoder().encode(text).byteLength;
}
