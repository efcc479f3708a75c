/** The prompts of scheduled tasks, as submissions to the object itself. */

import type { SubmissionInspection, Submissions } from "../submissions/index.ts";
import type { PromptPort } from "./types.ts";

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
      if (ended?.status === "pending" || ended?.status === "running") {
        throw new Error(`Submission ${submissionId} has not ended`);
      }
      if (!ended) return null;
      const { status, errorName: name = "Error", error: message } = ended;
      return { status, ...(message !== undefined && { error: { name, message } }) };
    },
    cancel: async (submissionId, reason) => {
      await submissions.cancel(submissionId, reason);
    },
  };
}
