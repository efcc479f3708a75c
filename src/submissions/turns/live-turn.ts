/** A turn that lives in memory, and how its host sees it. */

import { type AttemptRef, type Turn, TurnRefused } from "../host.ts";
import type { Submission } from "../store/rows.ts";
import type { AttemptPlan } from "./attempt-plan.ts";

export type LiveTurn = {
  /** As it was when it was started, and from its claim on as it was claimed. */
  submission: Submission;
  readonly controller: AbortController;
  /** The attempt, from the moment that the turn has started. */
  attempt: number | undefined;
  /** What that attempt asks. */
  plan: AttemptPlan | undefined;
  /** Whether it was told to stop, while its submission is open. */
  isStopped: boolean;
  /** Whether it waits for the app, which is told that it runs. */
  isBeingTold: boolean;
  /** When something of it was last heard, epoch milliseconds. */
  heardAt: number;
  work: Promise<void>;
};

export function liveTurn(submission: Submission, now: number): LiveTurn {
  return {
    submission,
    controller: new AbortController(),
    attempt: undefined,
    plan: undefined,
    isStopped: false,
    isBeingTold: false,
    heardAt: now,
    work: Promise.resolve(),
  };
}

/** What the host's view needs of the runner. */
export type LiveTurnOwner = {
  isGivenUp(): boolean;
  /** Claims the submission. Returns undefined for one that is not to be run any more. */
  begin(): AttemptRef | undefined;
  /** Resolves when the app has been told of the latest status, or the signal is aborted. */
  told(submissionId: string, signal: AbortSignal): Promise<void>;
};

export function turnOf(live: LiveTurn, { isGivenUp, begin, told }: LiveTurnOwner): Turn {
  const { submissionId, thread, channel } = live.submission;
  const { signal } = live.controller;
  return {
    submissionId,
    thread,
    channel,
    signal,
    get isGivenUp() {
      return isGivenUp();
    },
    get messages() {
      return live.submission.messages;
    },
    get plan() {
      return live.plan;
    },
    get isAgain() {
      return live.submission.isRetry || live.submission.attempts > 1;
    },
    begin: () => begin() ?? refuse(),
    announced: async () => {
      live.isBeingTold = true;
      await told(submissionId, signal);
      live.isBeingTold = false;
      if (signal.aborted) refuse();
    },
  };
}

function refuse(): never {
  throw new TurnRefused();
}
