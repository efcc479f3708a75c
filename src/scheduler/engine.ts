/**
 * The scheduler's loop: reconciles the rows with the declared tasks, fires the occurrences that are due, and sets the wake for
 * the earliest time at which there is something to do.
 */

import { type Clock, earliest } from "../core/clock.ts";
import { preview } from "../core/json.ts";
import { InvalidOptionError } from "../core/options/options.ts";
import type { WorkLoop } from "../engine/work-loop.ts";
import { App } from "./app.ts";
import { InvalidTaskError } from "./errors.ts";
import { jitterShare } from "./keys.ts";
import type { Settings } from "./options.ts";
import type { TaskRow } from "./rows.ts";
import { Firing } from "./runs/firing.ts";
import { Runner } from "./runs/runner.ts";
import { Store } from "./store.ts";
import { Declarations, readDeclarations, readDefaultTimezone } from "./tasks/declarations.ts";
import type { DeclaredTask } from "./tasks/declared.ts";
import { fireTime } from "./tasks/occurrences.ts";
import { type ArmedOccurrence, planChanges } from "./tasks/reconcile.ts";
import type { Turns } from "./types.ts";

/** When the app's tasks could not be read, they are read again after this time. */
const READ_AGAIN_MS = 60_000;
/** How often tasks are read while accepted runs of one wait: on its first day, and later. A deploy starts no sleeping object. */
const OMITTED_MS = { soon: 3_600_000, later: 86_400_000 } as const;
/** Tasks fired before other work gets a turn: a task with a long past can take a tenth of a second. */
const FIRED_AT_A_TIME = 16;

export class SchedulerEngine {
  readonly clock: Clock;
  readonly store: Store;
  readonly runner: Runner;
  readonly firing: Firing;
  readonly #app: App;
  /** As last read. */
  declared = new Declarations();
  /** Occurrences that another scheduler had armed, by task, until the next reconcile. */
  #adopted: ReadonlyMap<string, ArmedOccurrence> = new Map();
  /** The latest reconcile; undefined before the first. */
  #reconciling: Promise<void> | undefined;
  #hasReconciled = false;
  /** The check of the default zone that is being made, which all verbs share. */
  #checkingZone: Promise<void> | undefined;
  /** When the app's tasks are read again after a failure; null: not needed. */
  #readAgainAt: number | null = null;
  /** When they are read again for an omitted task; null: not needed. */
  #omittedReadAt: number | null = null;
  #isDriving = false;

  constructor(
    settings: Settings,
    private readonly loop: WorkLoop,
    turns: Turns | undefined,
  ) {
    const { clock } = loop;
    const app = new App(settings, loop, turns);
    const taskOf = (taskId: string) => this.declared.valid.get(taskId);
    const onChange = () => this.#updateWake();
    this.clock = clock;
    this.#app = app;
    this.store = new Store(loop, settings.owner);
    this.runner = new Runner(app, this.store, loop, taskOf, onChange);
    this.firing = new Firing(app, this.store, this.runner, clock);
  }

  /**
   * The object is starting, and its app is not there yet: opens the tables, and makes sure of a wake where there are
   * rows. The first reconcile follows the start, unless the app calls it earlier.
   */
  async start(): Promise<void> {
    const { store } = this;
    const { wake } = this.loop;
    store.open();
    const active = [...store.tasks.values()].filter(({ pausedAt }) => pausedAt === null);
    const hasRuns = store.runs.busyTasks.length > 0;
    const next = earliest([
      ...active.map(({ nextAt }) => nextAt),
      hasRuns ? this.clock.now() : null,
    ]);
    if (next !== null) await wake.noLaterThan(next);
    setTimeout(() => this.#reconcileFirst(), 0);
  }

  #reconcileFirst(): void {
    if (this.#reconciling !== undefined) return;
    const started = this.loop.lifecycle.ready();
    // A failure has been reported, and a wake tries it again.
    started.then(() => this.reconciled()).catch(() => {});
  }

  /** {@link reconcile}, where new tasks continue what another scheduler had armed. */
  adopt(armed: ReadonlyMap<string, ArmedOccurrence>): Promise<void> {
    this.#adopted = armed;
    return this.reconcile();
  }

  /** Reads the declarations again, after all reconciles that were asked for before. */
  reconcile(): Promise<void> {
    const before = this.#reconciling ?? Promise.resolve();
    const reconciling = before.catch(() => {}).then(() => this.#reconcile());
    reconciling.catch(() => {});
    this.#reconciling = reconciling;
    return reconciling;
  }

  /**
   * Resolves when the declarations have been read since the start: now, once more after a failure, and again where the default
   * zone has changed.
   */
  reconciled(): Promise<void> {
    if (this.#hasReconciled) {
      this.#checkingZone ??= this.#checkZone().finally(() => {
        this.#checkingZone = undefined;
      });
      return this.#checkingZone;
    }
    const isRunning = this.#reconciling !== undefined && this.#readAgainAt === null;
    return isRunning && this.#reconciling ? this.#reconciling : this.reconcile();
  }

