/** The scheduler: recurring tasks that the code declares. This file has its public methods; engine.ts has its loop. */

import { type Clock, monotonic, systemClock } from "../core/clock.ts";
import type { Instant } from "../core/options/instant.ts";
import { readOptions } from "../core/options/option-schemas.ts";
import { objectOf } from "../core/options/options.ts";
import { type Page, type PageOptions, pageOf } from "../engine/page.ts";
import { Capability } from "../engine/work-loop.ts";
import type { SubmissionInspection } from "../submissions/types.ts";
import { SchedulerEngine } from "./engine.ts";
import { type SchedulerFacts, schedulerFacts } from "./facts.ts";
import {
  INSPECT,
  LIST,
  NOTE,
  RANGE,
  RUNS,
  runCursors,
  type SchedulerSettings,
  SETTINGS,
  STORED_ID,
  TASK_CURSORS,
  TASK_ID,
  TRIGGER,
} from "./options.ts";
import { type Run, scheduledRunOf, type TaskRow } from "./rows.ts";
import type { DeclaredTask } from "./tasks/declared.ts";
import { nextOccurrenceOf } from "./tasks/occurrences.ts";
import { readTasks } from "./tasks/reading.ts";
import type { ArmedOccurrence } from "./tasks/reconcile.ts";
import type { ScheduledRun, ScheduledTaskInfo, Turns } from "./types.ts";

export type SchedulerOptions = SchedulerSettings & { readonly clock?: Clock };

export class Scheduler extends Capability {
  readonly #engine: SchedulerEngine;

  /**
   * Install it in the constructor of an agent, or of a Durable Object with a Lifecycle:
   * `this.lifecycle.use(this.schedules)`. An `Agent` has a property `scheduler` already.
   *
   * @param turns for the feature `schedules()`: without them, a task with a prompt is invalid
   * @throws InvalidOptionError for an invalid option
   */
  constructor(options: SchedulerOptions, turns?: Turns) {
    const { clock = systemClock, ...settings } = objectOf("options of Scheduler", options);
    // An occurrence that has fired would be due again, if the clock were set back.
    super("perdure.scheduler", monotonic(clock));
    const read = readOptions(SETTINGS, settings, "options of Scheduler");
    this.#engine = new SchedulerEngine(read, this.loop, turns);
  }

  override async onStart(): Promise<void> {
    await super.onStart();
    await this.#engine.start();
  }

  protected override drive(): Promise<number | null> {
    return this.#engine.drive();
  }

  /**
   * For the feature `schedules()`: a submission has ended, maybe that of a prompt.
   *
   * @internal
   */
  submissionEnded(submission: SubmissionInspection): void {
    this.#engine.runner.submissionEnded(submission.submissionId, submission);
  }

