/**
 * Attempts under way. Begins what waits as far as there is room, counts each
 * attempt in its row first (S1), and stores how it ended. Never throws at who
 * calls it: what cannot be stored now is found again by the next wake.
 */

import type { Clock } from "../../core/clock.ts";
import { backoffMs, failureOf, isReset } from "../../core/failures.ts";
import { PromptLostError, RunCancelledError, RunInterruptedError } from "../errors.ts";
import { nextStart, startable } from "../queue.ts";
import { nameOf, type Run } from "../rows.ts";
import type { Store } from "../store.ts";
import type { DeclaredTask } from "../tasks/declared.ts";
import type { PromptEnd } from "../types.ts";
import { type ActionHost, cancelPrompt, perform } from "./attempt.ts";
import type { RunEnd } from "./run-store.ts";

/** An object that dies in the middle of an attempt is looked after at most this long afterwards. */
export const BACKSTOP_MS = 30_000;
/** While the turn of a prompt is under way, its end is asked for again this often, should it have been lost. */
const PROMPT_CHECK_MS = 300_000;
/** An attempt that takes longer makes room for another. */
const SLOW_MS = 10_000;
/** How many times as many may be under way in all, with the slow ones. */
const SLOW_FACTOR = 8;

export type RunnerOwner = ActionHost & {
  readonly store: Store;
  readonly clock: Clock;
  readonly concurrency: number;
  readonly owner: string;
  /** The declaration of a task, if it can be understood. */
  taskOf(taskId: string): DeclaredTask | undefined;
  /** A run has failed for good. */
  failed(run: Run, error: unknown): void;
  /** Something has changed that may change when to wake. */
  changed(): void;
};

type Live = {
  readonly run: Run;
  readonly abort: AbortController;
  isSlow: boolean;
  /** Its task was taken away: how it ends is stored nowhere, not even where the task has come back. */
  isForgotten: boolean;
};

export class Runner {
  /** Attempts, by the names of their runs. */
  readonly #live = new Map<string, Live>();
  readonly #work = new Map<string, Promise<void>>();
  /** Runs whose prompt's end is being waited for, and when it was last asked for. */
  readonly #watched = new Map<string, { readonly run: Run; askedAt: number }>();
  /** How attempts have ended of which that could not be stored, by the names of their runs. */
  readonly #unstored = new Map<string, () => void>();
  /** Tasks that may have something to begin, in the order in which they came. */
  readonly #line = new Set<string>();
  /** When something that could not be stored or read is tried again; null: nothing. */
  #troubleUntil: number | null = null;

  constructor(private readonly host: RunnerOwner) {}

  get isBusy(): boolean {
    return this.#live.size > 0;
  }

