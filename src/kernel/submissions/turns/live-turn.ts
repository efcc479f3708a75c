/** A turn in memory. */

import type { Submission } from "../store/rows.ts";
import type { AttemptPlan } from "./attempt-plan.ts";

export type LiveTurn = ReturnType<typeof liveTurn>;

export function liveTurn(submission: Submission, now: number) {
  return {
    /** The row when the turn started; after the claim, the row as it was claimed. */
    submission,
    controller: new AbortController(),
    /** Set when the turn has begun. */
    attempt: undefined as number | undefined,
    plan: undefined as AttemptPlan | undefined,
    /** The submission as the end of the attempt has left it, for a host that reports the end before the turn returns. */
    reported: undefined as Pick<Submission, "status" | "errorName"> | undefined,
    /** Whether it was aborted while its submission stays open. */
    isStopped: false,
    /** Whether its messages are removed from the conversation once it has ended. */
    isRolledBack: false,
    /** Whether it waits for the app's status hook. */
    isInHook: false,
    /** When it last made progress, epoch milliseconds. */
    heartbeatAt: now,
  };
}
