/** Tasks and runs that are not over. Reads only. A file of its own, because only `deployments()` needs it. */

import type { Position } from "../engine/page.ts";

export type OpenTask = {
  /** Of the task. */
  readonly id: string;
  /** When its schedule began. */
  readonly since: number;
};

/** Tasks with a next run or an open one, after a place, the oldest first. */
export function openTasks(sql: SqlStorage, [since, id]: Position, limit: number): OpenTask[] {
  const rows = sql.exec<OpenTask>(
    `SELECT task_id AS id, anchor AS since FROM perdure_tasks
     WHERE (anchor, task_id) > (?, ?) AND omitted_at IS NULL AND (next_at IS NOT NULL OR EXISTS (SELECT 1 FROM perdure_runs
       WHERE task_id = perdure_tasks.task_id AND occurrence >= open_from AND ended_at IS NULL))
     ORDER BY anchor, task_id LIMIT ?`,
    since,
    id,
    limit,
  );
  return rows.toArray();
}

export type OpenRun = {
  /** The task, the occurrence in epoch milliseconds, and the key of a trigger, if there is one. */
  readonly id: string;
  readonly taskId: string;
  /** When it fired. */
  readonly since: number;
};

/** Runs that wait or run, after a place, the oldest first. */
export function openRuns(sql: SqlStorage, [since, id]: Position, limit: number): OpenRun[] {
  const idOf = "task_id || '/' || occurrence || IIF(trigger_key = '', '', '/' || trigger_key)";
  const rows = sql.exec<OpenRun>(
    `SELECT * FROM (SELECT ${idOf} AS id, task_id AS taskId, fired_at AS since
       FROM perdure_tasks CROSS JOIN perdure_runs USING (task_id)
       WHERE occurrence >= open_from AND ended_at IS NULL)
     WHERE (since, id) > (?, ?) ORDER BY since, id LIMIT ?`,
    since,
    id,
    limit,
  );
  return rows.toArray();
}
