/** Submissions that wait for a limit. A file of its own, because only `limits()` needs it. */

import type { WaitingFor } from "../gate.ts";
import { isIsolated, json, type Submission, select } from "./rows.ts";
import type { SubmissionStore } from "./store.ts";

/**
 * pending → pending: it waits for a limit until it is due. An isolated one is scheduled like `notBefore`.
 *
 * @param hasRun whether a turn has ended because of it
 */
export function wait(
  { storage, open }: SubmissionStore,
  { seq, thread }: Pick<Submission, "seq" | "thread">,
  waitingFor: WaitingFor,
  dueAt: number,
  hasRun = false,
): Submission | undefined {
  const isScheduled = isIsolated(thread);
  if (isScheduled) open.reschedule();
  const query = `UPDATE perdure_submissions SET waiting_for = ?1, due_at = ?2${isScheduled ? ", not_before = ?2" : ""},
    waits = waits + ?3 WHERE seq = ?4 AND status = 'pending' RETURNING *`;
  return select(storage.sql, query, json(waitingFor), dueAt, hasRun ? 1 : 0, seq)[0];
}
