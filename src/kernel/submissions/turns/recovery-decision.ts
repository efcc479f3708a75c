/** Decides what to do with a submission that was running when its object stopped. Pure. */

import type { Failure } from "../../../core/failures.ts";
import type { Applied } from "../host.ts";

export type Evidence = {
  readonly isAnswered: boolean;
  /** Whether the whole reply is in the conversation, and no answer is needed. */
  readonly isReplied: boolean;
  readonly applied: Applied;
  readonly hasEffects: boolean;
  readonly isHostRecovering: boolean;
  /** Whether another attempt is allowed in spite of that. */
  readonly mayRepeatEffects: boolean;
  /** Attempts so far, without those that a reset of the platform ended; and the limit. */
  readonly attempts: number;
  readonly maxAttempts: number;
  /** Milliseconds since the object started, or since the host last reported progress. */
  readonly waitedMs: number;
};

export type Decision =
  /** The result is there: only the last write was missing. */
  | { readonly action: "complete" }
  /** The host recovers the turn and reports its end. */
  | { readonly action: "wait" }
  /** The host does not recover it: a new, counted attempt. */
  | { readonly action: "startOver" }
  | { readonly action: "fail"; readonly failure: Failure };

/** How long the ledger waits for a host that reports no progress. */
export const HOST_RECOVERY_LIMIT_MS = 10 * 60_000;

/** Attempts of one submission that resets of the platform may end without being counted. A turn that is always reset must end. */
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

/** An attempt that has just given its answer. */
export type Answered = Pick<Evidence, "hasEffects" | "attempts" | "maxAttempts"> & {
  /** Whether its tokens are limited, so that another attempt might find none left. */
  readonly hasBudget: boolean;
};

/** Whether another attempt would certainly follow a crash and answer again: only then may the answer be held in memory. */
export function isAskedAgain({ hasEffects, hasBudget, attempts, maxAttempts }: Answered): boolean {
  return !hasEffects && !hasBudget && attempts < maxAttempts;
}

function fail(why: string): Decision {
  return {
    action: "fail",
    failure: { name: "TurnInterruptedError", message: `The turn was interrupted, and ${why}.` },
  };
}