  /** An app may keep the zone of its user in its storage. Never rejects: a failure is reported, and the tasks stay as they are. */
  async #checkZone(): Promise<void> {
    const isFixed = this.#app.settings.defaultTimezone === undefined;
    if (isFixed || this.declared.ids.length === 0 || this.#readAgainAt !== null) return;
    try {
      const zone = await readDefaultTimezone(this.#app);
      if (zone === this.declared.defaultTimezone) return;
    } catch (error) {
      this.#unreadable(error);
      return;
    }
    await this.reconcile().catch(() => {});
  }

  async #reconcile(): Promise<void> {
    this.#readAgainAt = null;
    try {
      const share = (taskId: string) => jitterShare(this.store.owner, taskId);
      this.#apply(await readDeclarations(this.#app, share));
    } catch (error) {
      this.#unreadable(error);
      throw error;
    }
  }

  #unreadable(error: unknown): void {
    this.#readAgainAt = this.clock.now() + READ_AGAIN_MS;
    this.#app.reportUnreadable(error);
    this.#updateWake();
  }

  #apply(declared: Declarations): void {
    const { store, runner } = this;
    const now = this.clock.now();
    const hasOpenRuns = (taskId: string) => store.runs.open(taskId).length > 0;
    const retention = { ageMs: this.#app.settings.history.age, hasOpenRuns };
    const changes = planChanges(declared, store.tasks, now, retention, this.#adopted);
    const { insert, update, omit, delete: deleted } = changes;
    const storesOwner = declared.valid.size > 0 && store.isOwnerNew;
    for (const taskId of deleted) {
      if (hasOpenRuns(taskId)) this.#app.reportDropped(taskId, store.runs.open(taskId).length);
    }
    if (insert.length + update.length + omit.length + deleted.length > 0 || storesOwner) {
      store.transaction(() => {
        if (storesOwner) store.putOwner();
        for (const row of [...insert, ...update, ...omit]) store.putTask(row);
        store.deleteTasks(deleted);
        store.runs.deleteOf(deleted);
      });
      runner.forget(deleted);
    }
    this.declared = declared;
    this.#omittedReadAt = this.#nextOmittedRead(now);
    this.#adopted = new Map();
    this.#hasReconciled = true;
    this.#app.warnOfScope(declared.outOfScope);
    this.#app.reportDeclared(declared.valid.values(), declared.invalid.values());
    for (const { taskId, nextAt } of insert) {
      if (nextAt === null) this.#app.warnOfNoOccurrence(taskId);
    }
    runner.recover();
    runner.startWaiting();
    this.#updateWake();
  }

  /** Rows of tasks that are no longer declared. */
  get omitted(): TaskRow[] {
    const { valid, invalid } = this.declared;
    return [...this.store.tasks.values()].filter(
      ({ taskId }) => !valid.has(taskId) && !invalid.has(taskId),
    );
  }

  /** For accepted runs of omitted tasks. A sub-agent out of scope declares its tasks, and does not run them. */
  #nextOmittedRead(now: number): number | null {
    if (this.declared.outOfScope > 0) return null;
    const waiting = this.omitted.filter(({ taskId }) => this.store.runs.open(taskId).length > 0);
    if (waiting.length === 0) return null;
    const youngest = Math.max(...waiting.map(({ omittedAt }) => omittedAt ?? now));
    return now + (now - youngest < OMITTED_MS.later ? OMITTED_MS.soon : OMITTED_MS.later);
  }

  /**
   * Deletes an omitted task with its runs. Returns false for an id that is not stored.
   *
   * @throws InvalidOptionError for a task that is declared
   */
  remove(taskId: string): boolean {
    const { store, declared, runner } = this;
    if (declared.ids.includes(taskId)) {
      const problem = "it is declared. First remove it from getScheduledTasks() and deploy";
      throw new InvalidOptionError("taskId", `Invalid taskId ${preview(taskId)}: ${problem}.`);
    }
    if (!store.tasks.has(taskId)) return false;
    store.transaction(() => {
      store.deleteTasks([taskId]);
      store.runs.deleteOf([taskId]);
    });
    runner.forget([taskId]);
    this.#omittedReadAt = this.#nextOmittedRead(this.clock.now());
    return true;
  }

  /**
   * @throws UnknownTaskError for an id that is not declared
   * @throws InvalidTaskError for an invalid declaration
   */
  task(taskId: string): { readonly task: DeclaredTask; readonly row: TaskRow } {
    const task = this.declared.valid.get(taskId);
    const row = this.store.tasks.get(taskId);
    if (task && row) return { task, row };
    this.declared.check(taskId);
    const { error } = this.declared.invalid.get(taskId) ?? {};
    throw new InvalidTaskError(taskId, error?.message ?? "it has no row", { cause: error });
  }

  /** Sets the wake for the next thing to do; a drive does so when it ends. */
  #updateWake(): void {
    if (this.#isDriving) return;
    const { wake } = this.loop;
    const next = this.loop.nextWake(this.#nextWake());
    if (next !== null) wake.request(next);
    else wake.release();
  }

  /** Sets the wake, and resolves when the wake is stored. */
  async armed(): Promise<void> {
    const { wake } = this.loop;
    const next = this.loop.nextWake(this.#nextWake());
    if (next !== null) await wake.noLaterThan(next);
    else await wake.clear();
  }

  /** Does what is due. Returns when there is more to do, or null. */
  async drive(): Promise<number | null> {
    this.#isDriving = true;
    try {
      const readAt = earliest([this.#readAgainAt, this.#omittedReadAt]);
      const mustRead = readAt !== null && readAt <= this.clock.now();
      // A failure has been reported, and has set the time of the next try.
      await (mustRead ? this.reconcile() : this.reconciled()).catch(() => {});
      await this.#fireAll();
      this.runner.recover();
      this.runner.startWaiting();
      return this.#nextWake();
    } finally {
      this.#isDriving = false;
    }
  }

  /**
   * In parts, each of which commits before the next begins: the next alarm continues where one has run out of time, and
   * a public verb does not wait for all of them.
   */
  async #fireAll(): Promise<void> {
    let fired = 0;
    for (const taskId of [...this.declared.valid.keys()]) {
      if (!this.#fireDue(taskId)) continue;
      fired++;
      if (fired % FIRED_AT_A_TIME === 0) await new Promise((resolve) => setTimeout(resolve, 0));
    }
  }

  /** Returns whether the task was due. */
  #fireDue(taskId: string): boolean {
    const task = this.declared.valid.get(taskId);
    const row = this.store.tasks.get(taskId);
    const time = task && row ? this.#fireTime(task, row) : null;
    if (!task || !row || time === null || time > this.clock.now()) return false;
    try {
      this.firing.fire(task, row);
    } catch (error) {
      this.loop.pause(taskId);
      this.#app.reportInvalid(taskId, error);
    }
    return true;
  }

  #fireTime(task: DeclaredTask, row: TaskRow): number | null {
    return this.loop.isPaused(task.taskId) ? null : fireTime(task, row);
  }

  /** The earliest time at which there is something to do, or null. */
  #nextWake(): number | null {
    const times = [...this.declared.valid.values()].map((task) => {
      const row = this.store.tasks.get(task.taskId);
      return row ? this.#fireTime(task, row) : null;
    });
    const reads = [this.#readAgainAt, this.#omittedReadAt];
    return earliest([...times, this.runner.nextWake(this.clock.now()), ...reads]);
  }
}
