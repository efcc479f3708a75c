/** The options of the ledger. Checked once, at construction. */

import type { Clock } from "../core/clock.ts";
import { count, duration, optionsOf, readOptions } from "../core/options/option-schemas.ts";
import type { Duration } from "../core/options/options.ts";
import type { OnProblem } from "../core/problems.ts";

export type LedgerOptions = {
  /**
   * Pending submissions at most. The next one throws BacklogFullError.
   * @default 10_000
   */
  readonly maxPending?: number;
  /**
   * Turns that run at the same time, in different threads. Isolated turns count as well.
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
   * A turn with no progress for this time ends with a transient failure. Progress is a part of an answer, a model call or a
   * tool call.
   * @default "1 hour"
   */
  readonly stallTimeout?: Duration;
  /** The default retry policy of a submission. */
  readonly retry?: {
    /**
     * Attempts in all, of crashes and of transient failures: a whole number from 1, or `Infinity`.
     * @default 5
     */
    readonly maxAttempts?: number;
    /**
     * Upper bound of the first delay after a transient failure. It doubles with each failure; the delay is random, from zero
     * to the bound. A provider's Retry-After is always respected.
     * @default "1 second"
     */
    readonly baseDelay?: Duration;
    /**
     * Upper bound of every delay.
     * @default "5 minutes"
     */
    readonly maxDelay?: Duration;
  };
  /** How long ended submissions stay readable. */
  readonly retention?: {
    /**
     * Counted from the end.
     * @default "30 days"
     */
    readonly maxAge?: Duration;
    /**
     * How many of the newest submissions are kept. Older ended ones are deleted.
     * @default 100_000
     */
    readonly maxCount?: number;
    /**
     * Messages of a named thread that are kept, from 1 to 9,000, or `Infinity`. A turn deletes some of the oldest ones above
     * it, and none of its own. The model sees at most the newest 8 MiB, and a session reads at most 10,000 messages. The
     * main conversation is a thread, too, except where Think or AIChatAgent stores it.
     * @default 5_000
     */
    readonly maxThreadMessages?: number;
  };
};

export type SubmissionsOptions = LedgerOptions & {
  readonly clock?: Clock;
  /**
   * Called for each problem: a submission that ended with `error`.
   * @default logProblem, which logs one line of JSON
   */
  readonly onProblem?: OnProblem;
};

/**
 * The messages and the answer share a row, and the platform's limit of a row is 2 MB. An answer that does not fit is stored in
 * parts.
 * https://developers.cloudflare.com/durable-objects/platform/limits/
 */
export const ROW_BYTES = 1_980_000;
/** Messages and metadata of one submission, as JSON. */
export const PAYLOAD_BYTES = 1_900_000;
/** An output of at most so many bytes fits into every row. */
export const SMALL_OUTPUT_BYTES = ROW_BYTES - PAYLOAD_BYTES;

/** Bytes of an answer as JSON, so that an object with 128 MB of memory can process it. */
export const ANSWER_BYTES = 16 * 1024 * 1024;

const MAX_DELAY = "365 days";
/** A session reads 10,000 messages, and deletes no others: some may be above the limit until they are deleted. */
const MAX_THREAD_MESSAGES = 9_000;

const SHAPE = {
  maxPending: count({ infinity: true }).default(10_000),
  maxConcurrentTurns: count({ infinity: true }).default(4),
  maxToolCalls: count({ infinity: true }).default(1_000),
  stallTimeout: duration({ infinity: true }).prefault("1 hour"),
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
};
const SETTINGS = optionsOf<LedgerOptions>()(SHAPE);
export const LEDGER_OPTIONS = Object.keys(SHAPE);

/** The options with every default filled in. */
export type Limits = ReturnType<typeof readLimits>;

/** @throws InvalidOptionError naming the option */
export function readLimits(options: LedgerOptions = {}) {
  const { retry, retention, stallTimeout, ...counts } = readOptions(
    SETTINGS,
    options,
    "the ledger",
  );
  return {
    ...counts,
    stallTimeoutMs: stallTimeout,
    /**
     * How long an answer may wait in memory, to be written together with the end of its turn, which saves a row. A crash within
     * that time asks the model again. It is written at once after a tool has run, in the last attempt, and with a budget.
     */
    holdAnswerMs: 250,
    /** Time limit of a call of `onSubmissionStatus()`. After that it is logged, and the submission continues. */
    hookTimeoutMs: 30_000,
    maxAttempts: retry.maxAttempts,
    backoff: { baseMs: retry.baseDelay, capMs: retry.maxDelay },
    maxAgeMs: retention.maxAge,
    maxCount: retention.maxCount,
    maxThreadMessages: retention.maxThreadMessages,
  };
}
