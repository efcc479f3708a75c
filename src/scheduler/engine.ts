/**
 * Keeps the scheduler going: declarations are reconciled with the rows, what
 * is due fires, and a wake comes at the next time of all. Joins the parts;
 * each of them does one thing.
 */

import type { LifecycleServices } from "agents/lifecycle";
import type { Clock } from "../core/clock.ts";
import { failureOf } from "../core/failures.ts";
import { preview } from "../core/json.ts";
import { reportProblem } from "../core/problems.ts";
import { Wake } from "../core/wake.ts";
import { fireTime } from "./due.ts";
import { InvalidTaskError, UnknownTaskError } from "./errors.ts";
import { jitterShare, newOwner, ownerOfNames } from "./keys.ts";
import type { SchedulerLimits, SchedulerSettings } from "./options.ts";
import type { Run, TaskRow } from "./rows.ts";
import { Firing } from "./runs/firing.ts";
import { BACKSTOP_MS, Runner, type RunnerOwner } from "./runs/runner.ts";
import { Store } from "./store.ts";
import { type Declarations, declarationsOf, NONE } from "./tasks/declarations.ts";
import type { DeclaredTask } from "./tasks/declared.ts";
import { scheduledRunOf } from "./tasks/reading.ts";
import { type ArmedOccurrence, plan } from "./tasks/reconcile.ts";

/** Tasks that the app could not tell are asked for again so long afterwards. */
const ASK_AGAIN_MS = 60_000;
/** Tasks that fire before others come in: one with a long past can take a tenth of a second. */
const FIRED_AT_A_TIME = 16;

export type EngineOwner = {
  readonly settings: SchedulerSettings;
  readonly limits: SchedulerLimits;
  readonly clock: Clock;
  /** Given when the scheduler is installed, which is later than its construction. */
  readonly lifecycle: () => LifecycleServices;
};

export class Engine implements RunnerOwner {
  readonly settings: SchedulerSettings;
  readonly limits: SchedulerLimits;
  readonly clock: Clock;
  readonly wake: Wake;
  readonly runner: Runner;
  readonly #lifecycle: EngineOwner["lifecycle"];
  #parts: { readonly store: Store; readonly firing: Firing } | undefined;
  #owner: string | undefined;
  /** Whether the owner is not stored yet. */
  #isOwnerNew = false;
  #declared: Declarations = NONE;
  /** What another scheduler had armed, by task, until the next reconcile. */
  #adopted: ReadonlyMap<string, ArmedOccurrence> = new Map();
  /** The latest reconcile; undefined before the first. */
  #reconciling: Promise<void> | undefined;
  #hasReconciled = false;
  /** When the app is asked again for its tasks; null: not needed. */
  #askAgainAt: number | null = null;
  /** Tasks that could not be fired, and until when they are left alone. */
  readonly #resting = new Map<string, number>();
  /** The problems that have been told of, by task. */
  readonly #told = new Map<string, string>();
  #isDriving = false;

