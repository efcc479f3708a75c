/**
 * All SQL of runs, one method for each transition, and the open runs in memory. Every change is fenced by the run's
 * attempts: a late finisher changes nothing. There is no index beside the key: `open_from` in the task's row is a bound
 * below which no run is open.
 */

import type { Failure } from "../../core/failures.ts";
import { bySlot, nameOf, type Run, type Tally } from "../rows.ts";
import type { DeclaredTask } from "../tasks/declared.ts";
import type { RunCause } from "../types.ts";
import { checkTransition, type EndedStatus, type RunStatus } from "./states.ts";

type SqlRow = {
  task_id: string;
  slot: number;
  trigger_key: string;
  cause: RunCause;
  status: RunStatus;
  fired_at: number;
  lag_ms: number;
  attempts: number;
  not_before: number;
  ended_at: number | null;
  error_name: string | null;
  error_message: string | null;
  reason: string | null;
  submission_id: string | null;
};

export type RunEnd = {
  readonly status: EndedStatus;
  readonly error?: Failure | null;
  readonly reason?: string | null;
};

/** The run with this key, if it is open and at this attempt. */
const FENCED =
  "WHERE task_id = ? AND slot = ? AND trigger_key = ? AND attempts = ? AND ended_at IS NULL RETURNING 1";

export class RunStore {
  #open = new Map<string, Run[]>();

  constructor(
    private readonly sql: SqlStorage,
    /** Runs when what was written has committed. */
    private readonly afterCommit: (effect: () => void) => void,
  ) {}

  load(): void {
    // CROSS: SQLite would read all runs first, and look up the task of each.
    const found = this.sql.exec<SqlRow>(
      `SELECT r.* FROM perdure_tasks t CROSS JOIN perdure_runs r
       ON r.task_id = t.task_id AND r.slot >= t.open_from WHERE r.ended_at IS NULL`,
    );
    this.#open = Map.groupBy(found.toArray().map(toRun), ({ taskId }) => taskId);
  }

  /** Open runs of a task, in the order of their slots. */
  open(taskId: string): readonly Run[] {
    return this.#open.get(taskId) ?? [];
  }

  /** Tasks that have open runs. */
  get busyTasks(): string[] {
    return [...this.#open.keys()];
  }

  /** (new) → waiting, running or skipped. Returns the runs that were new: a slot has one run. */
  insert(runs: readonly Run[]): Run[] {
    if (runs.length === 0) return [];
    const inserted = this.sql.exec<{ slot: number; trigger_key: string }>(
      `INSERT INTO perdure_runs (task_id, slot, trigger_key, cause, status, fired_at, lag_ms, attempts, not_before, ended_at, reason)
       SELECT value ->> 'taskId', value ->> 'slot', value ->> 'triggerKey', value ->> 'cause', value ->> 'status',
         value ->> 'firedAt', value ->> 'lagMs', value ->> 'attempts', value ->> 'notBefore', value ->> 'endedAt', value ->> 'reason'
       FROM json_each(?) WHERE true ON CONFLICT DO NOTHING RETURNING slot, trigger_key`,
      JSON.stringify(runs),
    );
    const names = new Set(
      inserted.toArray().map(({ slot, trigger_key }) => `${slot} ${trigger_key}`),
    );
    const news = runs.filter(({ slot, triggerKey }) => names.has(`${slot} ${triggerKey}`));
    this.afterCommit(() => this.#keep(news));
    return news;
  }

  /** skipped → waiting, as backfills. */
  reopen(
    { taskId, offsetMs }: Pick<DeclaredTask, "taskId" | "offsetMs">,
    slots: readonly number[],
    now: number,
  ): void {
    if (slots.length === 0) return;
    const reopened = this.sql
      .exec<SqlRow>(
        `UPDATE perdure_runs SET status = 'waiting', cause = 'backfill', fired_at = ?1, lag_ms = max(0, ?1 - slot - ?2), attempts = 0,
           not_before = 0, ended_at = NULL, reason = NULL, error_name = NULL, error_message = NULL, submission_id = NULL
         WHERE task_id = ?3 AND slot IN (SELECT value FROM json_each(?4)) AND trigger_key = '' AND status = 'skipped'
         RETURNING *`,
        now,
        offsetMs,
        taskId,
        JSON.stringify(slots),
      )
      .toArray()
      .map(toRun);
    this.afterCommit(() => this.#keep(reopened));
  }

  /** waiting → running: counts an attempt. Returns the run as it is then, if it was open. */
  begin(run: Run): Run | undefined {
    const begun = { ...run, status: "running", attempts: run.attempts + 1 } as const;
    const isOpen = this.#change(
      `UPDATE perdure_runs SET status = 'running', attempts = attempts + 1 ${FENCED}`,
      run,
      "running",
    );
    return isOpen ? this.#replaced(begun) : undefined;
  }

  /** running → waiting: an attempt has failed, and another is due at `time`. */
  retryAt(run: Run, time: number, error: Failure): Run | undefined {
    const isOpen = this.#change(
      `UPDATE perdure_runs SET status = 'waiting', not_before = ?, error_name = ?, error_message = ? ${FENCED}`,
      run,
      "waiting",
      time,
      error.name,
      error.message,
    );
    return isOpen
      ? this.#replaced({ ...run, status: "waiting", notBefore: time, error })
      : undefined;
  }

  /** running → running: its prompt has been accepted. */
  submitted(run: Run, submissionId: string): Run | undefined {
    const isOpen = this.#change(
      `UPDATE perdure_runs SET submission_id = ? ${FENCED}`,
      run,
      "running",
      submissionId,
    );
    return isOpen ? this.#replaced({ ...run, submissionId }) : undefined;
  }

