/**
 * The trace of a submission, built from rows: the same at each call, complete after any crash. Each module has its spans in
 * `operated/spans.ts`.
 */

import { Spans } from "../../engine/operated/spans.ts";
import {
  promptingStepOf,
  traceOfSubmission,
  traceOfWorkflow,
} from "../../submissions/inspection.ts";
import { statusOf, submissionKey } from "../../submissions/operated/spans.ts";
import { tracedSubmission } from "../../submissions/store/traced.ts";
import type { SubmissionInspection } from "../../submissions/types.ts";
import type { OperatedAgent } from "../operated.ts";
import type { Trace } from "../protocol.ts";
import { otherSteps } from "../workflows/steps.ts";
import {
  addEnd,
  addStepOf,
  addWithOthers,
  addWorkflow,
  rootKey,
  type TrackedWorkflow,
} from "./workflow-spans.ts";

/** Everything of a submission as spans, with the workflow that waits for it; null for an unknown id. @throws InvalidSubmissionError */
export async function traceSubmission(
  operated: OperatedAgent,
  submissionId: string,
): Promise<Trace | null> {
  const found = await operated.capabilities.submissions.inspect(submissionId);
  return found && (submissionTrace(operated, found.submissionId) ?? thinkTrace(found));
}

/**
 * The same at once, for an agent that has started and a submission of its ledger.
 *
 * @param scope `"submission"` leaves out its workflow and the other steps
 */
export function submissionTrace(
  { host, storage }: Pick<OperatedAgent, "host" | "storage">,
  submissionId: string,
  scope: "workflow" | "submission" = "workflow",
): Trace | null {
  const { sql } = storage;
  const submission = tracedSubmission(sql, submissionId);
  if (!submission) return null;
  const { traceId, callerSpanId } = traceOfSubmission(submission);
  const spans = new Spans(traceId);
  const of = promptingStepOf(submission);
  if (!of) addWithOthers(sql, spans, submission, callerSpanId);
  else if (scope === "submission") addStepOf(sql, spans, submission, of);
  else {
    const tracked = host.getWorkflow(of.id) as TrackedWorkflow | undefined;
    addWorkflow(sql, spans, submission, of, tracked);
  }
  return spans.trace(spans.idOf(submissionKey(submissionId)));
}

/** What no submission of a workflow has: how the workflow ended, and its steps without a prompt. Null if it is not tracked. */
export async function workflowTrace(
  operated: OperatedAgent,
  workflowId: string,
): Promise<Trace | null> {
  const { host, storage } = operated;
  const tracked = host.getWorkflow(workflowId);
  if (!tracked) return null;
  const of = { name: tracked.workflowName, id: workflowId };
  const platform = await otherSteps(operated, tracked);
  const spans = new Spans(traceOfWorkflow(of).traceId);
  addEnd(storage.sql, spans, of, tracked as TrackedWorkflow, platform);
  return spans.trace(spans.idOf(rootKey(of)));
}

/** A submission without a row was accepted by Think itself. Only its times are known. */
function thinkTrace(found: SubmissionInspection): Trace {
  const { submissionId, status, createdAt, startedAt, completedAt, error, errorName } = found;
  const row = { submissionId, run: undefined, metadata: undefined, traceParent: undefined };
  const spans = new Spans(traceOfSubmission(row).traceId);
  const key = submissionKey(submissionId);
  const ended = { endedAt: completedAt, status: statusOf(status), error };
  const attributes = {
    "perdure.submission.id": submissionId,
    "perdure.submission.status": status,
    "perdure.thread": found.thread,
    "perdure.accepted_by": "think",
    "error.type": errorName,
  };
  const head = { name: "perdure.submission", kind: "submission", startedAt: createdAt } as const;
  const parentSpanId = spans.add(key, { ...head, ...ended, attributes });
  const wait = { name: "perdure.wait", kind: "wait", startedAt: createdAt } as const;
  const endedAt = startedAt ?? completedAt;
  spans.add(`wait:${submissionId}:1`, { ...wait, parentSpanId, endedAt });
  if (startedAt !== undefined) {
    const turn = { name: "perdure.turn", kind: "attempt", startedAt, parentSpanId } as const;
    spans.add(`attempt:${submissionId}:1`, { ...turn, ...ended });
  }
  return spans.trace(spans.idOf(key));
}
