/** What can be accepted. Decides by looking at the arguments alone, and stores nothing. */

import { isDeepStrictEqual } from "node:util";
import type { UIMessage } from "ai";
import { LAST_ALARM } from "../../core/clock.ts";
import type { Duration } from "../../core/duration.ts";
import { byteLength, preview } from "../../core/json.ts";
import { isPlainObject } from "../../core/options.ts";
import type { Destination } from "../../outbox/types.ts";
import { InvalidSubmissionError } from "../errors.ts";
import { ISOLATED, isIsolated, isPool, MAIN, poolOf, publicThreadOf } from "../host.ts";
import type { NewSubmission, Submission } from "../store/rows.ts";
import type { Debounce, InternalSubmitOptions, SubmitMessagesOptions, WhenBusy } from "../types.ts";
import { checkAnswer } from "./answer-spec.ts";
import {
  checkAfterSideEffects,
  checkDepth,
  checkNames,
  checkNumber,
  checkText,
  checkWellFormed,
  msOf,
  ofItem,
  serialise,
  timeAfter,
  timeOf,
} from "./checks.ts";

const WHEN_BUSY: readonly WhenBusy[] = ["enqueue", "reject", "interrupt", "rollback", "steer"];
/** Those that go before every priority, so that they are next. */
const URGENT: readonly WhenBusy[] = ["interrupt", "rollback", "steer"];
const FRONT = -1_000;
/** How much longer than the delay repetitions can put a turn off. */
const MAX_DELAY_FACTOR = 10;
const ROLES = ["user", "assistant"];

type SubmissionSize = Pick<NewSubmission, "messages" | "metadata" | "answer" | "notify">;

/** What acceptance depends on, beside the arguments. */
export type Acceptance = {
  readonly maxPayloadBytes: number;
  readonly newId: () => string;
  readonly now: number;
  /** What is wrong with a destination, to be read after its name. */
  readonly problemOf: (destination: unknown) => string | undefined;
};

/**
 * Checks the arguments of `submitMessages()` and makes of them what is stored.
 *
 * @throws InvalidSubmissionError naming the argument, what it is and what it has to be
 */
export function prepare(
  messages: UIMessage[],
  options: InternalSubmitOptions,
  { maxPayloadBytes, newId, now, problemOf }: Acceptance,
): NewSubmission {
  checkNames("retry", options.retry, ["maxAttempts", "afterSideEffects"]);
  checkNames("budget", options.budget, ["tokens"]);
  checkNames("debounce", options.debounce, ["key", "delay", "maxDelay"]);
  checkAnswer(options.answer);
  checkDepth("messages", messages);
  checkMessages(messages);
  checkText("submissionId", options.submissionId);
  checkText("idempotencyKey", options.idempotencyKey);
  checkText("thread", options.thread);
  checkText("channel", options.channel);
  checkMetadata(options.metadata);
  checkNumber("retry.maxAttempts", options.retry?.maxAttempts, 1);
  checkNumber("priority", options.priority, -100, 100);
  if (options.budget) checkNumber("budget.tokens", options.budget.tokens ?? Number.NaN, 1);
  checkAfterSideEffects(options.retry?.afterSideEffects);
  const { priority = 0, whenBusy = "enqueue", budget } = options;
  const thread = threadOf(options);
  if (options.onConflict !== undefined && !["return", "throw"].includes(options.onConflict)) {
    throw new InvalidSubmissionError(
      "onConflict",
      `onConflict is ${preview(options.onConflict)}; expected "return" or "throw".`,
    );
  }
  checkTogether(options, thread, whenBusy);
  const timing = timingOf(options, now);
  const text = serialise("messages", messages);
  const submissionId = options.submissionId ?? newId();
  const notify = destinationsOf(options.notify, submissionId);
  checkDestinations(notify, problemOf);
  const { metadata, answer } = options;
  checkSize({ messages: text, metadata, answer, notify }, maxPayloadBytes);
  return {
    submissionId,
    isGenerated: options.submissionId === undefined,
    isRetry: false,
    idempotencyKey: options.idempotencyKey,
    messages: text,
    metadata,
    thread,
    channel: options.channel,
    answer,
    notify,
    run: options.run,
    retry: options.retry,
    rank: URGENT.includes(whenBusy) ? FRONT : -priority,
    budget: budget?.tokens,
    debounceKey: options.debounce && JSON.stringify([thread, options.debounce.key]),
    batch: options.batch?.id,
    ...timing,
  };
}

