/** What to do with a submission that was running when its object stopped. A pure decision. */

import type { Failure } from "../../core/failures.ts";
import type { Applied } from "../host.ts";

/** What the restart found. */
export type Evidence = {
  /** Whether the turn's structured answer is recorded. */
  readonly isAnswered: boolean;
  /** Whether the whole reply is in the conversation, where that is all that was asked for. */
  readonly isReplied: boolean;
  /** How many of its messages are in the conversation. */
  readonly applied: Applied;
  /** Whether a tool of the turn is known to have run. */
  readonly hasEffects: boolean;
  /** Whether the host may still be about to go on with the turn. */
  readonly isHostRecovering: boolean;
  /** Whether another attempt may be made all the same. */
  readonly mayRepeatEffects: boolean;
  /** Attempts so far, without those that the platform's own resets ended, and at most. */
  readonly attempts: number;
  readonly maxAttempts: number;
  /** How long ago the object started, or the host's turn last gave a sign of life, in milliseconds. */
  readonly waitedMs: number;
};

export type Decision =
  /** What was asked for is there: all that was missing is the last write. */
  | { readonly action: "complete" }
  /** The host goes on with the turn and reports its end. */
  | { readonly action: "wait" }
  /** Nobody goes on with it: a new, counted attempt. */
  | { readonly action: "startOver" }
  | { readonly action: "fail"; readonly failure: Failure };

/** How long a host is trusted to be about to recover without a sign of life, before the ledger takes over. */
export const HOST_RECOVERY_LIMIT_MS = 10 * 60_000;

/**
 * Attempts of one submission that the platform's own resets (a deploy, a
 * memory limit, storage) may end without being counted. They are not the
 * turn's fault, but one that is reset every time must come to an end, too.
 */
export const MAX_FREE_RESETS = 20;

export function recover(evidence: Evidence): Decision {
  const { isAnswered, isReplied, applied, isHostRecovering, attempts, maxAttempts, waitedMs } =
    evidence;
  if (isAnswered || isReplied) return { action: "complete" };
  if (applied !== "none" && isHostRecovering && waitedMs < HOST_RECOVERY_LIMIT_MS) {
    return { action: "wait" };
  }
  if (evidence.hasEffects && !evidence.mayRepeatEffects) {
    return fail("its tools have had effects, so it is not run again");
  }
  if (attempts >= maxAttempts) return fail(`this was attempt ${attempts} of ${maxAttempts}`);
  return { action: "startOver" };
}

/** What is known of an attempt that has just given its answer. */
export type Answered = Pick<Evidence, "hasEffects" | "attempts" | "maxAttempts"> & {
  /** Whether its tokens are limited, so that another attempt might find none left. */
  readonly hasBudget: boolean;
};

/**
 * Whether a crash from now on would surely be followed by another attempt, which
 * gives an answer again: only then the one that was given may be lost with it.
 * What has had effects is not asked again for this, though the caller lets it.
 */
export function isAskedAgain({ hasEffects, hasBudget, attempts, maxAttempts }: Answered): boolean {
  return !hasEffects && !hasBudget && attempts < maxAttempts;
}

function fail(why: string): Decision {
  return {
    action: "fail",
    failure: { name: "TurnInterruptedError", message: `The turn was interrupted, and ${why}.` },
  };
}
