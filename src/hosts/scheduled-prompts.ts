/** The prompts of scheduled tasks as submissions to the agent itself, for every kind of host. */

import type { PromptPort, ScheduledPromptEnd } from "../scheduler/index.ts";
import type { SubmissionInspection, Submissions } from "../submissions/index.ts";

/** Prompts as submissions to the agent itself. */
export function promptsTo(submissions: Submissions): PromptPort {
  /** Calls for the same submission share one wait. */
  const waits = new Map<string, Promise<SubmissionInspection | null>>();
  const wait = async (id: string) => {
    const found = await submissions.inspect(id);
    if (found?.status !== "pending" && found?.status !== "running") return found;
    const waiting =
      waits.get(id) ?? submissions.waitInsideTurn(id).finally(() => void waits.delete(id));
    waits.set(id, waiting);
    return waiting;
  };
  return {
    submit: async (prompt, { idempotencyKey, metadata, retry }) => {
      const parts = [{ type: "text" as const, text: prompt }];
      // The ledger has no value for "no limit".
      const attempts = retry?.maxAttempts && Math.min(retry.maxAttempts, Number.MAX_SAFE_INTEGER);
      return submissions.accept(
        // The same id each time, so that a repeated submission has the same message.
        [{ id: idempotencyKey, role: "user", parts }],
        { idempotencyKey, metadata, ...(attempts && { retry: { maxAttempts: attempts } }) },
      );
    },
    ended: async (submissionId) => {
      const ended = await wait(submissionId);
      return ended && endOf(ended);
    },
    cancel: async (submissionId, reason) => {
      await submissions.cancel(submissionId, reason);
    },
  };
}

function endOf(submission: SubmissionInspection): ScheduledPromptEnd {
  if (submission.status === "pending" || submission.status === "running") {
    throw new Error(`Submission ${submission.submissionId} has not ended`);
  }
  const { status, errorName: name = "Error", error: message } = submission;
  return { status, ...(message !== undefined && { error: { name, message } }) };
}
