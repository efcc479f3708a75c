/** A turn in memory. */

import type { Submission } from "../store/rows.ts";
import type { AttemptPlan } from "./attempt-plan.ts";

export type LiveTurn = {
  /** As it was when it was started; after its claim, as it was claimed. */
  submission: Submission;
  readonly controller: AbortController;
  /** Set when the turn has begun. */
  attempt: number | undefined;
  plan: AttemptPlan | undefined;
  /** Whether it was aborted while its submission stays open. */
  isStopped: boolean;
  /** Whether its messages are removed from the conversation once it has ended. */
  isRolledBack: boolean;
  /** Whether it waits for the app's status hook. */
  isInHook: boolean;
  /** When it last made progress, epoch milliseconds. */
  heartbeatAt: number;
  work: Promise<void>;
};

export function liveTurn(submission: Submission, now: number): LiveTurn {
  return {
    submission,
    controller: new AbortController(),
    attempt: undefined,
    plan: undefined,
    isStopped: false,
    isRolledBack: false,
    isInHook: false,
    heartbeatAt: now,
    work: Promise.resolve(),
  };
}