  /** All attempts under way; never rejects. */
  get work(): Promise<unknown> {
    return Promise.all(this.#work.values());
  }

  /** How many more attempts may begin. */
  get room(): number {
    const { concurrency } = this.host;
    const slow = [...this.#live.values()].filter(({ isSlow }) => isSlow).length;
    const inAll = concurrency * SLOW_FACTOR - this.#live.size;
    return Math.max(0, Math.min(inAll, concurrency - (this.#live.size - slow)));
  }

  /** When the object must be awake for runs, or null. */
  nextWake(now: number): number | null {
    const times: number[] = [];
    if (this.isBusy) times.push(now + BACKSTOP_MS);
    if (this.#watched.size > 0) times.push(now + PROMPT_CHECK_MS);
    if (this.#troubleUntil !== null) times.push(Math.max(now, this.#troubleUntil));
    const { store, taskOf } = this.host;
    for (const taskId of store.runs.busyTasks) {
      const next = taskOf(taskId) && nextStart(store.runs.open(taskId), now);
      if (typeof next === "number") times.push(next);
    }
    return times.length > 0 ? Math.min(...times) : null;
  }

  /** Takes up what an earlier life, or trouble in this one, has left behind. */
  revive(): void {
    this.#troubleUntil = null;
    for (const [name, storeIt] of this.#unstored) this.#storeEnd(name, storeIt);
    const { store, taskOf } = this.host;
    for (const taskId of store.runs.busyTasks) {
      const task = taskOf(taskId);
      if (!task) continue;
      for (const run of store.runs.open(taskId)) this.#guarded(() => this.#reviveRun(task, run));
      this.expect(taskId);
    }
  }

  #reviveRun(task: DeclaredTask, run: Run): void {
    const name = nameOf(run);
    if (run.status !== "running" || this.#live.has(name) || this.#unstored.has(name)) return;
    if (run.submissionId !== null) this.#watch(run, run.submissionId);
    // Where only one attempt is allowed there is a second: that one may never have begun.
    else if (run.attempts < Math.max(task.maxAttempts, 2)) this.host.store.runs.interrupted(run);
    else this.#fail(run, new RunInterruptedError(run.taskId, run.attempts));
  }

  /** A task may have something to begin. */
  expect(taskId: string): void {
    this.#line.add(taskId);
  }

  /** Begins what is in line, as far as there is room. */
  proceed(): void {
    for (const taskId of this.#line) {
      if (this.room === 0) return;
      this.#guarded(() => {
        const isDone = this.#beginSome(taskId);
        this.#line.delete(taskId);
        // Its turn comes again after that of the others.
        if (!isDone) this.#line.add(taskId);
      });
    }
  }

  /** Returns whether there is nothing left to begin now. */
  #beginSome(taskId: string): boolean {
    const { store, clock } = this.host;
    const task = this.host.taskOf(taskId);
    if (!task) return true;
    for (const run of startable(task.overlap, store.runs.open(taskId), clock.now())) {
      if (this.room === 0) return false;
      const begun = store.runs.begin(run);
      if (begun) this.launch(begun);
    }
    return true;
  }

  /** Starts an attempt that has been counted, once the code that calls this has come to its end. */
  launch(run: Run): void {
    const task = this.host.taskOf(run.taskId);
    if (!task) return;
    const name = nameOf(run);
    const abort = new AbortController();
    const live: Live = { run, abort, isSlow: false, isForgotten: false };
    this.#live.set(name, live);
    const slow = setTimeout(() => {
      live.isSlow = true;
      this.proceed();
    }, SLOW_MS);
    const attempt = Promise.resolve()
      .then(() => this.#attempt(task, live))
      .finally(() => {
        clearTimeout(slow);
        if (this.#live.get(name) === live) {
          this.#live.delete(name);
          this.#work.delete(name);
        }
        this.#ended(run.taskId);
      });
    this.#work.set(name, attempt);
  }

  /** Its row is `cancelled` already: what is under way for it ends, too. */
  cancelled(run: Run, reason: string): void {
    const name = nameOf(run);
    const live = this.#live.get(name);
    this.#live.delete(name);
    this.#work.delete(name);
    live?.abort.abort(new RunCancelledError(reason));
    this.#watched.delete(name);
    if (run.submissionId !== null) cancelPrompt(this.host.prompts, run.submissionId, reason);
  }

  /** These tasks and their runs are gone: what is under way for them comes to its end, and nobody waits for it. */
  forget(taskIds: readonly string[]): void {
    const gone = new Set(taskIds);
    for (const live of this.#live.values()) {
      if (gone.has(live.run.taskId)) live.isForgotten = true;
    }
    for (const [name, { run }] of this.#watched)
      if (gone.has(run.taskId)) this.#watched.delete(name);
  }

  async #attempt(task: DeclaredTask, live: Live): Promise<void> {
    const { host } = this;
    const { run, abort } = live;
    // Cancelled before it could begin.
    if (abort.signal.aborted) return;
    let submissionId: string | undefined;
    try {
      submissionId = await perform({ task, run, owner: host.owner, abort }, host);
    } catch (error) {
      if (live.isForgotten) return;
      this.#storeEnd(nameOf(run), () => this.#failedAttempt(task, run, error));
      return;
    }
    if (live.isForgotten) return;
    this.#storeEnd(nameOf(run), () => {
      if (submissionId === undefined) this.#settle(run, { status: "completed", error: null });
      else this.#submitted(run, submissionId);
    });
  }

  /** What cannot be stored now is stored later, and nothing is attempted again for it. */
  #storeEnd(name: string, storeIt: () => void): void {
    this.#unstored.set(name, storeIt);
    this.#guarded(() => {
      storeIt();
      this.#unstored.delete(name);
    });
  }

  #submitted(run: Run, submissionId: string): void {
    const submitted = this.host.store.runs.submitted(run, submissionId);
    if (submitted) this.#watch(submitted, submissionId);
    else cancelPrompt(this.host.prompts, submissionId, "The run of its schedule was cancelled");
  }

