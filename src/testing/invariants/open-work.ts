/** The unfinished work of an object, as problems. Reads only. */

import type { Rows } from "./rows.ts";

/** "now": work that can run now. "ever": also work that waits for a retry. Neither includes work for a later time (`notBefore`, schedules). */
export type Horizon = "now" | "ever";

/** The unfinished work. An object without any is idle. */
export function openWork(rows: Rows, horizon: Horizon = "ever"): string[] {
  return [
    ...submissions(rows, horizon),
    ...deliveries(rows, horizon),
    ...runs(rows, horizon),
    ...waits(rows),
  ];
}

type Open = {
  submission_id: string;
  status: string;
  not_before: number | null;
  due_at: number | null;
};

function submissions(rows: Rows, horizon: Horizon): string[] {
  const open = rows.of<Open>(
    "perdure_submissions",
    `SELECT submission_id, status, not_before, due_at FROM perdure_submissions
     WHERE settled_at IS NULL`,
  );
  const isLater = ({ status, not_before: asked, due_at: retried }: Open) => {
    const at = (horizon === "now" ? retried : null) ?? asked;
    return status === "pending" && at !== null && at > rows.now;
  };
  return open
    .filter((one) => !isLater(one))
    .map(({ submission_id, status }) => `L1 submission ${submission_id} is still ${status}`);
}

function deliveries(rows: Rows, horizon: Horizon): string[] {
  const waiting = rows.of<{ id: string; attempts: number; last_error: string | null }>(
    "perdure_outbox",
    "SELECT id, attempts, last_error FROM perdure_outbox WHERE due_at <= ?",
    until(rows, horizon),
  );
  const unreported = rows.of<{ id: string }>(
    "perdure_dead_letters",
    "SELECT id FROM perdure_dead_letters WHERE is_notified = 0",
  );
  return [
    ...waiting.map(
      ({ id, attempts, last_error: why }) =>
        `O2 delivery ${id} still waits, at attempt ${attempts}${why === null ? "" : ` (${why})`}`,
    ),
    ...unreported.map(({ id }) => `O3 the dead letter ${id} was not reported`),
  ];
}

function runs(rows: Rows, horizon: Horizon): string[] {
  const open = rows.of<{ task_id: string; slot: number; status: string }>(
    "perdure_runs",
    "SELECT task_id, slot, status FROM perdure_runs WHERE ended_at IS NULL AND not_before <= ?",
    until(rows, horizon),
  );
  const late = rows.of<{ task_id: string; next_at: number }>(
    "perdure_tasks",
    "SELECT task_id, next_at FROM perdure_tasks WHERE paused_at IS NULL AND next_at <= ?",
    rows.now,
  );
  return [
    ...open.map(
      ({ task_id, slot, status }) => `S5 the run of ${task_id} at ${time(slot)} is still ${status}`,
    ),
    ...late.map(({ task_id, next_at }) => `S1 ${task_id} was due at ${time(next_at)}`),
  ];
}

/** Waits that have ended and still have work to do, and waits that are open after their end time. */
function waits(rows: Rows): string[] {
  const ended = rows.of<{ wait_id: string; status: string }>(
    "perdure_waits",
    "SELECT wait_id, status FROM perdure_waits WHERE settled_at IS NOT NULL AND done_at IS NULL",
  );
  const late = rows.of<{ wait_id: string }>(
    "perdure_waits",
    "SELECT wait_id FROM perdure_waits WHERE settled_at IS NULL AND expires_at <= ?",
    rows.now,
  );
  return [
    ...ended.map(({ wait_id, status }) => `W2 wait ${wait_id} is ${status} and not cleaned up`),
    ...late.map(({ wait_id }) => `W2 wait ${wait_id} has expired and is open`),
  ];
}

export function time(ms: number): string {
  return new Date(ms).toISOString();
}

function until({ now }: Rows, horizon: Horizon): number {
  return horizon === "now" ? now : Number.MAX_SAFE_INTEGER;
}
