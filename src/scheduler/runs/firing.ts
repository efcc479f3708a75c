/**
 * Stores runs: of occurrences that are due, triggers, backfills and skipped occurrences. Each in one transaction, after which the
 * runs that may start are started.
 */

import { type Clock, earliest } from "../../core/clock.ts";
import { InvalidOptionError } from "../../core/options/options.ts";
import type { App } from "../app.ts";
import type { Range } from "../options.ts";
import { EMPTY_RUN, isScheduled, nameOf, type Run, type TaskRow } from "../rows.ts";
import type { Store } from "../store.ts";
import type { DeclaredTask } from "../tasks/declared.ts";
import {
  countOccurrences,
  dueOccurrences,
  isArmed,
  isCurrent,
  nextOccurrenceOf,
  nextOccurrencesOf,
} from "../tasks/occurrences.ts";
import { rearmed } from "../tasks/reconcile.ts";
import type { RunCause } from "../types.ts";
import { admit, startable } from "./overlap.ts";
import type { Runner } from "./runner.ts";

/** A task's history is cut to its length once in so many fired occurrences. */
const PRUNE_EVERY = 16;
const MAX_BACKFILLED = 1_000;

/** An occurrence that fires, or a trigger at the time of its call. */
type NewRun = {
  readonly occurrence: number;
  readonly cause: RunCause;
  readonly triggerKey?: string;
};

export class Firing {
  constructor(
    private readonly app: App,
    private readonly store: Store,
    private readonly runner: Runner,
    private readonly clock: Clock,
  ) {}

  /** Fires the occurrences of a task that are due, and stores the next one. */
  fire(task: DeclaredTask, row: TaskRow): void {
    const now = this.clock.now();
    const due = dueOccurrences(task, row, now);
    if (!due) return;
    const { occurrences, missed, nextAt } = due;
    const armed = isCurrent(task, row)
      ? { ...row, nextAt }
      : rearmed(row, task, now - task.offsetMs);
    this.#enter(task, { ...armed, missed: row.missed + missed }, occurrences);
  }

  /** Runs the task now. The same key again is the same run. */
  trigger(task: DeclaredTask, row: TaskRow, triggerKey: string): Run {
    const { taskId } = task;
    const known = this.store.runs.trigger(taskId, triggerKey);
    if (known) return known;
    const occurrence = this.clock.now();
    const [run] = this.#enter(task, row, [{ occurrence, triggerKey, cause: "trigger" }]);
    if (run) return run;
    throw new Error(`The trigger ${JSON.stringify(triggerKey)} of ${taskId} was not stored`);
  }

