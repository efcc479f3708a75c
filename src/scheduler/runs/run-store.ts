/**
 * All SQL of runs, one method for each transition, and the open runs in memory. Every change is fenced by the run's
 * attempts. There is no index: `open_from` in the task's row is a bound below which no run is open.
 */

import type { Failure } from "../../core/failures.ts";
import { columnOf } from "../../core/sql.ts";
import type { Position } from "../../engine/page.ts";
import type { WorkLoop } from "../../engine/work-loop.ts";
import { byOccurrence, nameOf, RUN_FIELDS, type Run, selected, type Tally } from "../rows.ts";
import type { RunStatus } from "../types.ts";

export type RunEnd = {
  readonly status: Exclude<RunStatus, "waiting" | "running">;
  readonly error?: Failure | null;
  readonly reason?: string | null;
};

/** Of the latest runs of a task. `since` is the first occurrence that was skipped. */
export type Skips = {
  readonly taskId: string;
  readonly count: number;
  readonly skipped: number;
  readonly completed: number;
  readonly since: number;
};

const ALL = selected(RUN_FIELDS);
/** Triggers of one task that are kept, whatever their age. */
const MAX_KEYS = 10_000;

/**
 * The states that may follow each state. `running → waiting` is a failed attempt before the last, `running → running` a
 * prompt that was accepted, `skipped → waiting` a backfill.
 */
const NEXT: Readonly<Record<RunStatus, readonly RunStatus[]>> = {
  waiting: ["running", "cancelled"],
  running: ["running", "waiting", "completed", "failed", "cancelled", "skipped"],
  completed: [],
  failed: [],
  cancelled: [],
  skipped: ["waiting"],
};

export class RunStore {
  #open = new Map<string, Run[]>();

  constructor(
    private readonly loop: WorkLoop,
    /** Runs when what was written has committed. */
    private readonly afterCommit: (effect: () => void) => void,
  ) {}

