/**
 * The scheduler: recurring tasks that the code declares, each occurrence
 * stored before it runs (S1, S3-S5). This file has the public verbs; the
 * engine keeps it going, the stores write, the language and the calendar know
 * the times.
 */

import { Capability } from "../core/capability.ts";
import { type Clock, monotonic, systemClock } from "../core/clock.ts";
import type { Instant } from "../core/instant.ts";
import type { Wake } from "../core/wake.ts";
import { readNote, readOccurrences, readPage, readRange, readTrigger } from "./arguments.ts";
import { Engine } from "./engine.ts";
import { readSettings, type SchedulerSettings } from "./options.ts";
import { inspectTask, listTasks, scheduledRunOf } from "./tasks/reading.ts";
import type { ArmedOccurrence } from "./tasks/reconcile.ts";
import type { ScheduledRun, ScheduledTaskInfo } from "./types.ts";
import { Verbs } from "./verbs.ts";

export type SchedulerOptions = SchedulerSettings & {
  readonly clock?: Clock;
};

export class Scheduler extends Capability {
  readonly #engine: Engine;
  readonly #verbs: Verbs;

  /**
   * Install it in the constructor of an agent, or of a Durable Object with a Lifecycle:
   * `this.lifecycle.use(this.schedules)`; `scheduler` is a name that an `Agent` has taken.
   *
   * @throws InvalidOptionError for an option that cannot be meant
   */
  constructor({ clock = systemClock, ...settings }: SchedulerOptions) {
    super("perdure.scheduler");
    this.#engine = new Engine({
      settings,
      limits: readSettings(settings),
      // An occurrence that has fired would seem to be still to come, where the clock is set back.
      clock: monotonic(clock),
      lifecycle: () => this.lifecycle,
    });
    this.#verbs = new Verbs(this.#engine);
  }

  override async onStart(): Promise<void> {
    await super.onStart();
    await this.#engine.start();
  }

  protected override get wake(): Wake {
    return this.#engine.wake;
  }

  /**
   * For hosts: another scheduler gives up what it has armed. Those occurrences fire here, where this one has never had a task.
   * To be called in each start, before the other one disarms them.
   */
  async adopt(find: () => Promise<ReadonlyMap<string, ArmedOccurrence>>): Promise<void> {
    if (this.#engine.store.tasks.rows.size > 0) return;
    const armed = await find();
    if (armed.size > 0) await this.#engine.adopt(armed);
  }

  /**
   * Reads the declarations again, and makes the rows follow them; unchanged
   * ones write nothing (S4). It happens by itself after each start: call it
   * when what `tasks()` reads has changed. Inside the host's own `onStart` it
   * takes the place of the one after the start.
   *
   * @throws what `tasks()` throws, and a TimeoutError after 10 seconds; told of, and tried again after a minute
   */
  async reconcile(): Promise<void> {
    await this.lifecycle.ready();
    await this.#engine.reconcile();
    await this.#engine.armed();
  }

  /**
   * The tasks that are declared, those that cannot be understood last, with their errors (S4, S5).
   *
   * @param options.occurrences how many of the next ones to compute for each, 0 to 100. @default 1
   * @throws InvalidOptionError
   */
  async list(options: { occurrences?: number } = {}): Promise<ScheduledTaskInfo[]> {
    const occurrences = readOccurrences(options);
    return listTasks(await this.#ready(), occurrences);
  }

  /** One task, or null for an id that is not declared. The options are those of {@link list}. */
  async inspect(
    taskId: string,
    options: { occurrences?: number } = {},
  ): Promise<ScheduledTaskInfo | null> {
    const occurrences = readOccurrences(options);
    return inspectTask(await this.#ready(), taskId, occurrences);
  }

  /**
   * Runs of a task, newest first by the time they were for (S5).
   *
   * @param options.limit 1 to 1,000; runs for one same time are never parted, and may make it more. @default 50
   * @param options.before only those for times before it
   * @throws UnknownTaskError, InvalidOptionError
   */
  async runs(
    taskId: string,
    options: { limit?: number; before?: Instant } = {},
  ): Promise<ScheduledRun[]> {
    const page = readPage(options);
    const engine = await this.#ready();
    engine.knownTask(taskId);
    return engine.store.runs.list(taskId, page).map((run) => scheduledRunOf(run, engine.owner));
  }

  /**
   * Stops a task's slots from firing until `resume()`; what has fired goes on (S5).
   *
   * @param note why, for who looks at it: up to 1,000 characters
   * @throws UnknownTaskError, InvalidTaskError, InvalidOptionError
   */
  async pause(taskId: string, note?: string): Promise<void> {
    const text = readNote(note);
    await this.#ready();
    this.#verbs.pause(taskId, text);
    await this.#engine.armed();
  }

  /**
   * Goes on with a paused task, at the first slot that fires after now, its jitter included: what
   * passed while it was paused is not caught up (S5). Does nothing to one that is not paused.
   *
   * @throws UnknownTaskError, InvalidTaskError
   */
  async resume(taskId: string): Promise<void> {
    await this.#ready();
    this.#verbs.resume(taskId);
    await this.#engine.armed();
  }

  /**
   * Runs a task now, also while it is paused; its `overlap` is obeyed (S5).
   *
   * @param options.key the same key again is the same run, as long as the history has it:
   *   1 to 200 characters. @default a new one
   * @returns the run as it is now, which may be `skipped`
   * @throws UnknownTaskError, InvalidTaskError, InvalidOptionError
   */
  async trigger(taskId: string, options: { key?: string } = {}): Promise<ScheduledRun> {
    const key = readTrigger(options);
    await this.#ready();
    const run = this.#verbs.trigger(taskId, key);
    await this.#engine.armed();
    return run;
  }

  /**
   * Runs the slots of a time that has passed, in [from, to): oldest first and
   * one at a time, at most 1,000 (S5). Those that have run are left out, as far
   * back as the history goes; skipped ones run. Slots that are still to come fire by themselves.
   *
   * @throws UnknownTaskError, InvalidTaskError; InvalidOptionError for a range that is none, or too long. Nothing is stored then
   */
  async backfill(
    taskId: string,
    range: { from: Instant; to: Instant },
  ): Promise<{ queued: number; alreadyRun: number }> {
    const times = readRange(range);
    await this.#ready();
    const result = this.#verbs.backfill(taskId, times);
    await this.#engine.armed();
    return result;
  }

  /**
   * Leaves out the next occurrence (S5). Called again, the one after it.
   *
   * @returns the time that is left out; null for a task that is paused or finished
   * @throws UnknownTaskError, InvalidTaskError
   */
  async skipNext(taskId: string): Promise<number | null> {
    await this.#ready();
    const slot = this.#verbs.skipNext(taskId);
    await this.#engine.armed();
    return slot;
  }

  async #ready(): Promise<Engine> {
    await this.lifecycle.ready();
    await this.#engine.reconciled();
    return this.#engine;
  }
}
