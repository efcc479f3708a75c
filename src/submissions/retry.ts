/** Whether a failed attempt is followed by another one, and when. A pure decision. */

import { type Backoff, backoffMs } from "../core/backoff.ts";
import type { Transient } from "../core/failures.ts";

/** No provider is waited for longer: its thread is closed for that time. */
const MAX_RETRY_AFTER_MS = 86_400_000;

export type FailedTurn = {
  /** Set when the failure may not happen again. */
  readonly transient: Transient | undefined;
  /** Whether a tool of the turn has run, and whether the caller said that it may run again. */
  readonly hasEffects: boolean;
  readonly mayRepeatEffects: boolean;
  /** Attempts so far, and at most. */
  readonly attempts: number;
  readonly maxAttempts: number;
};

/** Milliseconds until the next attempt, or undefined when there is none (L8). */
export function retryDelayMs(
  { transient, hasEffects, mayRepeatEffects, attempts, maxAttempts }: FailedTurn,
  backoff: Backoff,
  random: number,
): number | undefined {
  if (!transient || attempts >= maxAttempts || (hasEffects && !mayRepeatEffects)) return undefined;
  const asked = Math.min(transient.retryAfterMs ?? 0, MAX_RETRY_AFTER_MS);
  return Math.max(backoffMs(attempts, backoff, random), asked);
}
