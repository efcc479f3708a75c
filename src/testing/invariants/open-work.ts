/** The unfinished work of an object, as problems. Reads only. */

import { isoTime, type Rows } from "./rows.ts";

/** "now": work that can run now. "ever": also work that waits for a retry. Neither includes work for a later time (`notBefore`, schedules). */
export type Horizon = "now" | "ever";

/** The unfinished work. An object without any is idle. */
export function openWork(rows: Rows, horizon: Horizon = "ever"): string[] {
  const { now } = rows;
  const until = horizon === "now" ? now : Number.MAX_SAFE_INTEGER;
  // `due_at` of a pending submission is the time of its retry.
  const startsAt =
    horizon === "now" ? "coalesce(due_at, not_before, 0)" : "coalesce(not_before, 0)";
  return [
    ...rows.problems(
      "perdure_submissions",
      "'L1 submission ' || submission_id || ' is still ' || status",
      `WHERE settled_at IS NULL AND (status <> 'pending' OR ${startsAt} <= ?)`,
      now,
    ),
    ...rows.problems(
      "perdure_outbox",
      "'O2 delivery ' || id || ' still waits, at attempt ' || attempts || coalesce(' (' || last_error || ')', '')",
      "WHERE due_at <= ?",
      until,
    ),
    ...rows.problems(
      "perdure_dead_letters",
      "'O3 the dead letter ' || id || ' was not reported'",
      "WHERE is_notified = 0",
    ),
    ...rows.problems(
      "perdure_runs",
      `'S5 the run of ' || task_id || ' at ' || ${isoTime("occurrence")} || ' is still ' || status`,
      "WHERE ended_at IS NULL AND not_before <= ?",
      until,
    ),
    ...rows.problems(
      "perdure_tasks",
      `'S1 ' || task_id || ' was due at ' || ${isoTime("next_at")}`,
      "WHERE paused_at IS NULL AND next_at <= ?",
      now,
    ),
    ...rows.problems(
      "perdure_waits",
      "'W2 wait ' || wait_id || ' is ' || status || ' and not cleaned up'",
      "WHERE settled_at IS NOT NULL AND done_at IS NULL",
    ),
    ...rows.problems(
      "perdure_waits",
      "'W2 wait ' || wait_id || ' has expired and is open'",
      "WHERE settled_at IS NULL AND expires_at <= ?",
      now,
    ),
  ];
}
