/** What an operator does to a task: each verb is one transaction, and holds over crashes (S5). */

import { InvalidOptionError } from "../core/options.ts";
import type { Range } from "./arguments.ts";
import { isArmed } from "./due.ts";
import type { Engine } from "./engine.ts";
import type { TaskRow } from "./rows.ts";
import type { DeclaredTask } from "./tasks/declared.ts";
import { scheduledRunOf } from "./tasks/reading.ts";
import { countSlots, nextSlot, nextSlots } from "./tasks/slots.ts";
import type { ScheduledRun } from "./types.ts";

const MAX_BACKFILLED = 1_000;

export class Verbs {
  constructor(private readonly engine: Engine) {}

  /** active → paused. What has fired goes on. */
  pause(taskId: string, note: string | null): void {
    const { row } = this.engine.validTask(taskId);
    const { store, clock } = this.engine;
    const pausedAt = row.pausedAt ?? clock.now();
    store.tasks.put({ ...row, pausedAt, pausedBy: "hand", pausedNote: note });
  }

  /** paused → active, from the first slot that fires after now. */
  resume(taskId: string): void {
    const { task, row } = this.engine.validTask(taskId);
    if (row.pausedAt === null) return;
    const nextAt = row.runs < task.maxRuns ? this.#nextOf(task, row) : null;
    const active = { pausedAt: null, pausedBy: null, pausedNote: null, failures: 0 };
    this.engine.store.tasks.put({ ...row, ...active, nextAt });
  }

  /** The first slot whose jitter is not over yet, and which has not been left out or backfilled. */
  #nextOf(task: DeclaredTask, { anchor }: TaskRow): number | null {
    const { store, clock } = this.engine;
    let slot = nextSlot(task, clock.now() - task.offsetMs, anchor);
    while (
      slot !== null &&
      store.runs.statuses(task.taskId, { from: slot, to: slot + 1 }).size > 0
    ) {
      slot = nextSlot(task, slot, anchor);
    }
    return slot;
  }

  /** Runs the action now. The same key again is the same run. */
  trigger(taskId: string, key: string): ScheduledRun {
    const { task, row } = this.engine.validTask(taskId);
    const { store, firing, owner } = this.engine;
    const run = store.runs.trigger(taskId, key) ?? firing.trigger(task, row, key);
    if (!run) throw new Error(`The trigger ${JSON.stringify(key)} of ${taskId} was not stored`);
    return scheduledRunOf(run, owner);
  }

  /** Runs the slots of a range that have not run. */
  backfill(taskId: string, { from, to }: Range): { queued: number; alreadyRun: number } {
    const { task, row } = this.engine.validTask(taskId);
    const { store, firing, clock, runner } = this.engine;
    // What is still to come fires by itself.
    const ahead = isArmed(task, row) ? (row.nextAt ?? Infinity) : Infinity;
    const end = Math.min(to, clock.now() + 1, ahead) - 1;
    const range = { from: from - 1, to: end };
    const count = countSlots(task, range, row.anchor, MAX_BACKFILLED + 1);
    if (count > MAX_BACKFILLED) {
      throw new InvalidOptionError(
        "to",
        `There are more than ${MAX_BACKFILLED} occurrences of ${JSON.stringify(taskId)} from ${new Date(from).toISOString()} to ${new Date(to).toISOString()}; ask for fewer at a time.`,
      );
    }
    const slots = nextSlots(task, from - 1, row.anchor, count);
    const known = store.runs.statuses(taskId, { from, to: end + 1 });
    const fresh = slots.filter((slot) => !known.has(slot));
    const skipped = slots.filter((slot) => known.get(slot) === "skipped");
    const queued = fresh.length + skipped.length;
    const [first] = [...fresh, ...skipped].toSorted((a, b) => a - b);
    if (first === undefined) return { queued, alreadyRun: slots.length };
    store.transaction(() => {
      store.runs.insert(firing.backfilled(task, fresh));
      store.runs.reopen(task, skipped, clock.now());
      const openFrom = Math.min(first, row.openFrom ?? first);
      if (openFrom !== row.openFrom) store.tasks.put({ ...row, openFrom });
    });
    runner.expect(taskId);
    runner.proceed();
    return { queued, alreadyRun: slots.length - queued };
  }

  /** Leaves out the next slot, which is told of in the history. Returns it; null where none comes. */
  skipNext(taskId: string): number | null {
    const { task, row } = this.engine.validTask(taskId);
    const { store, firing } = this.engine;
    const slot = row.nextAt;
    if (slot === null || !isArmed(task, row)) return null;
    const nextAt = nextSlot(task, slot, row.anchor);
    store.transaction(() => {
      store.runs.insert([firing.leftOut(task, slot, "It was left out by skipNext()")]);
      store.tasks.put({ ...row, nextAt });
    });
    return slot;
  }
}