  constructor({ settings, limits, clock, lifecycle }: EngineOwner) {
    this.settings = settings;
    this.limits = limits;
    this.clock = clock;
    this.#lifecycle = lifecycle;
    this.wake = new Wake(lifecycle, "perdure.scheduler", () => this.#drive(), clock);
    this.runner = new Runner(this);
  }

  get store(): Store {
    return this.#open().store;
  }

  get firing(): Firing {
    return this.#open().firing;
  }

  /** A part of each key, the same in every version of the app: stored with the first task. */
  get owner(): string {
    this.#owner ??= this.settings.owner ?? this.store.owner ?? this.#firstOwner();
    return this.#owner;
  }

  #firstOwner(): string {
    this.#isOwnerNew = true;
    return this.store.tasks.rows.size > 0 ? ownerOfNames(this.#lifecycle()) : newOwner();
  }

  get prompts() {
    return this.settings.prompts;
  }

  get concurrency(): number {
    return this.limits.concurrency;
  }

  get declared(): Declarations {
    return this.#declared;
  }

  /**
   * The object is starting, and its app is not there yet: opens the tables,
   * and makes sure of a wake where an earlier life has left rows. The first
   * reconcile follows the start, unless the app asks for it earlier.
   */
  async start(): Promise<void> {
    this.store.migrate();
    this.store.load();
    const { tasks, runs } = this.store;
    const isArmed = ({ nextAt, pausedAt }: TaskRow) => nextAt !== null && pausedAt === null;
    const times = [...tasks.rows.values()].filter(isArmed).map(({ nextAt }) => nextAt ?? 0);
    if (runs.busyTasks.length > 0) times.push(this.clock.now());
    // One that is there is left alone: it knows the jitter, which the rows do not.
    const isMissing = times.length > 0 && this.wake.armedFor === null;
    if (isMissing) await this.wake.noLaterThan(Math.min(...times));
    setTimeout(() => this.#begin(), 0);
  }

  #begin(): void {
    if (this.#reconciling !== undefined) return;
    const begun = this.#lifecycle().ready();
    // What fails is told of where it does, and tried again by a wake.
    begun.then(() => this.reconciled()).catch(() => {});
  }

  /** {@link reconcile}, where new tasks go on with what another scheduler had armed. */
  adopt(armed: ReadonlyMap<string, ArmedOccurrence>): Promise<void> {
    this.#adopted = armed;
    return this.reconcile();
  }

  /** Reads the declarations again; after all that have been asked for before. */
  reconcile(): Promise<void> {
    const before = this.#reconciling ?? Promise.resolve();
    const reconciling = before.catch(() => {}).then(() => this.#reconcile());
    reconciling.catch(() => {});
    this.#reconciling = reconciling;
    return reconciling;
  }

  /** Resolves when the declarations have been read in this life: now, or once more where that has failed. */
  reconciled(): Promise<void> {
    if (this.#hasReconciled) return Promise.resolve();
    const isAsked = this.#reconciling !== undefined && this.#askAgainAt === null;
    return isAsked && this.#reconciling ? this.#reconciling : this.reconcile();
  }

  async #reconcile(): Promise<void> {
    this.#askAgainAt = null;
    try {
      const { routes } = this.#lifecycle();
      const isSubAgent = routes.source !== undefined;
      const { settings, inHostContext } = this;
      const share = (taskId: string) => jitterShare(this.owner, taskId);
      const found = await declarationsOf({ settings, share, isSubAgent, inHostContext });
      if (found.outOfScope > 0) this.#warnOfScope(found.outOfScope);
      this.#apply(found.declarations);
    } catch (error) {
      this.#askAgainAt = this.clock.now() + ASK_AGAIN_MS;
      console.error("[perdure] the scheduled tasks could not be reconciled:", error);
      this.#lifecycle().events.emit("scheduler:invalid", { error: failureOf(error) });
      this.changed();
      throw error;
    }
  }

  #apply(declared: Declarations): void {
    const { store, runner } = this;
    const changes = plan(declared, store.tasks.rows, this.clock.now(), this.#adopted);
    const { insert, update, omit, delete: gone } = changes;
    const storesOwner = this.#isOwnerNew && declared.valid.size > 0;
    const count = insert.length + update.length + omit.length + gone.length;
    if (count > 0 || storesOwner) {
      store.transaction(() => {
        if (storesOwner) store.keepOwner(this.owner);
        for (const row of [...insert, ...update]) store.tasks.put(row);
        store.forget(gone, omit);
      });
      if (storesOwner) this.#isOwnerNew = false;
      runner.forget([...gone, ...omit.map(({ taskId }) => taskId)]);
    }
    this.#declared = declared;
    this.#adopted = new Map();
    this.#hasReconciled = true;
    this.#tellInvalid(declared);
    this.#warnOfIgnored(declared);
    for (const { taskId, nextAt } of insert) if (nextAt === null) this.#warnOfEnd(taskId);
    runner.revive();
    runner.proceed();
    this.changed();
  }

  #warnOfEnd(taskId: string): void {
    const what = `the scheduled task ${JSON.stringify(taskId)}`;
    console.warn(`[perdure] ${what} has no occurrence from now on: it is finished already.`);
  }

  #warnOfScope(count: number): void {
    if (this.#told.has("")) return;
    this.#told.set("", "scope");
    console.warn(
      `[perdure] this sub-agent declares ${count} scheduled tasks, which run in the root agent only. ` +
        'Return "all" from getScheduledTasksScope() if each sub-agent is to run its own.',
    );
  }

  /** Each problem once in a life. */
  #tellInvalid({ invalid }: Declarations): void {
    for (const { taskId, error } of invalid.values()) {
      if (this.#told.get(taskId) === error.message) continue;
      this.#told.set(taskId, error.message);
      this.#reportInvalid(taskId, error);
    }
  }

  /** Each set of fields once in a life. */
  #warnOfIgnored({ valid }: Declarations): void {
    for (const { taskId, ignored } of valid.values()) {
      const fields = ignored.join(", ");
      if (fields === "" || this.#told.get(taskId) === fields) continue;
      this.#told.set(taskId, fields);
      const what = `The scheduled task ${JSON.stringify(taskId)} has options that do not exist`;
      console.warn(`[perdure] ${what}, and that are ignored: ${fields}.`);
    }
  }

  #reportInvalid(taskId: string, error: unknown): void {
    console.error(`[perdure] the scheduled task ${preview(taskId)} is not armed:`, error);
    const failure = failureOf(error);
    this.#lifecycle().events.emit("scheduler:invalid", { taskId, error: failure });
    const invalid = new InvalidTaskError(taskId, failure.message, { cause: error });
    this.#tell("onInvalid", taskId, async () => this.settings.onInvalid?.(invalid));
  }

  #tell(hook: "onFailure" | "onInvalid", taskId: string, work: () => Promise<void>): void {
    this.inHostContext(work).catch((thrown: unknown) => {
      console.error(`[perdure] ${hook} failed for ${JSON.stringify(taskId)}:`, thrown);
    });
  }

