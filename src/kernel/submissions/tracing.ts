/** Which trace a submission belongs to, and the ids of its spans. The ids are derived from rows, so they are never stored. */

import { parseTraceparent, spanIdOf, traceOf, traceparentOf } from "../../core/trace-context.ts";
import type { Summary } from "./store/rows.ts";

/** A step of a workflow, as the metadata of its prompts has it. */
export type PromptingStep = {
  readonly name: string;
  readonly id: string;
  readonly stepName: string;
  /** The key of an item of `step.promptAll()`. */
  readonly item?: string;
};

export type SubmissionTrace = {
  readonly traceId: string;
  readonly flags: number;
  /** The span of the caller, in another system. */
  readonly callerSpanId?: string;
};

type Traced = Pick<Summary, "submissionId" | "traceParent" | "run" | "metadata">;

export function promptingStepOf({ run, metadata }: Traced): PromptingStep | undefined {
  // Metadata alone does not show it: it is the caller's.
  return run === undefined ? undefined : (metadata?.workflow as PromptingStep | undefined);
}

/** The trace that its caller gave, that of the workflow instance that waits for it, or its own. */
export function traceOfSubmission(submission: Traced): SubmissionTrace {
  const given = parseTraceparent(submission.traceParent);
  if (given) return { traceId: given.traceId, flags: given.flags, callerSpanId: given.spanId };
  const step = promptingStepOf(submission);
  return step ? traceOfWorkflow(step) : traceOf(`submission:${submission.submissionId}`);
}

export function traceOfWorkflow({ name, id }: Pick<PromptingStep, "name" | "id">): SubmissionTrace {
  return traceOf(`workflow:${name}:${id}`);
}

export function deliveryKey(deliveryId: string): string {
  return `delivery:${deliveryId}`;
}

/** The `traceparent` header of the requests of a delivery: its own span is the parent of what the receiver does. */
export function traceparentFor(submission: Traced, deliveryId: string): string {
  const { traceId, flags } = traceOfSubmission(submission);
  return traceparentOf({ traceId, flags, spanId: spanIdOf(traceId, deliveryKey(deliveryId)) });
}