  /**
   * For hosts: takes over the occurrences that another scheduler has armed. Does nothing where this scheduler has ever had
   * a task. Call it at each start, before the other scheduler disarms them.
   */
  async adopt(find: () => Promise<ReadonlyMap<string, ArmedOccurrence>>): Promise<void> {
    if (this.#engine.store.tasks.size > 0) return;
    const armed = await find();
    if (armed.size > 0) await this.#engine.adopt(armed);
  }

  /**
   * Reads the declarations again, and updates the rows; unchanged declarations write nothing. It happens after each start,
   * and where the default zone has changed: call it when what `tasks()` reads has changed. Inside the host's own `onStart` it replaces the one after the start.
   *
   * @throws what `tasks()` throws, and a TimeoutError after 10 seconds; it is reported, and tried again after a minute
   */
  async reconcile(): Promise<void> {
    await this.lifecycle.ready();
    await this.#engine.reconcile();
    await this.#engine.armed();
  }

  /**
   * The declared tasks, by id, the invalid ones with their errors.
   *
   * @param options.occurrences how many next occurrences to compute for each task, 0 to 100. @default 1
   * @param options.limit 1 to 1,000. @default 100
   * @throws InvalidOptionError
   */
  async list(
    options: { occurrences?: number } & PageOptions = {},
  ): Promise<Page<ScheduledTaskInfo>> {
    const { occurrences, limit, cursor } = readOptions(LIST, options, "options of list()");
    const { declared, store } = await this.#ready();
    const found = declared.ids.filter((id) => cursor === undefined || id > cursor).sort();
    const { items, ...next } = pageOf(
      found,
      limit,
      (id) => id,
      (id) => TASK_CURSORS.at(id),
    );
    return { items: readTasks(declared, store, occurrences, items), ...next };
  }

  /** One task, or null for an id that is not declared. Errors are those of {@link list}. */
  async inspect(
    taskId: string,
    options: { occurrences?: number } = {},
  ): Promise<ScheduledTaskInfo | null> {
    readOptions(TASK_ID, taskId, "taskId");
    const { occurrences } = readOptions(INSPECT, options, "options of inspect()");
    const { declared, store } = await this.#ready();
    return readTasks(declared, store, occurrences, [taskId])[0] ?? null;
  }

  /**
   * For a health report.
   *
   * @internal
   */
  async facts(now: number): Promise<SchedulerFacts> {
    const { declared, omitted, store } = await this.#ready();
    return schedulerFacts(declared, omitted, store, now);
  }

  /**
   * Runs of a task, newest first by the time they were scheduled for. Also of a task that is no longer declared, as long as it is
   * kept.
   *
   * @param options.limit 1 to 1,000. @default 50
   * @throws UnknownTaskError, InvalidOptionError
   */
  async runs(taskId: string, options: PageOptions = {}): Promise<Page<ScheduledRun>> {
    const { declared, store } = await this.#ready();
    if (!store.tasks.has(taskId)) declared.check(taskId);
    const cursors = runCursors(taskId);
    const { limit, cursor } = readOptions(RUNS(cursors.option), options, "options of runs()");
    const runs = store.runs.list(taskId, limit + 1, cursor);
    const cursorAfter = (run: Run) => cursors.at(run.occurrence, run.triggerKey);
    return pageOf(runs, limit, (run) => scheduledRunOf(run, store.owner), cursorAfter);
  }

  /**
   * Stops a task's occurrences from firing until `resume()`. Runs that have fired continue.
   *
   * @param note why it is paused, for operators: up to 1,000 characters
   * @throws UnknownTaskError, InvalidTaskError, InvalidOptionError
   */
  async pause(taskId: string, note?: string): Promise<void> {
    const pausedNote = readOptions(NOTE, note, "note") ?? null;
    await this.#change(taskId, ({ store, clock }, _, row) => {
      const pausedAt = row.pausedAt ?? clock.now();
      store.putTask({ ...row, pausedAt, pausedBy: "hand", pausedNote });
    });
  }

  /**
   * Resumes a paused task at the first occurrence that fires after now, its jitter included. What passed while it was paused is
   * not caught up. Does nothing to a task that is not paused.
   *
   * @throws UnknownTaskError, InvalidTaskError
   */
  async resume(taskId: string): Promise<void> {
    await this.#change(taskId, ({ store, clock }, task, row) => {
      if (row.pausedAt === null) return;
      let nextAt = nextOccurrenceOf(task, clock.now() - task.offsetMs, row.anchor);
      // An occurrence may have been skipped or backfilled already.
      while (
        nextAt !== null &&
        store.runs.statuses(taskId, { from: nextAt, to: nextAt + 1 }).size > 0
      ) {
        nextAt = nextOccurrenceOf(task, nextAt, row.anchor);
      }
      const active = { pausedAt: null, pausedBy: null, pausedNote: null, failures: 0 };
      store.putTask({ ...row, ...active, nextAt });
    });
  }

  /**
   * Runs a task now, also while it is paused; its `overlap` applies.
   *
   * @param options.key the same key again returns the same run, for the `age` of the history (30 days), among the newest
   *   10,000 triggers of the task: 1 to 200 characters. @default a new one
   * @returns the run as it is now, which may be `skipped`
   * @throws UnknownTaskError, InvalidTaskError, InvalidOptionError
   */
  async trigger(taskId: string, options: { key?: string } = {}): Promise<ScheduledRun> {
    const { key = crypto.randomUUID() } = readOptions(TRIGGER, options, "options of trigger()");
    return this.#change(taskId, ({ firing, store }, task, row) =>
      scheduledRunOf(firing.trigger(task, row, key), store.owner),
    );
  }

  /**
   * Runs the occurrences of a past range [from, to), oldest first and one at a time, at most 1,000. Occurrences that have run are left
   * out, as far back as the history goes; skipped ones run. Occurrences that are still to come fire by themselves.
   *
   * @throws UnknownTaskError, InvalidTaskError; InvalidOptionError for an invalid or too long range. Nothing is stored then
   */
  async backfill(
    taskId: string,
    range: { from: Instant; to: Instant },
  ): Promise<{ queued: number; alreadyRun: number }> {
    const times = readOptions(RANGE, range, "range of backfill()");
    return this.#change(taskId, ({ firing }, task, row) => firing.backfill(task, row, times));
  }

  /** How many runs {@link backfill} of the same range would queue. Writes nothing. Throws as it does. */
  async countBackfill(taskId: string, range: { from: Instant; to: Instant }): Promise<number> {
    const times = readOptions(RANGE, range, "range of backfill()");
    const engine = await this.#ready();
    const { task, row } = engine.task(taskId);
    return engine.firing.backfillable(task, row, times).queued.length;
  }

  /**
   * Skips the next occurrence. Called again, it skips the one after it.
   *
   * @returns the time that is skipped; null for a task that is paused or finished
   * @throws UnknownTaskError, InvalidTaskError
   */
  async skipNext(taskId: string): Promise<number | null> {
    return this.#change(taskId, ({ firing }, task, row) => firing.skipNext(task, row));
  }

  /**
   * Deletes a task that is no longer declared: its open runs, history, trigger keys and pause. A running attempt, or the turn of a
   * prompt, continues; its end is not stored.
   *
   * @returns false for an id that is not stored
   * @throws InvalidOptionError for a task that is declared, and for an invalid id
   */
  async remove(taskId: string): Promise<boolean> {
    readOptions(STORED_ID, taskId, "taskId");
    const engine = await this.#ready();
    const isRemoved = engine.remove(taskId);
    await engine.armed();
    return isRemoved;
  }

  /** Changes one task, and resolves when the wake for it is stored. */
  async #change<T>(
    taskId: string,
    work: (engine: SchedulerEngine, task: DeclaredTask, row: TaskRow) => T,
  ): Promise<T> {
    const engine = await this.#ready();
    await this.wake.reach();
    const { task, row } = engine.task(taskId);
    const result = work(engine, task, row);
    await engine.armed();
    return result;
  }

  async #ready(): Promise<SchedulerEngine> {
    await this.lifecycle.ready();
    await this.#engine.reconciled();
    return this.#engine;
  }
}