  get #sql(): SqlStorage {
    return this.loop.lifecycle.storage.sql;
  }

  load(): void {
    // CROSS: SQLite would read all runs first, and look up the task of each.
    const found = this.#sql.exec<Run>(
      `SELECT ${ALL} FROM perdure_tasks CROSS JOIN perdure_runs USING (task_id)
       WHERE occurrence >= open_from AND ended_at IS NULL`,
    );
    this.#open = Map.groupBy(found.toArray(), ({ taskId }) => taskId);
  }

  /** In the order of their occurrences. */
  open(taskId: string): readonly Run[] {
    return this.#open.get(taskId) ?? [];
  }

  /** Tasks that have open runs. */
  get busyTasks(): string[] {
    return [...this.#open.keys()];
  }

  /**
   * (new) → waiting, running or skipped, and skipped → waiting for a backfill. Returns the runs that were stored: an
   * occurrence has one run.
   */
  insert(runs: readonly Run[]): Run[] {
    if (runs.length === 0) return [];
    const columns = RUN_FIELDS.map(columnOf);
    const values = RUN_FIELDS.map((field) => `value ->> '${field}'`);
    const inserted = this.#sql.exec<Run>(
      `INSERT INTO perdure_runs (${columns.join(", ")}) SELECT ${values.join(", ")} FROM json_each(?) WHERE true
       ON CONFLICT DO UPDATE SET ${columns.map((column) => `${column} = excluded.${column}`).join(", ")}
       WHERE status = 'skipped' AND excluded.cause = 'backfill' RETURNING ${ALL}`,
      JSON.stringify(runs),
    );
    const newRuns = inserted.toArray().sort(byOccurrence);
    this.afterCommit(() => this.#keep(newRuns));
    return newRuns;
  }

  /** waiting → running: counts an attempt. */
  claim(run: Run): Run | undefined {
    return this.#change(run, { status: "running", attempts: run.attempts + 1 });
  }

  /** running → waiting: an attempt has failed, and another is due at `time`. */
  retryAt(run: Run, time: number, { name, message }: Failure): Run | undefined {
    const error = { errorName: name, errorMessage: message };
    return this.#change(run, { status: "waiting", notBefore: time, ...error });
  }

  /** running → running: its prompt has been accepted. */
  submitted(run: Run, submissionId: string): Run | undefined {
    return this.#change(run, { status: "running", submissionId });
  }

  /** waiting or running → ended. Keeps the last error unless `error` is given. */
  end(run: Run, { status, error, reason = null }: RunEnd, endedAt: number): Run | undefined {
    const { name = null, message = null } = error ?? {};
    const changed = error === undefined ? {} : { errorName: name, errorMessage: message };
    return this.#change(run, { status, endedAt, reason, ...changed });
  }

  /** The object did not survive its attempt: running in its row, and waiting for another attempt in memory. */
  interrupted(run: Run): void {
    this.#keep([{ ...run, status: "waiting", notBefore: 0 }]);
  }

  /**
   * Deletes ended runs: those of occurrences before `time` that ended before it, and all but the newest `count`. Triggers do not
   * count, because their keys hold until `time`.
   */
  prune(taskId: string, time: number, count: number | undefined): Tally {
    const deleted = this.#delete("occurrence < ?2 AND ended_at < ?2", taskId, time);
    if (count !== undefined) {
      const older = (runs: string, offset: string) =>
        `${runs} AND occurrence < (SELECT occurrence FROM perdure_runs
           WHERE task_id = ?1 AND ${runs} ORDER BY occurrence DESC LIMIT 1 OFFSET ${offset})`;
      const scheduled = older("trigger_key = ''", "?2");
      const triggers = older("trigger_key <> ''", `${MAX_KEYS - 1}`);
      const where = `ended_at IS NOT NULL AND (${scheduled} OR ${triggers})`;
      const offset = Math.min(count - 1, Number.MAX_SAFE_INTEGER);
      deleted.push(...this.#delete(where, taskId, offset));
    }
    const of = (ended: RunStatus) => deleted.filter(({ status }) => status === ended).length;
    return { completed: of("completed"), failed: of("failed"), skipped: of("skipped") };
  }

  #delete(where: string, taskId: string, value: number): { readonly status: RunStatus }[] {
    const query = `DELETE FROM perdure_runs WHERE task_id = ?1 AND ${where} RETURNING status`;
    return this.#sql.exec<{ status: RunStatus }>(query, taskId, value).toArray();
  }

  deleteOf(taskIds: readonly string[]): void {
    if (taskIds.length === 0) return;
    this.#sql.exec(
      "DELETE FROM perdure_runs WHERE task_id IN (SELECT value FROM json_each(?))",
      JSON.stringify(taskIds),
    );
    this.afterCommit(() => {
      for (const taskId of taskIds) this.#open.delete(taskId);
    });
  }

  /** Newest first, after a position. */
  list(
    taskId: string,
    limit: number,
    [time, key]: Position = [Number.MAX_SAFE_INTEGER, ""],
  ): Run[] {
    const query = `SELECT ${ALL} FROM perdure_runs WHERE task_id = ? AND (occurrence, trigger_key) < (?, ?)
      ORDER BY occurrence DESC, trigger_key DESC LIMIT ?`;
    return this.#sql.exec<Run>(query, taskId, time, key, limit).toArray();
  }

  trigger(taskId: string, key: string): Run | undefined {
    const query = `SELECT ${ALL} FROM perdure_runs WHERE task_id = ? AND trigger_key = ?`;
    return this.#sql.exec<Run>(query, taskId, key).toArray()[0];
  }

  /** The status of each occurrence in [from, to) that has a run. */
  statuses(taskId: string, { from, to }: { from: number; to: number }): Map<number, RunStatus> {
    const found = this.#sql.exec<{ occurrence: number; status: RunStatus }>(
      "SELECT occurrence, status FROM perdure_runs WHERE task_id = ? AND occurrence >= ? AND occurrence < ? AND trigger_key = ''",
      taskId,
      from,
      to,
    );
    return new Map(found.toArray().map(({ occurrence, status }) => [occurrence, status]));
  }

  /** The latest run that was not skipped, by task, from the first of these ids to the last. */
  latest([first = "", ...others]: readonly string[]): Map<string, Run> {
    const found = this.#sql.exec<Run>(
      `SELECT ${ALL} FROM perdure_tasks t CROSS JOIN perdure_runs USING (task_id)
       WHERE task_id BETWEEN ? AND ? AND status <> 'skipped' AND occurrence =
         (SELECT occurrence FROM perdure_runs WHERE task_id = t.task_id AND status <> 'skipped' ORDER BY occurrence DESC LIMIT 1)`,
      first,
      others.at(-1) ?? first,
    );
    return new Map(Array.from(found, (run) => [run.taskId, run]));
  }

  /** By task, among its latest `count` runs: how many completed, and how many an open run made it skip, if any. */
  latestSkips(taskIds: readonly string[], count: number): Map<string, Skips> {
    if (taskIds.length === 0) return new Map();
    // One that skipNext() has skipped ended before its occurrence; a prompt that was skipped had an attempt.
    const isSkipped = "status = 'skipped' AND attempts = 0 AND ended_at >= occurrence";
    const found = this.#sql.exec<Skips>(
      `SELECT task_id AS taskId, COUNT(*) AS count, COUNT(iif(${isSkipped}, 1, NULL)) AS skipped,
         COUNT(iif(status = 'completed', 1, NULL)) AS completed, MIN(iif(${isSkipped}, occurrence, NULL)) AS since
       FROM json_each(?1) CROSS JOIN perdure_runs ON task_id = value WHERE occurrence >= IFNULL(
         (SELECT occurrence FROM perdure_runs WHERE task_id = value ORDER BY occurrence DESC LIMIT 1 OFFSET ?2), ?3)
       GROUP BY task_id HAVING skipped > 0`,
      JSON.stringify(taskIds),
      count - 1,
      Number.MIN_SAFE_INTEGER,
    );
    return new Map(Array.from(found, (row) => [row.taskId, row]));
  }

  /** Runs in the history by how they ended, by task, from the first of these ids to the last. */
  tallies([first = "", ...others]: readonly string[]): Map<string, Tally> {
    // Grouped in the order of the key: grouped by status too, each row would be read twice.
    const found = this.#sql.exec<Tally & { taskId: string }>(
      `SELECT task_id AS taskId, SUM(status = 'completed') AS completed, SUM(status = 'failed') AS failed,
       SUM(status = 'skipped') AS skipped FROM perdure_runs WHERE task_id BETWEEN ? AND ? GROUP BY task_id`,
      first,
      others.at(-1) ?? first,
    );
    return new Map(Array.from(found, (tally) => [tally.taskId, tally]));
  }

  /** Returns the changed run; undefined if it has ended or is at another attempt. */
  #change(run: Run, changes: Partial<Run> & Pick<Run, "status">): Run | undefined {
    const { status } = changes;
    // A bug of the code must not reach a row.
    if (!NEXT[run.status].includes(status)) {
      throw new Error(`A run that is ${run.status} cannot become ${status}`);
    }
    const fields = Object.keys(changes) as (keyof Run)[];
    const found = this.#sql.exec(
      `UPDATE perdure_runs SET ${fields.map((field) => `${columnOf(field)} = ?`).join(", ")}
       WHERE task_id = ? AND occurrence = ? AND trigger_key = ? AND attempts = ? AND ended_at IS NULL RETURNING 1`,
      ...fields.map((field) => changes[field]),
      run.taskId,
      run.occurrence,
      run.triggerKey,
      run.attempts,
    );
    if (found.toArray().length === 0) return undefined;
    const changed = { ...run, ...changes };
    this.afterCommit(() => this.#keep([changed]));
    return changed;
  }

  /** Keeps open runs in memory, and removes ended ones. */
  #keep(runs: readonly Run[]): void {
    for (const [taskId, changed] of Map.groupBy(runs, (run) => run.taskId)) {
      const names = new Set(changed.map(nameOf));
      const others = this.open(taskId).filter((run) => !names.has(nameOf(run)));
      const open = [...others, ...changed.filter(({ endedAt }) => endedAt === null)];
      if (open.length === 0) this.#open.delete(taskId);
      else this.#open.set(taskId, open.toSorted(byOccurrence));
    }
  }
}
