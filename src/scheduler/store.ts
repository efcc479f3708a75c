/**
 * The scheduler's tables, and the only transactions on them. What is read
 * again and again (the tasks' rows, the open runs) is kept in memory after the
 * first reading, and changes there when a change of the rows has committed.
 */

import { migrate } from "../core/migrations.ts";
import type { TaskRow } from "./rows.ts";
import { RunStore } from "./runs/run-store.ts";
import { TaskStore } from "./task-store.ts";

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
     forgotten_completed INTEGER NOT NULL,
     forgotten_failed INTEGER NOT NULL,
     forgotten_skipped INTEGER NOT NULL
   ) WITHOUT ROWID;
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
  `CREATE TABLE perdure_schedule_owner (owner TEXT NOT NULL);
   ALTER TABLE perdure_tasks ADD COLUMN omitted_at INTEGER;`,
] as const;

export class Store {
  readonly tasks: TaskStore;
  readonly runs: RunStore;
  /** What changes in memory when the open transaction has committed; undefined outside of one. */
  #effects: (() => void)[] | undefined;

  constructor(private readonly storage: DurableObjectStorage) {
    const defer = (effect: () => void) => {
      if (this.#effects) this.#effects.push(effect);
      else effect();
    };
    this.tasks = new TaskStore(storage.sql, defer);
    this.runs = new RunStore(storage.sql, defer);
  }

  migrate(): void {
    migrate(this.storage, "scheduler", MIGRATIONS);
  }

  load(): void {
    this.tasks.load();
    this.runs.load();
  }

  /** What tells this object's runs from those of all others; undefined before the first task. */
  get owner(): string | undefined {
    const query = "SELECT owner FROM perdure_schedule_owner";
    return this.storage.sql.exec<{ owner: string }>(query).toArray()[0]?.owner;
  }

  keepOwner(owner: string): void {
    this.storage.sql.exec("INSERT INTO perdure_schedule_owner VALUES (?)", owner);
  }

  /** All that `work` changes commits together, or nothing does. No transaction within another. */
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

  /** Forgets tasks and all of their runs. Of those that are `omitted`, the rows stay as they are given. */
  forget(taskIds: readonly string[], omitted: readonly TaskRow[] = []): void {
    for (const row of omitted) this.tasks.put(row);
    if (taskIds.length > 0) this.tasks.delete(taskIds);
    const all = [...taskIds, ...omitted.map(({ taskId }) => taskId)];
    if (all.length > 0) this.runs.deleteOf(all);
  }
}
