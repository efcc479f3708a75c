/** The platform's span of one turn. */

import { inSpan, type SpanAttributes } from "../../../core/spans.ts";
import { publicThreadOf, type TurnEnd } from "../host.ts";
import type { LiveTurn } from "./live-turn.ts";

export function inTurnSpan(live: LiveTurn, run: () => Promise<TurnEnd>): Promise<TurnEnd> {
  return inSpan("perdure.turn", spanOf(live), async (span) => {
    const end = await run();
    span.set({ "perdure.attempt": live.attempt, ...outcomeOf(live, end) });
    const failed = errorTypeOf(live, end);
    if (failed !== undefined) span.fail(failed);
    return end;
  });
}

function spanOf({ submission }: LiveTurn): SpanAttributes {
  return {
    "perdure.submission.id": submission.submissionId,
    "perdure.thread": publicThreadOf(submission.thread),
    // A claim counts it.
    "perdure.attempt": submission.attempts + 1,
    "gen_ai.operation.name": "invoke_agent",
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
