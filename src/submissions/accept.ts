/** What can be accepted. Decides by looking at the arguments alone, and stores nothing. */

import { isDeepStrictEqual } from "node:util";
import type { UIMessage } from "ai";
import type { Duration } from "../core/duration.ts";
import { byteLength, shown } from "../core/json.ts";
import { checkAnswer } from "./answer-spec.ts";
import type { NewSubmission } from "./changes.ts";
import {
  checkAfterSideEffects,
  checkNames,
  checkNumber,
  checkText,
  msOf,
  serialise,
  timeOf,
} from "./checks.ts";
import { InvalidSubmissionError } from "./errors.ts";
import type { Submission } from "./rows.ts";
import { ISOLATED, isIsolated, isPool, MAIN, poolOf } from "./turn.ts";
import type { Debounce, InternalSubmitOptions, WhenBusy } from "./types.ts";

const WHEN_BUSY: readonly WhenBusy[] = ["enqueue", "reject", "interrupt", "rollback", "steer"];
/** Those that go before every priority, so that they are next. */
const URGENT: readonly WhenBusy[] = ["interrupt", "rollback", "steer"];
const FRONT = -1_000;
/** How much longer than the delay repetitions can put a turn off. */
const MAX_DELAY_FACTOR = 10;
const ROLES = ["user", "assistant", "system"];

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
  checkNames("submitMessages()", options, SUBMIT_NAMES);
  checkNames("retry", options.retry, ["maxAttempts", "afterSideEffects"]);
  checkNames("budget", options.budget, ["tokens"]);
  checkNames("debounce", options.debounce, ["key", "delay", "maxDelay"]);
  checkAnswer(options.answer);
  checkMessages(messages);
  checkText("submissionId", options.submissionId);
  checkText("idempotencyKey", options.idempotencyKey);
  checkText("thread", options.thread);
  checkNumber("retry.maxAttempts", options.retry?.maxAttempts, 1);
  checkNumber("priority", options.priority, -100, 100);
  if (options.budget) checkNumber("budget.tokens", options.budget.tokens ?? Number.NaN, 1);
  checkAfterSideEffects(options.retry?.afterSideEffects);
  const { priority = 0, whenBusy = "enqueue", budget } = options;
  const thread = threadOf(options);
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
  const notify =
    typeof options.notify === "function" ? options.notify(submissionId) : options.notify;
  checkDestinations(notify, problemOf);
  return {
    submissionId,
    isGenerated: options.submissionId === undefined,
    idempotencyKey: options.idempotencyKey,
    messages: text,
    metadata: options.metadata,
    thread,
    channel: options.channel,
    answer: options.answer,
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

/** Whatever else is asked must not pass for a default. */
const SUBMIT_NAMES = [
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
  "answer",
  "run",
  "batch",
] as const satisfies readonly (keyof InternalSubmitOptions)[];

/** The thread that it runs in: isolated turns of a batch have one of their own. */
function threadOf({ thread = MAIN, batch }: InternalSubmitOptions): string {
  if (isPool(thread)) {
    throw new InvalidSubmissionError(
      "thread",
      `thread is ${JSON.stringify(thread)}; names that begin with "isolated/" are those of step.promptAll(). ` +
        'Use "isolated", or another name.',
    );
  }
  return batch && thread === ISOLATED ? poolOf(batch.id, batch.lanes) : thread;
}

/** An end has to be stored together with what it tells: what cannot be told is refused here. */
function checkDestinations(notify: unknown, problemOf: Acceptance["problemOf"]): void {
  if (notify === undefined) return;
  if (!Array.isArray(notify)) {
    throw new InvalidSubmissionError(
      "notify",
      `notify is ${shown(notify)}; expected a list of destinations, e.g. [method("onDone")], or leave it out.`,
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

/** Whether a stored submission asks the same, in the same thread. Message ids do not count: a caller that retries makes new ones. */
export function asksTheSame(stored: Submission, repeated: NewSubmission): boolean {
  return isDeepStrictEqual(
    [conversationOf(stored.thread), content(stored.messages), stored.answer],
    [
      conversationOf(repeated.thread),
      content(JSON.parse(repeated.messages) as UIMessage[]),
      repeated.answer && JSON.parse(JSON.stringify(repeated.answer)),
    ],
  );
}

/** Which isolated turns run beside it is not what is asked. */
function conversationOf(thread: string): string {
  return isIsolated(thread) ? ISOLATED : thread;
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
