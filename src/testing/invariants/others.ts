/** S1, W2 and O5: checks of schedules, waits and the alarm. */

import { time } from "./open-work.ts";
import type { Rows } from "./rows.ts";

/** A wake that is no longer needed may fire instead of being removed. This is longer than any module arms ahead without work. */
const LAPSE_MS = 35_000;

/** S1: one run for each slot. */
export function runProblems(rows: Rows): string[] {
  return rows
    .of<{ task_id: string; slot: number; count: number }>(
      "perdure_runs",
      `SELECT task_id, slot, count(*) AS count FROM perdure_runs WHERE cause <> 'trigger'
       GROUP BY task_id, slot HAVING count > 1`,
    )
    .map(({ task_id, slot, count }) => `S1 ${task_id} has ${count} runs at ${time(slot)}`);
}

/** W2: no wait is open. */
export function waitProblems(rows: Rows): string[] {
  return rows
    .of<{ wait_id: string; kind: string }>(
      "perdure_waits",
      "SELECT wait_id, kind FROM perdure_waits WHERE settled_at IS NULL",
    )
    .map(({ wait_id, kind }) => `W2 the wait ${wait_id} (${kind}) is open`);
}

/** O5: an idle object has no alarm. */
export function alarmProblems(rows: Rows, alarm: number | null): string[] {
  if (alarm === null || alarm <= rows.now + LAPSE_MS || hasPlans(rows)) return [];
  return [`O5 the object is idle, and an alarm is set for ${time(alarm)}`];
}

/** Whether there is work for a later time. */
function hasPlans(rows: Rows): boolean {
  const plans = [
    ["perdure_submissions", "settled_at IS NULL"],
    ["perdure_submissions", "rollback_state = 'pending'"],
    ["perdure_tasks", "next_at IS NOT NULL"],
    ["perdure_runs", "ended_at IS NULL"],
    ["perdure_waits", "done_at IS NULL"],
    ["perdure_endpoints", "held_until IS NOT NULL"],
  ] as const;
  return plans.some(
    ([table, where]) => rows.of(table, `SELECT 1 FROM ${table} WHERE ${where} LIMIT 1`).length > 0,
  );
}
