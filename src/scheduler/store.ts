/**
 * The scheduler's tables and its transactions. Has all SQL of the tasks' rows; that of runs is in run-store.ts. Tasks and
 * open runs are also kept in memory, where a change appears when its transaction has committed.
 */

import { migrate } from "../core/migrations.ts";
import { newOwner } from "./keys.ts";
import type { TaskRow } from "./rows.ts";
import { RunStore } from "./runs/run-store.ts";

const MIGRATIONS = [
  `CREATE TABLE perdure_tasks (
     task_id TEXT PRIMARY KEY,
     fingerprint TEXT NOT NULL,
     anchor INTEGER NOT NULL,
     next_at INTEGER,
     open_from INTEGER,
     paused_at INTEGER,
     paused_by TEXT,
     paused_note TEXT,
     fired INTEGER NOT NULL,
     runs INTEGER NOT NULL,
     failures INTEGER NOT NULL,
     missed INTEGER NOT NULL,
     pruned_completed INTEGER NOT NULL,
     pruned_failed INTEGER NOT NULL,
     pruned_skipped INTEGER NOT NULL,
     omitted_at INTEGER
   ) WITHOUT ROWID;
   CREATE TABLE perdure_schedule_owner (owner TEXT NOT NULL);
   CREATE TABLE perdure_runs (
     task_id TEXT NOT NULL,
     slot INTEGER NOT NULL,
     trigger_key TEXT NOT NULL,
     cause TEXT NOT NULL,
     status TEXT NOT NULL,
     fired_at INTEGER NOT NULL,
     lag_ms INTEGER NOT NULL,
     attempts INTEGER NOT NULL,
     not_before INTEGER NOT NULL,
     ended_at INTEGER,
     submission_id TEXT,
     error_name TEXT,
     reason TEXT,
     error_message TEXT,
     PRIMARY KEY (task_id, slot, trigger_key)
   ) WITHOUT ROWID;`,
] as const;

type TaskSqlRow = {
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
  pruned_completed: number;
  pruned_failed: number;
  pruned_skipped: number;
  omitted_at: number | null;
};

export class Store {
  readonly runs: RunStore;
  #tasks = new Map<string, TaskRow>();
  #owner: string | undefined;
  #isOwnerNew = false;
  /** Changes of the memory, to be made when the open transaction has committed; undefined outside of one. */
  #effects: (() => void)[] | undefined;

  /** @param owner the app's own name for this object's runs; undefined for a stored one */
  constructor(
    private readonly storage: DurableObjectStorage,
    owner: string | undefined,
  ) {
    this.#owner = owner;
    this.runs = new RunStore(storage.sql, (effect) => this.#afterCommit(effect));
  }

  /** Call it first: creates the tables and reads what they hold. */
  open(): void {
    migrate(this.storage, "scheduler", MIGRATIONS);
    const rows = this.storage.sql.exec<TaskSqlRow>("SELECT * FROM perdure_tasks").toArray();
    this.#tasks = new Map(rows.map((row) => [row.task_id, toTaskRow(row)]));
    this.runs.load();
  }

  /** By task id. */
  get tasks(): ReadonlyMap<string, TaskRow> {
    return this.#tasks;
  }

  /** Tells this object's runs from those of all others: a part of each idempotency key. */
  get owner(): string {
    if (this.#owner === undefined) {
      const query = "SELECT owner FROM perdure_schedule_owner";
      const stored = this.storage.sql.exec<{ owner: string }>(query).toArray()[0];
      this.#isOwnerNew = stored === undefined;
      this.#owner = stored?.owner ?? newOwner();
    }
    return this.#owner;
  }

  /** Whether the owner is not stored yet. */
  get isOwnerNew(): boolean {
    return this.#isOwnerNew;
  }

  putOwner(): void {
    this.storage.sql.exec("INSERT INTO perdure_schedule_owner VALUES (?)", this.owner);
    this.#afterCommit(() => {
      this.#isOwnerNew = false;
    });
  }

  /** All changes that `work` makes commit together, or none does. No transaction within another. */
  transaction<T>(work: () => T): T {
    const effects: (() => void)[] = [];
    this.#effects = effects;
    let result: T;
    try {
      result = this.storage.transactionSync(work);
    } finally {
      this.#effects = undefined;
    }
    for (const effect of effects) effect();
    return result;
  }

  #afterCommit(effect: () => void): void {
    if (this.#effects) this.#effects.push(effect);
    else effect();
  }

  /** Inserts a task's row, or replaces it. */
  putTask(row: TaskRow): void {
    const values = toTaskSqlRow(row);
    const columns = Object.keys(values);
    const updates = columns.slice(1).map((column) => `${column} = excluded.${column}`);
    this.storage.sql.exec(
      `INSERT INTO perdure_tasks (${columns.join(", ")}) VALUES (${columns.map(() => "?").join(", ")})
       ON CONFLICT (task_id) DO UPDATE SET ${updates.join(", ")}`,
      ...Object.values(values),
    );
    this.#afterCommit(() => this.#tasks.set(row.taskId, row));
  }

  deleteTasks(taskIds: readonly string[]): void {
    if (taskIds.length === 0) return;
    this.storage.sql.exec(
      "DELETE FROM perdure_tasks WHERE task_id IN (SELECT value FROM json_each(?))",
      JSON.stringify(taskIds),
    );
    this.#afterCommit(() => {
      for (const taskId of taskIds) this.#tasks.delete(taskId);
    });
  }
}

function toTaskSqlRow(row: TaskRow): TaskSqlRow {
  return {
    task_id: row.taskId,
    fingerprint: row.fingerprint,
    anchor: row.anchor,
    next_at: row.nextAt,
    open_from: row.openFrom,
    paused_at: row.pausedAt,
    paused_by: row.pausedBy,
    paused_note: row.pausedNote,
    fired: row.fired,
    runs: row.runs,
    failures: row.failures,
    missed: row.missed,
    pruned_completed: row.pruned.completed,
    pruned_failed: row.pruned.failed,
    pruned_skipped: row.pruned.skipped,
    omitted_at: row.omittedAt,
  };
}

function toTaskRow(row: TaskSqlRow): TaskRow {
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
    pruned: {
      completed: row.pruned_completed,
      failed: row.pruned_failed,
      skipped: row.pruned_skipped,
    },
    omittedAt: row.omitted_at,
  };
}