  /** Skips the next occurrence, and stores that in the history. Returns its time; null where there is none. */
  skipNext(task: DeclaredTask, row: TaskRow): number | null {
    const { store } = this;
    const occurrence = row.nextAt;
    if (occurrence === null || !isArmed(row)) return null;
    const armed = isCurrent(task, row)
      ? { ...row, nextAt: nextOccurrenceOf(task, occurrence, row.anchor) }
      : rearmed(row, task, this.clock.now());
    const reason = "It was skipped by skipNext()";
    store.transaction(() => {
      store.runs.insert([this.#runOf(task, { occurrence, cause: "schedule" }, reason)]);
      store.putTask(armed);
    });
    return occurrence;
  }

  /**
   * The occurrences in a past range that have no run, and how many have one.
   *
   * @throws InvalidOptionError for too long a range
   */
  backfillable(task: DeclaredTask, row: TaskRow, { from, to }: Range) {
    const { taskId } = task;
    // Occurrences that are still to come fire by themselves.
    const ahead = isArmed(row) ? row.nextAt : Infinity;
    const last = Math.min(to, this.clock.now() + 1, ahead) - 1;
    const count = countOccurrences(
      task,
      { from: from - 1, to: last },
      row.anchor,
      MAX_BACKFILLED + 1,
    );
    if (count > MAX_BACKFILLED) {
      throw new InvalidOptionError(
        "to",
        `There are more than ${MAX_BACKFILLED} occurrences of ${JSON.stringify(taskId)} from ${new Date(from).toISOString()} to ${new Date(to).toISOString()}; ask for fewer at a time.`,
      );
    }
    const occurrences = nextOccurrencesOf(task, from - 1, row.anchor, count);
    const known = this.store.runs.statuses(taskId, { from, to: last + 1 });
    const queued = occurrences.filter(
      (occurrence) => (known.get(occurrence) ?? "skipped") === "skipped",
    );
    return { queued, alreadyRun: occurrences.length - queued.length };
  }

  /** Queues runs of the occurrences in a past range that have not run. */
  backfill(task: DeclaredTask, row: TaskRow, range: Range): { queued: number; alreadyRun: number } {
    const { store, runner } = this;
    const { taskId } = task;
    const { queued, alreadyRun } = this.backfillable(task, row, range);
    const [first] = queued;
    if (first === undefined) return { queued: 0, alreadyRun };
    store.transaction(() => {
      store.runs.insert(
        queued.map((occurrence) => this.#runOf(task, { occurrence, cause: "backfill" })),
      );
      const openFrom = Math.min(first, row.openFrom ?? first);
      if (openFrom !== row.openFrom) store.putTask({ ...row, openFrom });
    });
    runner.enqueue(taskId);
    runner.startWaiting();
    return { queued: queued.length, alreadyRun };
  }

  /**
   * Stores new runs by the task's `overlap`, and starts those that may.
   *
   * @param row the task's row as it will be, apart from what its new runs change in it
   */
  #enter(task: DeclaredTask, row: TaskRow, newRuns: readonly NewRun[]): Run[] {
    const { app, store, runner, clock } = this;
    const { taskId } = task;
    const open = store.runs.open(taskId);
    const admitted = admit(task, newRuns.length > 0 ? open : []);
    const { room, cancelled, reason: skipped } = admitted;
    if (admitted.isFull && newRuns.length > room) app.reportFull(taskId, skipped);
    const runs = newRuns.map((newRun, index) =>
      this.#runOf(task, newRun, index < room ? undefined : skipped),
    );
    const staying = open.filter((run) => !cancelled.includes(run));
    const started = this.#startedAtOnce(task, staying, runs);
    const [next] = newRuns;
    const when = next ? new Date(next.occurrence).toISOString() : "";
    const reason = `The occurrence of ${when} took its place`;
    const inserted = store.transaction(() => {
      for (const run of cancelled) {
        store.runs.end(run, { status: "cancelled", reason }, clock.now());
      }
      const entered = store.runs.insert(started);
      this.#putRow(row, entered);
      return entered;
    });
    for (const run of cancelled) runner.cancel(run, reason);
    for (const run of inserted) if (run.status === "running") runner.start(run);
    runner.enqueue(taskId);
    return inserted;
  }

  /** New runs that start at once are stored as running: one row less than to store them as waiting first. */
  #startedAtOnce(task: DeclaredTask, open: readonly Run[], runs: readonly Run[]): Run[] {
    const waiting = runs.filter(({ endedAt }) => endedAt === null);
    const first = startable(task.overlap, [...open, ...waiting], this.clock.now());
    const names = new Set(first.slice(0, this.runner.capacity).map(nameOf));
    return runs.map((run) =>
      run.endedAt === null && names.has(nameOf(run))
        ? { ...run, status: "running", attempts: 1 }
        : run,
    );
  }

  #runOf(
    { taskId, offsetMs }: DeclaredTask,
    { occurrence, cause, triggerKey = "" }: NewRun,
    skipped?: string,
  ): Run {
    const firedAt = this.clock.now();
    const lagMs = cause === "trigger" ? 0 : Math.max(0, firedAt - occurrence - offsetMs);
    const run: Run = { ...EMPTY_RUN, taskId, occurrence, triggerKey, cause, firedAt, lagMs };
    if (skipped === undefined) return run;
    return { ...run, status: "skipped", endedAt: firedAt, reason: skipped };
  }

  /** Within the transaction that inserts runs: stores the task's row, and deletes what is too old for the history. */
  #putRow(row: TaskRow, entered: readonly Run[]): void {
    const { store, clock } = this;
    const { history } = this.app.settings;
    const { taskId } = row;
    const scheduled = entered.filter(isScheduled);
    const fired = row.fired + scheduled.length;
    const countsHistory =
      scheduled.length < entered.length ||
      Math.floor(fired / PRUNE_EVERY) > Math.floor(row.fired / PRUNE_EVERY);
    const oldest = clock.now() - history.age;
    const deleted = store.runs.prune(taskId, oldest, countsHistory ? history.count : undefined);
    const changed: TaskRow = {
      ...row,
      fired,
      openFrom: this.#openFrom(row, entered),
      prunedCompleted: row.prunedCompleted + deleted.completed,
      prunedFailed: row.prunedFailed + deleted.failed,
      prunedSkipped: row.prunedSkipped + deleted.skipped,
    };
    const stored = store.tasks.get(taskId);
    if (JSON.stringify(changed) !== JSON.stringify(stored)) store.putTask(changed);
  }

  #openFrom({ taskId, openFrom }: TaskRow, entered: readonly Run[]): number | null {
    const open = [...this.store.runs.open(taskId), ...entered];
    const first = earliest(
      open.map(({ endedAt, occurrence }) => (endedAt === null ? occurrence : null)),
    );
    if (first === null) return openFrom;
    // For a trigger alone the bound stays, as long as it holds.
    const isKept = openFrom !== null && openFrom <= first && !entered.some(isScheduled);
    return isKept ? openFrom : first;
  }
}