/**
 * Checks what a caller of the public verbs may pass: an unknown option must not pass for a default, and what Perdure's own
 * modules pass along is none of theirs.
 *
 * @throws InvalidSubmissionError naming the option
 */
export function checkPublic(options: unknown): asserts options is SubmitMessagesOptions {
  checkNames("submitMessages()", options, SUBMIT_NAMES);
  const { notify } = (options ?? {}) as InternalSubmitOptions;
  if (typeof notify === "function") checkDestinations(notify, () => undefined);
}

/** @throws InvalidSubmissionError naming the item of `submitMany()`, and its option */
export function checkMany(submissions: unknown): void {
  if (!Array.isArray(submissions)) {
    throw new InvalidSubmissionError(
      "submissions",
      `submitMany() got ${preview(submissions)}; expected an array of { messages, options }.`,
    );
  }
  for (const [index, item] of submissions.entries()) {
    checkNames(`item ${index} of submitMany()`, item ?? null, ["messages", "options"]);
    ofItem("submitMany()", index, () => checkPublic(item.options));
  }
}

const SUBMIT_NAMES = [
  "output",
  "strategy",
  "repair",
  "submissionId",
  "idempotencyKey",
  "idempotencyKeyTtl",
  "onConflict",
  "metadata",
  "thread",
  "channel",
  "priority",
  "notBefore",
  "expiresIn",
  "debounce",
  "whenBusy",
  "notify",
  "budget",
  "retry",
] as const satisfies readonly (keyof SubmitMessagesOptions)[];

/** The thread that it runs in: isolated turns of a batch have one of their own. */
function threadOf({ thread = MAIN, batch }: InternalSubmitOptions): string {
  if (isPool(thread)) {
    throw new InvalidSubmissionError(
      "thread",
      `thread is ${JSON.stringify(thread)}; names that begin with "isolated/" are those of step.promptAll(). ` +
        'Use "isolated", or another name.',
    );
  }
  return batch && thread === ISOLATED ? poolOf(batch.id, batch.concurrency) : thread;
}

/** One destination is a list of one. */
function destinationsOf(
  notify: InternalSubmitOptions["notify"],
  submissionId: string,
): readonly Destination[] | undefined {
  if (typeof notify === "function") return notify(submissionId);
  return isPlainObject(notify) ? [notify as Destination] : (notify as Destination[] | undefined);
}

/** An end has to be stored together with what it tells: what cannot be told is refused here. */
function checkDestinations(notify: unknown, problemOf: Acceptance["problemOf"]): void {
  if (notify === undefined) return;
  if (!Array.isArray(notify)) {
    throw new InvalidSubmissionError(
      "notify",
      `notify is ${preview(notify)}; expected a destination or a list of them, e.g. method("onDone"), or leave it out.`,
    );
  }
  for (const [index, to] of notify.entries()) {
    const problem = problemOf(to);
    if (problem) throw new InvalidSubmissionError("notify", `notify[${index}] ${problem}`);
  }
}

/** When it may start, and until when. */
function timingOf(
  options: InternalSubmitOptions,
  now: number,
): Pick<NewSubmission, "notBefore" | "expiresAt" | "keyExpiresAt" | "debounceUntil"> {
  const { expiresIn, idempotencyKeyTtl, debounce } = options;
  const wait = debounce && debounceOf(debounce, now);
  const notBefore = wait ? wait.notBefore : timeOf("notBefore", options.notBefore);
  const expiresAt = timeAfter("expiresIn", now, msOf("expiresIn", expiresIn));
  checkLifetime(expiresAt, notBefore, expiresIn);
  return {
    notBefore: notBefore !== undefined && notBefore > now ? notBefore : undefined,
    expiresAt,
    keyExpiresAt: timeAfter("idempotencyKeyTtl", now, msOf("idempotencyKeyTtl", idempotencyKeyTtl)),
    debounceUntil: wait?.debounceUntil,
  };
}