  readonly taskOf = (taskId: string): DeclaredTask | undefined => this.#declared.valid.get(taskId);

  /**
   * @throws UnknownTaskError for an id that is not declared
   * @throws InvalidTaskError for a declaration that cannot be understood
   */
  validTask(taskId: string): { readonly task: DeclaredTask; readonly row: TaskRow } {
    const task = this.taskOf(taskId);
    const row = this.store.tasks.rows.get(taskId);
    if (task && row) return { task, row };
    const { error } = this.#declared.invalid.get(taskId) ?? {};
    if (error) throw new InvalidTaskError(taskId, error.message, { cause: error });
    throw this.#unknown(taskId);
  }

  /** @throws UnknownTaskError for an id that is not declared */
  knownTask(taskId: string): void {
    const { valid, invalid } = this.#declared;
    if (!valid.has(taskId) && !invalid.has(taskId)) throw this.#unknown(taskId);
  }

  #unknown(taskId: string): UnknownTaskError {
    const { valid, invalid } = this.#declared;
    return new UnknownTaskError(taskId, [...valid.keys(), ...invalid.keys()]);
  }

  readonly inHostContext = <T>(work: () => Promise<T>): Promise<T> =>
    this.#lifecycle().runInHostContext(work) as Promise<T>;

  readonly #tellFull = (taskId: string, reason: string): void => {
    const message = `An occurrence is skipped: ${reason}`;
    const problem = { type: "scheduler:full", level: "warn", message, ids: { taskId } } as const;
    reportProblem(this.settings.onProblem, problem, this.inHostContext);
  };

  readonly failed = (run: Run, error: unknown): void => {
    const told = scheduledRunOf(run, this.owner);
    const { taskId } = run;
    const { idempotencyKey, attempts } = told;
    const failure = failureOf(error);
    this.#lifecycle().events.emit("scheduler:failed", {
      taskId,
      idempotencyKey,
      attempts,
      error: failure,
    });
    const isPaused = this.store.tasks.rows.get(taskId)?.pausedBy === "failure";
    const what = `the scheduled task ${JSON.stringify(taskId)} has failed${isPaused ? ", and is paused" : ""}`;
    console.error(`[perdure] ${what} (attempt ${attempts}):`, error);
    this.#tell("onFailure", taskId, async () => this.settings.onFailure?.(error, told));
  };

  /** Something has changed that may change when to wake: the job follows, unless a drive is about to say so itself. */
  readonly changed = (): void => {
    if (this.#isDriving) return;
    const next = this.#nextWake();
    if (next !== null) this.wake.request(next);
    else if (this.wake.armedFor !== null) this.wake.release();
  };

  /** {@link changed}, for a caller that waits until the wake is there. */
  async armed(): Promise<void> {
    const next = this.#nextWake();
    if (next !== null) await this.wake.noLaterThan(next);
    else await this.wake.clear();
  }

  async #drive(): Promise<number | null> {
    this.#isDriving = true;
    try {
      const mustAsk = this.#askAgainAt !== null && this.#askAgainAt <= this.clock.now();
      // What fails has been told of, and set the time at which it is tried again.
      await (mustAsk ? this.reconcile() : this.reconciled()).catch(() => {});
      await this.#fireAll();
      this.runner.revive();
      this.runner.proceed();
      this.#lifecycle().trackAlarmWork(this.runner.work);
      return this.#nextWake();
    } finally {
      this.#isDriving = false;
    }
  }

  /**
   * In parts, each of which commits before the next begins: a crowd that takes longer than an alarm
   * may goes on where it was, and a verb need not wait for all of it.
   */
  async #fireAll(): Promise<void> {
    let fired = 0;
    for (const taskId of [...this.#declared.valid.keys()]) {
      if (!this.#fireDue(taskId)) continue;
      fired++;
      if (fired % FIRED_AT_A_TIME === 0) await new Promise((resolve) => setTimeout(resolve, 0));
    }
  }

  /** Returns whether the task was due. */
  #fireDue(taskId: string): boolean {
    const task = this.taskOf(taskId);
    const row = this.store.tasks.rows.get(taskId);
    const time = task && row ? this.#fireTime(task, row) : null;
    if (!task || !row || time === null || time > this.clock.now()) return false;
    try {
      this.#resting.delete(taskId);
      this.firing.fire(task, row);
    } catch (error) {
      this.#resting.set(taskId, this.clock.now() + BACKSTOP_MS);
      this.#reportInvalid(taskId, error);
    }
    return true;
  }

  #fireTime(task: DeclaredTask, row: TaskRow): number | null {
    const time = fireTime(task, row);
    return time === null ? null : Math.max(time, this.#resting.get(task.taskId) ?? time);
  }

  /** The earliest time at which there is something to do, or null. */
  #nextWake(): number | null {
    const nextRun = this.runner.nextWake(this.clock.now());
    return earliest([this.#nextFire(), nextRun, this.#askAgainAt]);
  }

  #nextFire(): number | null {
    const { rows } = this.store.tasks;
    const times = [...this.#declared.valid.values()].map((task) => {
      const row = rows.get(task.taskId);
      return row ? this.#fireTime(task, row) : null;
    });
    return earliest(times);
  }

  #open() {
    if (!this.#parts) {
      const store = new Store(this.#lifecycle().storage);
      const { runner, clock, limits } = this;
      this.#parts = {
        store,
        firing: new Firing({ store, runner, clock, limits, full: this.#tellFull }),
      };
    }
    return this.#parts;
  }
}

function earliest(times: readonly (number | null)[]): number | null {
  const known = times.filter((time) => time !== null);
  return known.length === 0 ? null : known.reduce((first, time) => Math.min(first, time));
}
