/** A stored submission as callers, receivers and traces see it. */

import {
  deliveryKey,
  parseTraceparent,
  spanIdOf,
  traceOf,
  traceparentOf,
} from "../core/trace-context.ts";
import { ANSWER_BYTES } from "./options.ts";
import { isTerminal } from "./states.ts";
import type { Summary } from "./store/rows.ts";
import { publicThreadOf } from "./threads.ts";
import type {
  FailedAttempt,
  PromptEnd,
  SubmissionEnd,
  SubmissionEvent,
  SubmissionInspection,
} from "./types.ts";

export function inspect(
  submission: Summary,
  failedAttempts?: FailedAttempt[],
): SubmissionInspection {
  const { submissionId, status, createdAt, startedAt, settledAt } = submission;
  const { idempotencyKey, metadata, mergedInto, usage } = submission;
  const common = {
    submissionId,
    requestId: submissionId,
    createdAt,
    attempts: countedAttempts(submission),
    thread: publicThreadOf(submission.thread),
    ...defined({ idempotencyKey, metadata, mergedInto, usage }),
    ...(failedAttempts?.length && { failedAttempts }),
  };
  if (status === "pending")
    return {
      ...common,
      status,
      ...defined({ dueAt: submission.dueAt, waitingFor: submission.waitingFor }),
    };
  if (status === "running") return { ...common, status, startedAt: startedAt ?? createdAt };
  const { messageId, finishReason, output, error, errorName } = submission;
  const ended = {
    ...common,
    completedAt: settledAt ?? createdAt,
    ...defined({ startedAt, messageId, finishReason }),
  };
  return status === "completed"
    ? { ...ended, status, output: output?.read() ?? null, ...partialOf(submission) }
    : { ...ended, status, ...defined({ error, errorName }) };
}

/** One page of a list, cut before its metadata and answers exceed one RPC result. It has at least one submission. */
export function inspectPage(page: Iterable<Summary>): SubmissionInspection[] {
  const inspected: SubmissionInspection[] = [];
  let bytes = 0;
  for (const found of page) {
    const { metadata, error = "" } = found;
    bytes += error.length + (metadata ? JSON.stringify(metadata).length : 0);
    if (found.status === "completed") bytes += found.output?.bytes ?? 0;
    if (inspected.length > 0 && bytes > ANSWER_BYTES) break;
    inspected.push(inspect(found));
  }
  return inspected;
}

function endOf(submission: Summary): SubmissionEnd {
  const { submissionId, status, output, error, errorName } = submission;
  if (!isTerminal(status)) throw new Error(`Submission ${submissionId} has not ended: ${status}`);
  return {
    submissionId,
    status,
    ...costsOf(submission),
    ...defined(
      status === "completed"
        ? { output: output?.read() }
        : { error, errorName, refusedOutput: output?.read() },
    ),
  };
}

/** The data of the event of an end, with what the caller gave the submission. */
export function eventOf(submission: Summary): SubmissionEvent["data"] {
  const { thread, metadata, idempotencyKey } = submission;
  return {
    ...endOf(submission),
    thread: publicThreadOf(thread),
    ...defined({ metadata, idempotencyKey }),
  };
}

/** The end in a form that the result of a workflow step can hold: a large answer as a reference. */
export function shortEndOf(submission: Summary): PromptEnd {
  const { submissionId, status, output } = submission;
  if (status !== "completed" || !output?.isLarge) return endOf(submission);
  return { submissionId, status, ...costsOf(submission), reference: { bytes: output.bytes } };
}

function costsOf(submission: Summary) {
  const { usage, messageId, finishReason } = submission;
  return {
    attempts: countedAttempts(submission),
    ...defined({ usage, messageId, finishReason }),
    ...partialOf(submission),
  };
}

/** Finish reasons of a text that is not whole. */
const PARTIAL: ReadonlySet<string | null | undefined> = new Set([
  "length",
  "content-filter",
  "other",
]);

/** Whether it completed with a part of its answer. */
export function isPartial(
  of: Pick<Summary, "status"> & {
    readonly finishReason?: string | null | undefined;
  },
): boolean {
  return of.status === "completed" && PARTIAL.has(of.finishReason);
}

function partialOf(submission: Summary): { isPartial?: true } {
  return isPartial(submission) ? { isPartial: true } : {};
}

/** Without those that ended because a model call had to wait for a limit. */
export function countedAttempts({ attempts, waits }: Pick<Summary, "attempts" | "waits">): number {
  return attempts - waits;
}

type Defined<T> = { [Key in keyof T]?: Exclude<T[Key], undefined> };

function defined<T extends object>(object: T): Defined<T> {
  const entries = Object.entries(object).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as Defined<T>;
}

/*
 * Which trace a submission belongs to, and the ids of its spans. They are derived from rows, so they are never stored.
 */

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

/** The `traceparent` header of the requests of a delivery: its own span is the parent of what the receiver does. */
export function traceparentFor(submission: Traced, deliveryId: string): string {
  const { traceId, flags } = traceOfSubmission(submission);
  return traceparentOf({ traceId, flags, spanId: spanIdOf(traceId, deliveryKey(deliveryId)) });
}