  #failedAttempt(task: DeclaredTask, run: Run, error: unknown): void {
    const { store, clock } = this.host;
    // Nothing written from here on would last; and if it was another object's end, this attempt counts as one interrupted.
    if (isReset(error)) {
      this.#trouble();
      return;
    }
    if (run.attempts >= task.maxAttempts) {
      this.#fail(run, error);
      return;
    }
    const delay = backoffMs(run.attempts, task.backoff, clock.random());
    store.runs.retryAt(run, clock.now() + delay, failureOf(error));
  }

  #fail(run: Run, error: unknown): void {
    const failed = this.#settle(run, { status: "failed", error: failureOf(error) });
    if (failed) this.host.failed(failed, error);
  }

  /** Stores the end, and what it means for the task. Returns the ended run, unless it had ended before, or is gone. */
  #settle(run: Run, end: RunEnd): Run | undefined {
    const { store, clock } = this.host;
    const now = clock.now();
    return store.transaction(() => {
      const ended = store.runs.end(run, end, now);
      const row = store.tasks.rows.get(run.taskId);
      if (!ended || !row) return ended;
      if (end.status === "failed") {
        const failures = row.failures + 1;
        const { pauseAfter = Infinity } = this.host.taskOf(run.taskId) ?? {};
        const isPaused = failures >= pauseAfter && row.pausedAt === null;
        const pause = {
          pausedAt: now,
          pausedBy: "failure",
          pausedNote: end.error?.message ?? null,
        } as const;
        store.tasks.put({ ...row, failures, ...(isPaused && pause) });
      } else if (end.status === "completed" && row.failures > 0) {
        store.tasks.put({ ...row, failures: 0 });
      }
      return ended;
    });
  }

  /** Waits for the end of a prompt. Asks again after five minutes: the answer may be lost. The first answer counts. */
  #watch(run: Run, submissionId: string): void {
    const name = nameOf(run);
    const { prompts, clock } = this.host;
    const watch = this.#watched.get(name) ?? { run, askedAt: Number.NEGATIVE_INFINITY };
    if (!prompts || clock.now() - watch.askedAt < PROMPT_CHECK_MS) return;
    watch.askedAt = clock.now();
    this.#watched.set(name, watch);
    Promise.resolve(submissionId)
      .then((id) => prompts.ended(id))
      .then((end) => {
        if (this.#watched.get(name) !== watch) return;
        this.#watched.delete(name);
        this.#guarded(() => this.#promptEnded(run, submissionId, end));
      })
      .catch((error: unknown) => {
        if (this.#watched.get(name) !== watch) return;
        this.#watched.delete(name);
        console.error(`[perdure] the end of ${submissionId} could not be learnt:`, error);
        this.#trouble();
      })
      .finally(() => this.#ended(run.taskId));
  }

  #promptEnded(run: Run, submissionId: string, end: PromptEnd | null): void {
    if (!end) {
      this.#fail(run, new PromptLostError(submissionId));
      return;
    }
    const { status, error = { name: "Error", message: `The prompt ended as ${status}` } } = end;
    if (status === "completed") this.#settle(run, { status, error: null });
    else if (status === "error") this.#fail(run, Object.assign(new Error(error.message), error));
    else {
      const to = status === "aborted" ? "cancelled" : "skipped";
      this.#settle(run, { status: to, reason: error.message });
    }
  }

  /** An attempt, or the turn of a prompt, is over: what waited for it goes on. */
  #ended(taskId: string): void {
    this.expect(taskId);
    this.proceed();
    this.#guarded(() => this.host.changed());
  }

  #guarded(work: () => void): void {
    try {
      work();
    } catch (error) {
      console.error("[perdure] the state of a scheduled run could not be stored:", error);
      this.#trouble();
    }
  }

  #trouble(): void {
    this.#troubleUntil = this.host.clock.now() + BACKSTOP_MS;
  }
}