  /** waiting or running → ended. */
  end(
    run: Run,
    { status, error = run.error, reason = null }: RunEnd,
    now: number,
  ): Run | undefined {
    const isOpen = this.#change(
      `UPDATE perdure_runs SET status = ?, ended_at = ?, error_name = ?, error_message = ?, reason = ? ${FENCED}`,
      run,
      status,
      status,
      now,
      error?.name ?? null,
      error?.message ?? null,
      reason,
    );
    return isOpen ? this.#replaced({ ...run, status, endedAt: now, error, reason }) : undefined;
  }

  /** The object did not survive its attempt: running in its row, and waiting for another attempt in memory. */
  interrupted(run: Run): void {
    this.#replaced({ ...run, status: "waiting", notBefore: 0 });
  }

  /** Deletes ended runs: those of slots before `time` that ended before it, and all but the newest `count`. */
  prune(taskId: string, time: number, count: number | undefined): Tally {
    const old = this.sql
      .exec<{ status: RunStatus }>(
        "DELETE FROM perdure_runs WHERE task_id = ?1 AND slot < ?2 AND ended_at < ?2 RETURNING status",
        taskId,
        time,
      )
      .toArray();
    const beyond =
      count === undefined
        ? []
        : this.sql
            .exec<{ status: RunStatus }>(
              `DELETE FROM perdure_runs WHERE task_id = ?1 AND ended_at IS NOT NULL AND slot <
                 (SELECT slot FROM perdure_runs WHERE task_id = ?1 ORDER BY slot DESC LIMIT 1 OFFSET ?2)
               RETURNING status`,
              taskId,
              count - 1,
            )
            .toArray();
    return tallyOf([...old, ...beyond]);
  }

  deleteOf(taskIds: readonly string[]): void {
    if (taskIds.length === 0) return;
    this.sql.exec(
      "DELETE FROM perdure_runs WHERE task_id IN (SELECT value FROM json_each(?))",
      JSON.stringify(taskIds),
    );
    this.afterCommit(() => {
      for (const taskId of taskIds) this.#open.delete(taskId);
    });
  }

  /** Newest first; more than `limit` if the last one shares its time with others. */
  list(taskId: string, { before, limit }: { before: number; limit: number }): Run[] {
    return this.sql
      .exec<SqlRow>(
        `SELECT * FROM perdure_runs WHERE task_id = ?1 AND slot < ?2 AND slot >= COALESCE(
           (SELECT slot FROM perdure_runs WHERE task_id = ?1 AND slot < ?2 ORDER BY slot DESC LIMIT 1 OFFSET ?3), ?4)
         ORDER BY slot DESC, trigger_key DESC`,
        taskId,
        before,
        limit - 1,
        Number.MIN_SAFE_INTEGER,
      )
      .toArray()
      .map(toRun);
  }

  trigger(taskId: string, key: string): Run | undefined {
    return this.sql
      .exec<SqlRow>("SELECT * FROM perdure_runs WHERE task_id = ? AND trigger_key = ?", taskId, key)
      .toArray()
      .map(toRun)[0];
  }

  /** The status of each slot in [from, to) that has a run. */
  statuses(taskId: string, { from, to }: { from: number; to: number }): Map<number, RunStatus> {
    const found = this.sql.exec<{ slot: number; status: RunStatus }>(
      "SELECT slot, status FROM perdure_runs WHERE task_id = ? AND slot >= ? AND slot < ? AND trigger_key = ''",
      taskId,
      from,
      to,
    );
    return new Map(found.toArray().map(({ slot, status }) => [slot, status]));
  }

  /** The latest run that was not skipped, by task; of one task, or of all. */
  latest(taskId: string | null): Map<string, Run> {
    const query = `SELECT r.* FROM perdure_tasks t CROSS JOIN perdure_runs r ON r.task_id = t.task_id AND r.slot =
         (SELECT slot FROM perdure_runs WHERE task_id = t.task_id AND status <> 'skipped' ORDER BY slot DESC LIMIT 1)
       WHERE r.status <> 'skipped'`;
    const found =
      taskId === null
        ? this.sql.exec<SqlRow>(query)
        : this.sql.exec<SqlRow>(`${query} AND t.task_id = ?`, taskId);
    return new Map(found.toArray().map((row) => [row.task_id, toRun(row)]));
  }

  /** Runs in the history by how they ended, by task; of one task, or of all. */
  tallies(taskId: string | null): Map<string, Tally> {
    // Grouped in the order of the key: grouped by status too, each row would be read twice.
    const query = `SELECT task_id, SUM(status = 'completed') AS completed, SUM(status = 'failed') AS failed,
      SUM(status = 'skipped') AS skipped FROM perdure_runs`;
    type Count = Tally & { task_id: string };
    const found =
      taskId === null
        ? this.sql.exec<Count>(`${query} GROUP BY task_id`)
        : this.sql.exec<Count>(`${query} WHERE task_id = ? GROUP BY task_id`, taskId);
    return new Map(found.toArray().map(({ task_id, ...tally }) => [task_id, tally]));
  }

  #change(query: string, run: Run, to: RunStatus, ...values: SqlStorageValue[]): boolean {
    checkTransition(run.status, to);
    const { taskId, slot, triggerKey, attempts } = run;
    const changed = this.sql.exec(query, ...values, taskId, slot, triggerKey, attempts);
    return changed.toArray().length > 0;
  }

  #replaced(run: Run): Run {
    this.afterCommit(() => this.#keep([run]));
    return run;
  }

  /** Keeps open runs in memory, and removes ended ones. */
  #keep(runs: readonly Run[]): void {
    for (const [taskId, changed] of Map.groupBy(runs, (run) => run.taskId)) {
      const names = new Set(changed.map(nameOf));
      const others = this.open(taskId).filter((run) => !names.has(nameOf(run)));
      const open = [...others, ...changed.filter(({ endedAt }) => endedAt === null)];
      if (open.length === 0) this.#open.delete(taskId);
      else this.#open.set(taskId, open.toSorted(bySlot));
    }
  }
}

function tallyOf(ended: readonly { status: RunStatus }[]): Tally {
  const of = (status: RunStatus) => ended.filter((each) => each.status === status).length;
  return { completed: of("completed"), failed: of("failed"), skipped: of("skipped") };
}

function toRun(row: SqlRow): Run {
  const hasError = row.error_name !== null;
  return {
    taskId: row.task_id,
    slot: row.slot,
    triggerKey: row.trigger_key,
    cause: row.cause,
    status: row.status,
    firedAt: row.fired_at,
    lagMs: row.lag_ms,
    attempts: row.attempts,
    notBefore: row.not_before,
    endedAt: row.ended_at,
    error: hasError ? { name: row.error_name ?? "", message: row.error_message ?? "" } : null,
    reason: row.reason,
    submissionId: row.submission_id,
  };
}
