/** A turn in memory, as its host sees it, and the platform's span of it. */

import { inSpan, type SpanAttributes } from "../../core/spans.ts";
import { type Turn, type TurnEnd, TurnRefused } from "../host.ts";
import type { AttemptRef } from "../states.ts";
import type { StatusHooks } from "../status-hooks.ts";
import type { Submission } from "../store/rows.ts";
import { publicThreadOf } from "../threads.ts";
import type { AttemptPlan } from "./next-attempt.ts";

export type LiveTurn = ReturnType<typeof liveTurn>;

export function liveTurn(submission: Submission, now: number) {
  return {
    /** The row when the turn started; after the claim, the row as it was claimed. */
    submission,
    controller: new AbortController(),
    attempt: undefined as number | undefined,
    plan: undefined as AttemptPlan | undefined,
    /** The submission as the end of the attempt has left it, for a host that reports the end before the turn returns. */
    reported: undefined as Pick<Submission, "status" | "errorName"> | undefined,
    /** Whether it was aborted while its submission stays open. */
    isStopped: false,
    /** Whether its messages are removed from the conversation once it has ended. */
    isRolledBack: false,
    isInHook: false,
    heartbeatAt: now,
  };
}

type Running = {
  readonly isGivenUp: () => boolean;
  /** Undefined if it must not run any more. */
  readonly begin: () => AttemptRef | undefined;
};

/** The turn as its host sees it. */
export function turnOf(live: LiveTurn, hooks: StatusHooks, { isGivenUp, begin }: Running): Turn {
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
      live.isInHook = true;
      await hooks.whenNotified(submissionId, signal);
      live.isInHook = false;
      if (signal.aborted) refuse();
    },
  };
}

function refuse(): never {
  throw new TurnRefused();
}

export function inTurnSpan(live: LiveTurn, run: () => Promise<TurnEnd>): Promise<TurnEnd> {
  return inSpan("perdure.turn", spanOf(live), async (span) => {
    const end = await run();
    span.set({ "perdure.attempt": live.attempt, ...outcomeOf(live, end) });
    const failed = errorTypeOf(live, end);
    if (failed !== undefined) span.fail(failed);
    return end;
  });
}

function spanOf({ submission, heartbeatAt }: LiveTurn): SpanAttributes {
  const { waitingFor } = submission;
  return {
    "perdure.submission.id": submission.submissionId,
    "perdure.thread": publicThreadOf(submission.thread),
    // A claim counts it.
    "perdure.attempt": submission.attempts + 1,
    "gen_ai.operation.name": "invoke_agent",
    "perdure.limit.name": waitingFor?.limit,
    "perdure.limit.wait_ms": waitingFor && heartbeatAt - waitingFor.since,
  };
}

function outcomeOf({ reported }: LiveTurn, { outcome }: TurnEnd): SpanAttributes {
  return { "perdure.outcome": outcome === "reported" ? reported?.status : outcome };
}

function errorTypeOf({ reported }: LiveTurn, end: TurnEnd): string | undefined {
  if (end.outcome === "error") return end.failure.name;
  if (end.outcome !== "reported") return undefined;
  // A pending one is attempted again.
  if (reported?.status === "pending") return "TurnError";
  return reported?.status === "error" ? (reported.errorName ?? "TurnError") : undefined;
}
