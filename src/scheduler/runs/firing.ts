/**
 * Makes runs of what has come: slots that are due, triggers and backfills. One
 * transaction each; the actions begin after it has committed.
 */

import type { Clock } from "../../core/clock.ts";
import { dueSlots } from "../due.ts";
import type { SchedulerLimits } from "../options.ts";
import { startable } from "../queue.ts";
import { isScheduled, nameOf, type Run, type TaskRow } from "../rows.ts";
import type { Store } from "../store.ts";
import type { DeclaredTask } from "../tasks/declared.ts";
import type { RunCause } from "../types.ts";
import { admit } from "./overlap.ts";
import type { Runner } from "./runner.ts";

/** Slots of a task between two looks at whether it has too long a history. */
const PRUNE_EVERY = 16;

export type FiringOwner = {
  readonly store: Store;
  readonly runner: Runner;
  readonly clock: Clock;
  readonly limits: SchedulerLimits;
  /** An occurrence is skipped because as many runs of its task wait as may. */
  full(taskId: string, reason: string): void;
};

/** What comes now: a slot, or a trigger at the time of its call. */
export type Newcomer = {
  readonly slot: number;
  readonly cause: RunCause;
  readonly triggerKey?: string;
};

export class Firing {
  /** Tasks of which the app was told in this life that too many runs wait. */
  readonly #full = new Set<string>();

  constructor(private readonly owner: FiringOwner) {}

  /** Fires the slots of a task that are due, and stores which one is next (S1). */
  fire(task: DeclaredTask, row: TaskRow): void {
    const due = dueSlots(task, row, this.owner.clock.now());
    if (!due) return;
    const { slots, missed, nextAt } = due;
    this.#enter(task, { ...row, nextAt, missed: row.missed + missed }, slots);
  }

  /** Returns the run that came of the call. */
  trigger(task: DeclaredTask, row: TaskRow, triggerKey: string): Run | undefined {
    const slot = this.owner.clock.now();
    const [run] = this.#enter(task, row, [{ slot, triggerKey, cause: "trigger" }]);
    return run;
  }

  /** An entry of the history for a slot that is left out. */
  leftOut(task: DeclaredTask, slot: number, reason: string): Run {
    return this.#runOf(task, { slot, cause: "schedule" }, reason);
  }

  /** Runs of slots that passed long ago, to be begun one by one. */
  backfilled(task: DeclaredTask, slots: readonly number[]): Run[] {
    return slots.map((slot) => this.#runOf(task, { slot, cause: "backfill" }, undefined));
  }

  /** @param row the task's row as it is to be, but for what its new runs change in it */
  #enter(task: DeclaredTask, row: TaskRow, newcomers: readonly Newcomer[]): Run[] {
    const { store, runner, clock } = this.owner;
    const { taskId } = task;
    const open = store.runs.open(taskId);
    const { skipped, isFull = false, cancelled } = admit(task, newcomers.length > 0 ? open : []);
    if (isFull && skipped !== undefined) this.#noteFull(taskId, skipped);
    // What comes after the last run of all is not missed: the task is finished then.
    const left = task.maxRuns - row.runs;
    const news = newcomers
      .filter(({ cause }, index) => skipped !== undefined || cause === "trigger" || index < left)
      .map((newcomer) => this.#runOf(task, newcomer, skipped));
    const begun = this.#begun(
      task,
      open.filter((run) => !cancelled.includes(run)),
      news,
    );
    const [next] = newcomers;
    const reason = next
      ? `The occurrence of ${new Date(next.slot).toISOString()} took its place`
      : "";
    const inserted = store.transaction(() => {
      for (const run of cancelled) {
        store.runs.end(run, { status: "cancelled", reason }, clock.now());
      }
      const entered = store.runs.insert(begun);
      this.#putRow(task, row, entered);
      return entered;
    });
    for (const run of cancelled) runner.cancelled(run, reason);
    for (const run of inserted) if (run.status === "running") runner.launch(run);
    runner.expect(taskId);
    return inserted;
  }

  #noteFull(taskId: string, reason: string): void {
    if (this.#full.has(taskId)) return;
    this.#full.add(taskId);
    this.owner.full(taskId, reason);
  }

  /** Those of the new runs that begin at once are written as begun: one row less than to begin them afterwards. */
  #begun(task: DeclaredTask, open: readonly Run[], news: readonly Run[]): Run[] {
    const { runner, clock } = this.owner;
    const isOpen = (run: Run) => run.endedAt === null;
    const first = startable(task.overlap, [...open, ...news.filter(isOpen)], clock.now());
    const names = new Set(first.slice(0, runner.room).map(nameOf));
    return news.map((run) =>
      names.has(nameOf(run)) && isOpen(run) ? { ...run, status: "running", attempts: 1 } : run,
    );
  }

  #runOf(
    { taskId, offsetMs }: DeclaredTask,
    { slot, cause, triggerKey = "" }: Newcomer,
    skipped: string | undefined,
  ): Run {
    const now = this.owner.clock.now();
    return {
      taskId,
      slot,
      triggerKey,
      cause,
      status: skipped === undefined ? "waiting" : "skipped",
      firedAt: now,
      lagMs: cause === "trigger" ? 0 : Math.max(0, now - slot - offsetMs),
      attempts: 0,
      notBefore: 0,
      endedAt: skipped === undefined ? null : now,
      error: null,
      reason: skipped ?? null,
      submissionId: null,
    };
  }

  /** Within the transaction that inserts runs: the task's row as they make it, and what is forgotten for them. */
  #putRow({ maxRuns }: DeclaredTask, row: TaskRow, entered: readonly Run[]): void {
    const { store, limits, clock } = this.owner;
    const scheduled = entered.filter(isScheduled);
    const fired = row.fired + scheduled.length;
    const isLong =
      scheduled.length < entered.length ||
      Math.floor(fired / PRUNE_EVERY) > Math.floor(row.fired / PRUNE_EVERY);
    const { count, ageMs } = limits.kept;
    const isBounded = isLong && count !== Infinity;
    const pruned = store.runs.prune(row.taskId, clock.now() - ageMs, isBounded ? count : undefined);
    const { forgotten } = row;
    const runs = row.runs + scheduled.filter(({ endedAt }) => endedAt === null).length;
    const changed: TaskRow = {
      ...row,
      fired,
      runs,
      // What comes while it is finished is not due, should `maxRuns` be raised later.
      nextAt: runs < maxRuns ? row.nextAt : null,
      openFrom: this.#openFrom(row, entered),
      forgotten: {
        completed: forgotten.completed + pruned.completed,
        failed: forgotten.failed + pruned.failed,
        skipped: forgotten.skipped + pruned.skipped,
      },
    };
    const stored = store.tasks.rows.get(row.taskId);
    if (JSON.stringify(changed) !== JSON.stringify(stored)) store.tasks.put(changed);
  }

  #openFrom({ taskId, openFrom }: TaskRow, entered: readonly Run[]): number | null {
    const open = [...this.owner.store.runs.open(taskId), ...entered];
    const slots = open.filter(({ endedAt }) => endedAt === null).map(({ slot }) => slot);
    if (slots.length === 0) return openFrom;
    const first = Math.min(...slots);
    // For a trigger alone the bound stays where it is, as long as it is one.
    const isKept = openFrom !== null && openFrom <= first && !entered.some(isScheduled);
    return isKept ? openFrom : first;
  }
}
