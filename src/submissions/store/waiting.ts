/** Submissions that wait for a limit. A file of its own, because only `limits()` needs it. */

import { isIsolated } from "../threads.ts";
import type { WaitingFor } from "../types.ts";
import { json, type Submission, select } from "./rows.ts";
import type { SubmissionStore } from "./store.ts";

/**
 * pending → pending: it waits for a limit until it is due. An isolated one is scheduled like `notBefore`.
 */
export function wait(
  { storage, open }: SubmissionStore,
  { seq, thread }: Pick<Submission, "seq" | "thread">,
  waitingFor: WaitingFor,
  dueAt: number,
): Submission | undefined {
  const isScheduled = isIsolated(thread);
  if (isScheduled) open.reschedule();
  const query = `UPDATE perdure_submissions SET waiting_for = ?1, due_at = ?2${isScheduled ? ", not_before = ?2" : ""}
    WHERE seq = ?3 AND status = 'pending' RETURNING *`;
  return select(storage.sql, query, json(waitingFor), dueAt, seq)[0];
}

/**
 * running → running: its model call waits in memory until then, or no longer. A crash meanwhile counts no attempt.
 *
 * @param until undefined for a call that waits no longer
 */
export function waitInMemory({ storage }: SubmissionStore, seq: number, until?: number): void {
  const query = "UPDATE perdure_submissions SET due_at = ? WHERE seq = ? AND status = 'running'";
  storage.sql.exec(query, until ?? null, seq);
}
