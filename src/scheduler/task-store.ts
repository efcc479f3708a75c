/** All SQL of the tasks' rows, and these rows in memory. */

import type { TaskRow } from "./rows.ts";

/** Runs when what was written has committed. */
export type Defer = (effect: () => void) => void;

type SqlRow = {
  task_id: string;
  fingerprint: string;
  anchor: number;
  next_at: number | null;
  open_from: number | null;
  paused_at: number | null;
  paused_by: "hand" | "failure" | null;
  paused_note: string | null;
  fired: number;
  runs: number;
  failures: number;
  missed: number;
  forgotten_completed: number;
  forgotten_failed: number;
  forgotten_skipped: number;
  omitted_at: number | null;
};

const COLUMNS = [
  "task_id",
  "fingerprint",
  "anchor",
  "next_at",
  "open_from",
  "paused_at",
  "paused_by",
  "paused_note",
  "fired",
  "runs",
  "failures",
  "missed",
  "forgotten_completed",
  "forgotten_failed",
  "forgotten_skipped",
  "omitted_at",
] as const satisfies readonly (keyof SqlRow)[];

const PUT = `INSERT INTO perdure_tasks (${COLUMNS.join(", ")}) VALUES (${COLUMNS.map(() => "?").join(", ")})
  ON CONFLICT (task_id) DO UPDATE SET ${COLUMNS.slice(1)
    .map((column) => `${column} = excluded.${column}`)
    .join(", ")}`;

export class TaskStore {
  #rows = new Map<string, TaskRow>();

  constructor(
    private readonly sql: SqlStorage,
    private readonly defer: Defer,
  ) {}

  /** By task id. */
  get rows(): ReadonlyMap<string, TaskRow> {
    return this.#rows;
  }

  load(): void {
    const found = this.sql.exec<SqlRow>("SELECT * FROM perdure_tasks").toArray();
    this.#rows = new Map(found.map((row) => [row.task_id, toRow(row)]));
  }

  /** Inserts a task's row, or replaces it. */
  put(row: TaskRow): void {
    const { forgotten } = row;
    this.sql.exec(
      PUT,
      row.taskId,
      row.fingerprint,
      row.anchor,
      row.nextAt,
      row.openFrom,
      row.pausedAt,
      row.pausedBy,
      row.pausedNote,
      row.fired,
      row.runs,
      row.failures,
      row.missed,
      forgotten.completed,
      forgotten.failed,
      forgotten.skipped,
      row.omittedAt,
    );
    this.defer(() => this.#rows.set(row.taskId, row));
  }

  delete(taskIds: readonly string[]): void {
    this.sql.exec(
      "DELETE FROM perdure_tasks WHERE task_id IN (SELECT value FROM json_each(?))",
      JSON.stringify(taskIds),
    );
    this.defer(() => {
      for (const taskId of taskIds) this.#rows.delete(taskId);
    });
  }
}

function toRow(row: SqlRow): TaskRow {
  return {
    taskId: row.task_id,
    fingerprint: row.fingerprint,
    anchor: row.anchor,
    nextAt: row.next_at,
    openFrom: row.open_from,
    pausedAt: row.paused_at,
    pausedBy: row.paused_by,
    pausedNote: row.paused_note,
    fired: row.fired,
    runs: row.runs,
    failures: row.failures,
    missed: row.missed,
    forgotten: {
      completed: row.forgotten_completed,
      failed: row.forgotten_failed,
      skipped: row.forgotten_skipped,
    },
    omittedAt: row.omitted_at,
  };
}
