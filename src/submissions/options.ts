/** What an app can set about its ledger. Checked once, at construction. */

import type { Backoff } from "../core/backoff.ts";

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
  /** What a submission that says nothing of its own is retried like (L6, L8). */
  readonly retry?: {
    /**
     * Attempts in all, of crashes and of transient failures.
     * @default 5
     */
    readonly maxAttempts?: number;
    /**
     * Upper bound of the first delay after a transient failure, in
     * milliseconds; it doubles with each failure, and the delay is drawn from
     * zero to it. A provider's Retry-After is waited out in any case.
     * @default 1_000
     */
    readonly baseMs?: number;
    /**
     * Upper bound of every delay, in milliseconds.
     * @default 300_000
     */
    readonly capMs?: number;
  };
  /** How long ended submissions stay readable (L7, L9). */
  readonly retention?: {
    /**
     * Milliseconds after the end.
     * @default 30 days
     */
    readonly maxAgeMs?: number;
    /**
     * Submissions back from the newest one; older ended ones go.
     * @default 100_000
     */
    readonly maxCount?: number;
  };
};

/** The same, with every default filled in. */
export type Limits = {
  readonly maxPending: number;
  readonly maxPayloadBytes: number;
  readonly maxAgeMs: number;
  readonly maxCount: number;
  readonly maxAttempts: number;
  readonly backoff: Backoff;
};

/**
 * The platform's 2 MB for a row, less room for what the row gains later.
 * https://developers.cloudflare.com/durable-objects/platform/limits/
 */
const ROW_BYTES = 1_900_000;
const DAY_MS = 86_400_000;

/** An option of the ledger that cannot be meant. */
export class InvalidOptionError extends Error {
  override readonly name = "InvalidOptionError";
  constructor(
    /** The option, e.g. `retention.maxAgeMs`. */
    readonly option: string,
    value: unknown,
    expected: string,
  ) {
    super(
      `${option} is ${typeof value === "string" ? JSON.stringify(value) : String(value)}; expected ${expected}.`,
    );
  }
}

/** @throws InvalidOptionError naming the option */
export function readOptions({
  maxPending = 10_000,
  maxPayloadBytes = ROW_BYTES,
  retention: { maxAgeMs = 30 * DAY_MS, maxCount = 100_000 } = {},
  retry: { maxAttempts = 5, baseMs = 1_000, capMs = 300_000 } = {},
}: LedgerOptions = {}): Limits {
  return {
    maxAttempts: count("retry.maxAttempts", maxAttempts),
    backoff: { baseMs: count("retry.baseMs", baseMs), capMs: count("retry.capMs", capMs) },
    maxPending: count("maxPending", maxPending),
    maxPayloadBytes: count("maxPayloadBytes", maxPayloadBytes, ROW_BYTES),
    maxAgeMs: count("retention.maxAgeMs", maxAgeMs),
    maxCount: count("retention.maxCount", maxCount),
  };
}

/**
 * A whole number from 1. Infinity is one here: it says that there is no limit.
 *
 * @throws InvalidOptionError for anything else
 */
function count(option: string, value: number, most = Number.POSITIVE_INFINITY): number {
  const isWhole = Number.isInteger(value) || value === Number.POSITIVE_INFINITY;
  if (isWhole && value >= 1 && value <= most) return value;
  const upTo = most === Number.POSITIVE_INFINITY ? ", or Infinity" : ` to ${most}`;
  throw new InvalidOptionError(option, value, `a whole number from 1${upTo}`);
}
