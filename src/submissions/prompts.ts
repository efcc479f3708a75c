/** The agent's side of `step.prompt()`: a prompt is a submission that has to be answered, and a waiting workflow is told. */

import type { WorkflowDestination } from "../outbox/types.ts";
import { MAIN } from "./host.ts";
import { isTerminal } from "./states.ts";
import type { Submissions } from "./submissions.ts";
import type {
  AnswerPart,
  PromptEnd,
  PromptReceipt,
  PromptRequest,
  SubmitMessagesResult,
} from "./types.ts";

/** `errorName` of the end of a prompt that the agent no longer has. */
export const NOT_FOUND = "SubmissionNotFoundError";

/** The event that reports this submission's end, and no other's (W3). */
function eventTypeOf(submissionId: string): string {
  return `perdure-prompt-${submissionId}`;
}

/** Accepts a prompt, or finds the one that was accepted before (W1). */
export async function acceptPrompt(
  ledger: Submissions,
  { idempotencyKey, run, workflow, messages, answer, thread = MAIN, budget, retry }: PromptRequest,
): Promise<PromptReceipt> {
  const drawn = crypto.randomUUID();
  const result = await ledger.accept(
    messages.map((message) => ({ ...message, id: message.id ?? crypto.randomUUID() })),
    {
      idempotencyKey,
      run,
      thread,
      answer,
      ...(budget && { budget }),
      ...(retry && { retry }),
      metadata: { workflow },
      notify: (id) => [destinationOf(id, workflow, drawn)],
    },
  );
  return receiptOf(ledger, result, drawn);
}

/** What a workflow asks whose schema refuses an answer that the agent has accepted. */
export type PromptRepair = Pick<PromptRequest, "run" | "workflow"> & {
  /** The submission whose answer is refused. */
  readonly submissionId: string;
  /** What is wrong with it, as the model is told. */
  readonly error: string;
};

/** Shows the model why its answer is refused, in a submission of its own, or finds that one; null where no repair is left (W4). */
export async function repairPrompt(
  ledger: Submissions,
  { submissionId, run, workflow, error }: PromptRepair,
): Promise<PromptReceipt | null> {
  const drawn = crypto.randomUUID();
  const notify = (id: string) => [destinationOf(id, workflow, drawn)];
  const result = await ledger.batches.repairOne(submissionId, { run, error, notify });
  return result && receiptOf(ledger, result, drawn);
}

function destinationOf(
  submissionId: string,
  workflow: PromptRequest["workflow"],
  proof: string,
): WorkflowDestination {
  const eventType = eventTypeOf(submissionId);
  return { kind: "workflow", workflow: workflow.name, instance: workflow.id, eventType, proof };
}

async function receiptOf(
  ledger: Submissions,
  { submissionId, status, accepted }: SubmitMessagesResult,
  drawn: string,
): Promise<PromptReceipt> {
  const end = isTerminal(status) ? await ledger.endOf(submissionId) : null;
  const proof = accepted ? drawn : await proofOf(ledger, submissionId);
  return { submissionId, eventType: eventTypeOf(submissionId), proof, ...(end && { end }) };
}

/** The proof that its event comes with, of a submission that was accepted before. */
async function proofOf(ledger: Submissions, submissionId: string): Promise<string | undefined> {
  const eventType = eventTypeOf(submissionId);
  for (const to of (await ledger.notified(submissionId)) ?? []) {
    if (to.kind === "workflow" && to.eventType === eventType) return to.proof;
  }
  return undefined;
}

/**
 * How a prompt has ended, or null: a result that is there wins (W2). One that the agent no longer has never ends, and must
 * not run again without being asked: that is an end as well.
 *
 * @param cancel whether an open one is cancelled: nobody waits for it any more
 */
export async function expirePrompt(
  ledger: Submissions,
  submissionId: string,
  { cancel }: { cancel: boolean },
): Promise<PromptEnd | null> {
  const end = await ledger.endOf(submissionId);
  if (end) return end;
  if (!(await ledger.notified(submissionId))) return notFound(submissionId);
  if (!cancel) return null;
  const { outcome } = await ledger.cancel(submissionId, "Workflow prompt wait timed out");
  return outcome === "already_terminal" ? ledger.endOf(submissionId) : null;
}

function notFound(submissionId: string): PromptEnd {
  const error =
    `The agent has no submission "${submissionId}" any more: it was deleted, or the agent was destroyed. ` +
    "The prompt is not run again by itself. Restart the workflow to ask again.";
  return { submissionId, status: "error", error, errorName: NOT_FOUND, attempts: 0 };
}

/**
 * A part of a prompt's answer, from 0 on, for a workflow that was told of it by
 * a reference (O4). Null when there is no such part: it was deleted meanwhile.
 */
export function readPrompt(
  ledger: Submissions,
  submissionId: string,
  part: number,
): Promise<AnswerPart | null> {
  return ledger.answerPart(submissionId, part);
}
