/**
 * The scheduler's tables and its transactions; the SQL of runs is in run-store.ts. Tasks and open runs are also kept in
 * memory, where a change appears when its transaction has committed.
 */

import { columnOf } from "../core/sql.ts";
import { digest } from "../core/text.ts";
import { migrate } from "../engine/migrations.ts";
import type { WorkLoop } from "../engine/work-loop.ts";
import { selected, TASK_FIELDS, type TaskRow } from "./rows.ts";
import { RunStore } from "./runs/run-store.ts";

const MIGRATIONS = [
  `CREATE TABLE perdure_tasks (
     task_id TEXT PRIMARY KEY, fingerprint TEXT NOT NULL,
     anchor INTEGER NOT NULL, next_at INTEGER, open_from INTEGER,
     paused_at INTEGER, paused_by TEXT, paused_note TEXT,
     fired INTEGER NOT NULL, failures INTEGER NOT NULL, missed INTEGER NOT NULL,
     pruned_completed INTEGER NOT NULL, pruned_failed INTEGER NOT NULL, pruned_skipped INTEGER NOT NULL,
     omitted_at INTEGER
   ) WITHOUT ROWID;
   CREATE TABLE perdure_schedule_owner (owner TEXT NOT NULL);
   CREATE TABLE perdure_runs (
     task_id TEXT NOT NULL, occurrence INTEGER NOT NULL, trigger_key TEXT NOT NULL,
     cause TEXT NOT NULL, status TEXT NOT NULL,
     fired_at INTEGER NOT NULL, lag_ms INTEGER NOT NULL,
     attempts INTEGER NOT NULL, not_before INTEGER NOT NULL,
     ended_at INTEGER, submission_id TEXT,
     error_name TEXT, error_message TEXT, reason TEXT,
     PRIMARY KEY (task_id, occurrence, trigger_key)
   ) WITHOUT ROWID;`,
] as const;

const COLUMNS = TASK_FIELDS.map(columnOf);
const PUT_TASK = `INSERT INTO perdure_tasks (${COLUMNS.join(", ")}) VALUES (${COLUMNS.map(() => "?").join(", ")})
  ON CONFLICT (task_id) DO UPDATE SET ${COLUMNS.map((column) => `${column} = excluded.${column}`).join(", ")}`;

export class Store {
  readonly runs: RunStore;
  readonly #tasks = new Map<string, TaskRow>();
  #owner: string | undefined;
  /** Whether the owner is not stored yet. */
  isOwnerNew = false;
  /** Changes of the memory, to be made when the open transaction has committed; undefined outside of one. */
  #effects: (() => void)[] | undefined;

  /** @param owner the app's own name for this object's runs; undefined for a stored one */
  constructor(
    private readonly loop: WorkLoop,
    owner: string | undefined,
  ) {
    this.#owner = owner;
    this.runs = new RunStore(loop, (effect) => this.#afterCommit(effect));
  }

  get #storage(): DurableObjectStorage {
    return this.loop.lifecycle.storage;
  }

  /** Call it first: creates the tables and reads what they hold. */
  open(): void {
    migrate(this.#storage, "scheduler", MIGRATIONS);
    const query = `SELECT ${selected(TASK_FIELDS)} FROM perdure_tasks`;
    for (const row of this.#storage.sql.exec<TaskRow>(query)) this.#tasks.set(row.taskId, row);
    // Each run has the row of its task.
    if (this.#tasks.size > 0) this.runs.load();
  }

  /** By task id. */
  get tasks(): ReadonlyMap<string, TaskRow> {
    return this.#tasks;
  }

  /** A part of each idempotency key. Stored, so that a renamed class does not change the keys. */
  get owner(): string {
    if (this.#owner === undefined) {
      const query = "SELECT owner FROM perdure_schedule_owner";
      const stored = this.#storage.sql.exec<{ owner: string }>(query).toArray()[0];
      this.isOwnerNew = stored === undefined;
      this.#owner = stored?.owner ?? digest(crypto.randomUUID());
    }
    return this.#owner;
  }

  putOwner(): void {
    this.#storage.sql.exec("INSERT INTO perdure_schedule_owner VALUES (?)", this.owner);
    this.#afterCommit(() => {
      this.isOwnerNew = false;
    });
  }

  /** All changes that `work` makes commit together, or none does. No transaction within another. */
  transaction<T>(work: () => T): T {
    const effects: (() => void)[] = [];
    this.#effects = effects;
    let result: T;
    try {
      result = this.#storage.transactionSync(work);
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
    this.#storage.sql.exec(PUT_TASK, ...TASK_FIELDS.map((field) => row[field]));
    this.#afterCommit(() => this.#tasks.set(row.taskId, row));
  }

  deleteTasks(taskIds: readonly string[]): void {
    if (taskIds.length === 0) return;
    this.#storage.sql.exec(
      "DELETE FROM perdure_tasks WHERE task_id IN (SELECT value FROM json_each(?))",
      JSON.stringify(taskIds),
    );
    this.#afterCommit(() => {
      for (const taskId of taskIds) this.#tasks.delete(taskId);
    });
  }
}