function debounceOf({ key, delay, maxDelay }: Debounce, now: number) {
  if (key === undefined) checkText("debounce.key", "");
  checkText("debounce.key", key);
  const delayMs = msOf("debounce.delay", delay ?? Number.NaN) ?? 0;
  const notBefore = timeAfter("debounce.delay", now, delayMs) ?? now;
  const maxDelayMs = msOf("debounce.maxDelay", maxDelay);
  const until = timeAfter("debounce.maxDelay", now, maxDelayMs);
  // The default is ten times the delay, and no error where that is later than an alarm can be set.
  const debounceUntil =
    until ?? Math.max(notBefore, Math.min(now + delayMs * MAX_DELAY_FACTOR, LAST_ALARM));
  if (debounceUntil >= notBefore) return { notBefore, debounceUntil };
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
  if (isIsolated(thread) && whenBusy !== "enqueue") {
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

/**
 * What shares a row with the messages counts like them.
 *
 * @throws InvalidSubmissionError for more than `most` bytes
 */
export function checkSize(
  { messages, metadata, answer, notify }: SubmissionSize,
  most: number,
): void {
  const rest = serialise("metadata", [metadata, answer, notify]);
  const bytes = byteLength(messages) + byteLength(rest);
  if (bytes <= most) return;
  throw new InvalidSubmissionError(
    "messages",
    `The submission is ${bytes} bytes, and at most ${most} are taken, with its metadata and destinations. ` +
      "Keep the content elsewhere (R2, the workspace) and submit a reference to it.",
  );
}

/** Whether a stored submission asks the same, in the same thread. Message ids do not count: a caller that retries makes new ones. */
export function asksTheSame(stored: Submission, repeated: NewSubmission): boolean {
  return isDeepStrictEqual(
    [publicThreadOf(stored.thread), content(stored.messages), stored.answer],
    [
      publicThreadOf(repeated.thread),
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

/** What no model takes is refused: once in the conversation, it would fail every later turn, too. */
function checkMessage(message: Partial<UIMessage> | null, index: number): void {
  const problem = problemOfMessage(message);
  if (problem) {
    throw new InvalidSubmissionError(
      "messages",
      `Message ${index} ${problem}; expected a UIMessage.`,
    );
  }
  checkWellFormed(`messages[${index}].id`, message?.id ?? "");
}

function problemOfMessage(message: Partial<UIMessage> | null): string | undefined {
  if (message === null || typeof message !== "object") {
    return `is ${message === null ? "null" : typeof message}`;
  }
  const { id, role, parts } = message;
  if (typeof id !== "string" || id === "") return "has no id (a non-empty string)";
  if (role === "system") {
    return 'has the role "system", which models take as instructions only: return them from getSystemPrompt() or beforeTurn()';
  }
  if (!ROLES.includes(role ?? ""))
    return `has the role ${preview(role)} (one of ${ROLES.join(", ")})`;
  if (!Array.isArray(parts)) return "has no parts (an array)";
  const wrong = parts.findIndex((part) => !isPart(part));
  return wrong < 0 ? undefined : `has the part ${preview(parts[wrong])} at ${wrong}`;
}

/** What a list could not find again is refused: keys that are half of a character. */
function checkMetadata(metadata: unknown): void {
  if (metadata === undefined) return;
  if (!isPlainObject(metadata)) {
    throw new InvalidSubmissionError(
      "metadata",
      `metadata is ${preview(metadata)}; expected an object, or leave it out.`,
    );
  }
  checkDepth("metadata", metadata);
  for (const key of Object.keys(metadata)) checkWellFormed("metadata", key);
}

/** Whether the AI SDK can hand it to a model. Types that it does not know are left out there. */
function isPart(part: unknown): boolean {
  if (typeof part !== "object" || part === null) return false;
  const { type, text, url, mediaType, providerReference } = part as Record<string, unknown>;
  if (typeof type !== "string") return false;
  if (type === "text") return typeof text === "string";
  if (type !== "file") return true;
  if (typeof mediaType !== "string" || mediaType === "") return false;
  return providerReference != null || (typeof url === "string" && isReadable(url));
}

/** Whether the AI SDK can read it: of data URLs only those in Base64. */
function isReadable(url: string): boolean {
  if (!/^data:/i.test(url)) return URL.canParse(url);
  return /^data:[^,]*;base64,[\w+/-]*={0,2}$/i.test(url);
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
