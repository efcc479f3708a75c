/** What an app can set about its ledger. Checked once, at construction. */

import type { Clock } from "../core/clock.ts";
import type { Duration } from "../core/duration.ts";
import type { Backoff } from "../core/failures.ts";
import { count, duration, optionsOf, readOptions } from "../core/option-schemas.ts";
import type { OnProblem } from "../core/problems.ts";

export type LedgerOptions = {
  /**
   * Submissions that may wait for their turn; one more is refused with
   * BacklogFullError (L9).
   * @default 10_000
   */
  readonly maxPending?: number;
  /**
   * Bytes of one submission's messages and metadata, as JSON.
   * @default 1_900_000, which is also the most: a row takes 2 MB
   */
  readonly maxPayloadBytes?: number;
  /**
   * Turns that run at the same time, each in a thread of its own; isolated ones count as well (L4).
   * @default 4
   */
  readonly maxConcurrentTurns?: number;
  /**
   * Tool calls that are recorded for one submission. Further calls fail with ToolCallLimitError, and the
   * model can finish without them. Calls of tools that are safe to repeat are not counted.
   * @default 1_000
   */
  readonly maxToolCalls?: number;
  /**
   * How long a turn may go without a sign of life (a part of an answer, a call
   * of the model or of a tool) before it is given up as stalled, which is a
   * transient failure (L6, L8).
   * @default "1 hour"
   */
  readonly stallTimeout?: Duration;
  /**
   * How long an answer may wait in memory to be written together with the end
   * of its turn, which saves a row. A crash within that time asks the model
   * again. It does not wait where that could not be, or must not: once a tool
   * has run, in the last attempt, and with a budget (L6, L7).
   * @default 250
   */
  readonly holdAnswer?: Duration;
  /**
   * How long a call of `onSubmissionStatus()` is waited for. After that it is
   * logged, and the submission goes on without it.
   * @default "30 seconds"
   */
  readonly statusHookTimeout?: Duration;
  /** What the submissions of this agent may use together. */
  readonly budget?: {
    /**
     * Tokens a day, by UTC. Once they are used up, submissions end with
     * BudgetExceededError before their next call of the model.
     * @default Infinity
     */
    readonly tokensPerDay?: number;
  };
  /** What a submission that says nothing of its own is retried like (L6, L8). */
  readonly retry?: {
    /**
     * Attempts in all, of crashes and of transient failures.
     * @default 5
     */
    readonly maxAttempts?: number;
    /**
     * Upper bound of the first delay after a transient failure; it doubles with
     * each failure, and the delay is drawn from zero to it. A provider's
     * Retry-After is waited out in any case.
     * @default "1 second"
     */
    readonly baseDelay?: Duration;
    /**
     * Upper bound of every delay.
     * @default "5 minutes"
     */
    readonly maxDelay?: Duration;
  };
  /** How long ended submissions stay readable (L7, L9). */
  readonly retention?: {
    /**
     * From the end on.
     * @default "30 days"
     */
    readonly maxAge?: Duration;
    /**
     * Submissions back from the newest one; older ended ones go.
     * @default 100_000
     */
    readonly maxCount?: number;
    /**
     * Messages of a named thread that are kept, from 1 to 9,000, or `Infinity`: a turn deletes the oldest ones above it,
     * some at a time, and none of its own. By count alone and not by age: the conversation belongs to its user, who may
     * return after years. The model sees no more than the newest 8 MiB, and a session reads at most 10,000 messages.
     * The agent's own conversation is Think's.
     * @default 5_000
     */
    readonly maxThreadMessages?: number;
  };
};

export type SubmissionsOptions = LedgerOptions & {
  readonly clock?: Clock;
  /**
   * Told of each problem: a submission that ended in `error`.
   * @default logProblem, which logs one line of JSON
   */
  readonly onProblem?: OnProblem;
};

/** The same, with every default filled in. */
export type Limits = {
  readonly maxPending: number;
  readonly maxConcurrentTurns: number;
  readonly maxToolCalls: number;
  readonly stallTimeoutMs: number;
  readonly holdAnswerMs: number;
  readonly hookTimeoutMs: number;
  readonly tokensPerDay: number;
  readonly maxPayloadBytes: number;
  readonly maxAgeMs: number;
  readonly maxCount: number;
  readonly maxThreadMessages: number;
  readonly maxAttempts: number;
  readonly backoff: Backoff;
};

/**
 * What was submitted and the answer to it share a row, of which the platform
 * takes 2 MB: room is left for what else is on it. An answer that would not
 * fit is stored in parts (O4).
 * https://developers.cloudflare.com/durable-objects/platform/limits/
 */
export const ROW_BYTES = 1_980_000;
const PAYLOAD_BYTES = 1_900_000;
/** An output of so many bytes fits into any row. */
export const SMALL_OUTPUT_BYTES = ROW_BYTES - PAYLOAD_BYTES;

/** Of an answer as JSON: with what it is made of and into, an object of 128 MB can hold it. */
export const ANSWER_BYTES = 16 * 1024 * 1024;

const MAX_DELAY = "365 days";
/** A session reads 10,000 messages, and deletes no others: some may be above the limit until they are deleted. */
const MAX_THREAD_MESSAGES = 9_000;

const SETTINGS = optionsOf<LedgerOptions>()({
  maxPending: count({ infinity: true }).default(10_000),
  maxPayloadBytes: count({ max: PAYLOAD_BYTES }).default(PAYLOAD_BYTES),
  maxConcurrentTurns: count({ infinity: true }).default(4),
  maxToolCalls: count({ infinity: true }).default(1_000),
  stallTimeout: duration({ infinity: true }).prefault("1 hour"),
  holdAnswer: duration({ infinity: true }).prefault(250),
  statusHookTimeout: duration({ max: "1 day" }).prefault("30 seconds"),
  budget: optionsOf<NonNullable<LedgerOptions["budget"]>>()({
    tokensPerDay: count({ infinity: true }).default(Number.POSITIVE_INFINITY),
  }).prefault({}),
  retry: optionsOf<NonNullable<LedgerOptions["retry"]>>()({
    maxAttempts: count({ infinity: true }).default(5),
    baseDelay: duration({ max: MAX_DELAY }).prefault("1 second"),
    maxDelay: duration({ max: MAX_DELAY }).prefault("5 minutes"),
  }).prefault({}),
  retention: optionsOf<NonNullable<LedgerOptions["retention"]>>()({
    maxAge: duration({ infinity: true }).prefault("30 days"),
    maxCount: count({ infinity: true }).default(100_000),
    maxThreadMessages: count({ max: MAX_THREAD_MESSAGES, infinity: true }).default(5_000),
  }).prefault({}),
});

/** @throws InvalidOptionError naming the option */
export function readLimits(options: LedgerOptions = {}): Limits {
  const { retry, retention, budget, ...read } = readOptions(SETTINGS, options, "the ledger");
  return {
    maxPending: read.maxPending,
    maxPayloadBytes: read.maxPayloadBytes,
    maxConcurrentTurns: read.maxConcurrentTurns,
    maxToolCalls: read.maxToolCalls,
    stallTimeoutMs: read.stallTimeout,
    holdAnswerMs: read.holdAnswer,
    hookTimeoutMs: read.statusHookTimeout,
    tokensPerDay: budget.tokensPerDay,
    maxAttempts: retry.maxAttempts,
    backoff: { baseMs: retry.baseDelay, capMs: retry.maxDelay },
    maxAgeMs: retention.maxAge,
    maxCount: retention.maxCount,
    maxThreadMessages: retention.maxThreadMessages,
  };
}
