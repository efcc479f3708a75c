/**
 * Starts the attempts of runs as far as there is capacity, and stores how they end. Each attempt is counted in its row
 * before user code runs. Never throws at its caller: what cannot be stored is stored by the next wake.
 */

import { type Clock, earliest } from "../../core/clock.ts";
import { backoffMs, failureOf } from "../../core/failures.ts";
import { inSpan } from "../../core/spans.ts";
import { isReset } from "../../engine/resets.ts";
import type { WorkLoop } from "../../engine/work-loop.ts";
import type { SubmissionInspection } from "../../submissions/types.ts";
import type { App } from "../app.ts";
import { PromptLostError, RunCancelledError, RunInterruptedError } from "../errors.ts";
import { nameOf, type Run, scheduledRunOf } from "../rows.ts";
import type { Store } from "../store.ts";
import type { DeclaredTask } from "../tasks/declared.ts";
import { perform } from "./attempt.ts";
import { nextStart, startable } from "./overlap.ts";
import type { RunEnd } from "./run-store.ts";

/** An attempt that takes longer no longer counts against the concurrency. */
const SLOW_MS = 10_000;
/** How many times the concurrency may run in all, slow attempts included. */
const SLOW_FACTOR = 8;

/** The key of the pause after which what could not be stored is tried again. No task has it. */
const STORAGE = "";

type Live = {
  readonly run: Run;
  readonly abort: AbortController;
  isSlow: boolean;
  /** Its task was deleted: its end is not stored, even if the task has come back. */
  isForgotten: boolean;
};

export class Runner {
  /** Running attempts, by the names of their runs. */
  readonly #live = new Map<string, Live>();
  /** Runs whose submission has not ended yet, by its id. */
  readonly #watched = new Map<string, Run>();
  /** Ends that could not be stored, by the names of their runs. */
  readonly #unstored = new Map<string, () => void>();
  /** Tasks that may have runs to start, in order. */
  readonly #queue = new Set<string>();
  readonly #clock: Clock;

  /** @param onChange called when the time of the next wake may have changed */
  constructor(
    private readonly app: App,
    private readonly store: Store,
    private readonly loop: WorkLoop,
    private readonly taskOf: (taskId: string) => DeclaredTask | undefined,
    private readonly onChange: () => void,
  ) {
    this.#clock = loop.clock;
  }

  /** How many more attempts may start. */
  get capacity(): number {
    const { concurrency } = this.app.settings;
    const slow = [...this.#live.values()].filter(({ isSlow }) => isSlow).length;
    const inAll = concurrency * SLOW_FACTOR - this.#live.size;
    return Math.max(0, Math.min(inAll, concurrency - (this.#live.size - slow)));
  }

  /** When the next run may start, or null. */
  nextWake(now: number): number | null {
    const { runs } = this.store;
    const declared = runs.busyTasks.filter((taskId) => this.taskOf(taskId));
    return earliest(declared.map((taskId) => nextStart(runs.open(taskId), now)));
  }

  /** Takes up open runs that were left by a crash, or by a failure to store their end. */
  recover(): void {
    for (const [name, storeEnd] of this.#unstored) this.#storeEnd(name, storeEnd);
    const { runs } = this.store;
    for (const taskId of runs.busyTasks) {
      const task = this.taskOf(taskId);
      for (const run of runs.open(taskId)) this.#guarded(() => this.#recoverRun(task, run));
      if (task) this.enqueue(taskId);
    }
  }

  /** @param task undefined for one that is not declared, or invalid: only the end of a prompt is stored then */
  #recoverRun(task: DeclaredTask | undefined, run: Run): void {
    const name = nameOf(run);
    if (run.status !== "running" || this.#live.has(name) || this.#unstored.has(name)) return;
    if (run.submissionId !== null) this.#watch(run, run.submissionId);
    else if (!task) return;
    // A task with one attempt gets a second one: its first may not have reached the handler.
    else if (run.attempts < Math.max(task.maxAttempts, 2)) this.store.runs.interrupted(run);
    else this.#fail(run, new RunInterruptedError(run.taskId, run.attempts));
  }

  /** The task may have runs to start. */
  enqueue(taskId: string): void {
    this.#queue.add(taskId);
  }

  /** Starts waiting runs of the queued tasks, as far as there is capacity. */
  startWaiting(): void {
    for (const taskId of this.#queue) {
      if (this.capacity === 0) return;
      this.#guarded(() => {
        const isDone = this.#startSome(taskId);
        this.#queue.delete(taskId);
        // Behind the other tasks.
        if (!isDone) this.#queue.add(taskId);
      });
    }
  }

  /** Returns whether the task has no more runs that may start now. */
  #startSome(taskId: string): boolean {
    const { runs } = this.store;
    const task = this.taskOf(taskId);
    if (!task) return true;
    for (const run of startable(task.overlap, runs.open(taskId), this.#clock.now())) {
      if (this.capacity === 0) return false;
      const claimed = runs.claim(run);
      if (claimed) this.start(claimed);
    }
    return true;
  }

  /** Starts an attempt that has been counted in its row, after the caller's own code has ended. */
  start(run: Run): void {
    const task = this.taskOf(run.taskId);
    if (!task) return;
    const name = nameOf(run);
    const live: Live = { run, abort: new AbortController(), isSlow: false, isForgotten: false };
    this.#live.set(name, live);
    const slow = setTimeout(() => {
      live.isSlow = true;
      this.startWaiting();
    }, SLOW_MS);
    const work = Promise.resolve()
      .then(() => this.#runAttempt(task, live))
      .finally(() => {
        clearTimeout(slow);
        if (this.#live.get(name) === live) this.#live.delete(name);
        this.loop.untrack(live);
        this.#proceed(run.taskId);
      });
    this.loop.track(live, work);
  }

  async #runAttempt(task: DeclaredTask, live: Live): Promise<void> {
    const { run, abort } = live;
    // Cancelled before it started.
    if (abort.signal.aborted) return;
    let prompt: Run | undefined;
    const submitted = (submissionId: string) => {
      abort.signal.throwIfAborted();
      prompt = live.isForgotten ? undefined : this.store.runs.submitted(run, submissionId);
      if (!prompt) throw new RunCancelledError("The run has ended");
    };
    let storeEnd: () => void = () => this.#settle(run, { status: "completed", error: null });
    try {
      const { owner } = this.store;
      const attributes = { "perdure.task": run.taskId, "perdure.attempt": run.attempts };
      await inSpan("perdure.schedule", attributes, async (span) => {
        await perform({ task, run, owner, abort, submitted }, this.app);
        span.set({ "perdure.submission.id": prompt?.submissionId ?? undefined });
      });
      if (prompt?.submissionId) {
        this.#watch(prompt, prompt.submissionId);
        return;
      }
    } catch (error) {
      storeEnd = () => this.#failedAttempt(task, run, error);
    }
    if (!live.isForgotten) this.#storeEnd(nameOf(run), storeEnd);
  }

  /** Keeps what cannot be stored now for the next wake; the attempt is not repeated for it. */
  #storeEnd(name: string, storeEnd: () => void): void {
    this.#unstored.set(name, storeEnd);
    this.#guarded(() => {
      storeEnd();
      this.#unstored.delete(name);
    });
  }

  #failedAttempt(task: DeclaredTask, run: Run, error: unknown): void {
    // The object is going down, and writes nothing more. If another object's end is the cause, it counts as interrupted.
    if (isReset(error)) {
      this.loop.pause(STORAGE);
      return;
    }
    if (run.attempts >= task.maxAttempts) {
      this.#fail(run, error);
      return;
    }
    const delay = backoffMs(run.attempts, task.backoff, this.#clock.random());
    this.store.runs.retryAt(run, this.#clock.now() + delay, failureOf(error));
  }

  #fail(run: Run, error: unknown): void {
    const { store } = this;
    const failed = this.#settle(run, { status: "failed", error: failureOf(error) });
    if (!failed) return;
    const isPaused = store.tasks.get(run.taskId)?.pausedBy === "failure";
    this.app.reportFailed(scheduledRunOf(failed, store.owner), error, isPaused);
  }

  /** Stores the end, and what follows for the task. Returns the ended run; undefined if it had ended before or is deleted. */
  #settle(run: Run, end: RunEnd): Run | undefined {
    const { store } = this;
    const now = this.#clock.now();
    return store.transaction(() => {
      const ended = store.runs.end(run, end, now);
      const row = store.tasks.get(run.taskId);
      if (!ended || !row) return ended;
      if (end.status === "failed") {
        const failures = row.failures + 1;
        const pauses = this.taskOf(run.taskId)?.pauseOnFailure && row.pausedAt === null;
        const pausedNote = end.error?.message ?? null;
        const pause = { pausedAt: now, pausedBy: "failure", pausedNote } as const;
        store.putTask({ ...row, failures, ...(pauses && pause) });
      } else if (end.status === "completed" && row.failures > 0) {
        store.putTask({ ...row, failures: 0 });
      }
      return ended;
    });
  }

  /** Takes up the end of a prompt's submission: now if it has ended, else when the ledger reports the end. */
  #watch(run: Run, submissionId: string): void {
    const { turns } = this.app;
    if (!turns || this.#watched.has(submissionId)) return;
    this.#watched.set(submissionId, run);
    turns.inspect(submissionId).then(
      (found) => {
        if (found?.status !== "pending" && found?.status !== "running")
          this.submissionEnded(submissionId, found);
      },
      (error: unknown) => {
        console.error(`[perdure] the end of ${submissionId} could not be read:`, error);
        this.#watched.delete(submissionId);
        this.loop.pause(STORAGE);
        this.#proceed(run.taskId);
      },
    );
  }

  /** @param ended null for a submission that is no longer stored */
  submissionEnded(submissionId: string, ended: SubmissionInspection | null): void {
    const run = this.#watched.get(submissionId);
    if (!run) return;
    this.#watched.delete(submissionId);
    this.#guarded(() => this.#promptEnded(run, submissionId, ended));
    this.#proceed(run.taskId);
  }

  #promptEnded(run: Run, submissionId: string, ended: SubmissionInspection | null): void {
    if (!ended) {
      this.#fail(run, new PromptLostError(submissionId));
      return;
    }
    const { status, errorName = "Error", error = `The prompt ended as ${status}` } = ended;
    if (status === "completed") this.#settle(run, { status, error: null });
    else if (status === "error")
      this.#fail(run, Object.assign(new Error(error), { name: errorName }));
    else {
      const to = status === "aborted" ? "cancelled" : "skipped";
      this.#settle(run, { status: to, reason: error });
    }
  }

  /** Stops the work of a run whose row is `cancelled` already. */
  cancel(run: Run, reason: string): void {
    const name = nameOf(run);
    const live = this.#live.get(name);
    this.#live.delete(name);
    if (live) this.loop.untrack(live);
    live?.abort.abort(new RunCancelledError(reason));
    if (run.submissionId === null) return;
    this.#watched.delete(run.submissionId);
    this.app.cancelPrompt(run.submissionId, reason);
  }

  /** The rows of these tasks are deleted: their running attempts end, and nothing is stored for them. */
  forget(taskIds: readonly string[]): void {
    const deleted = new Set(taskIds);
    for (const live of this.#live.values()) {
      if (deleted.has(live.run.taskId)) live.isForgotten = true;
    }
    for (const [submissionId, { taskId }] of this.#watched) {
      if (deleted.has(taskId)) this.#watched.delete(submissionId);
    }
  }

  /** An attempt or a submission has ended: runs that waited for it start. */
  #proceed(taskId: string): void {
    this.enqueue(taskId);
    this.startWaiting();
    this.#guarded(this.onChange);
  }

  #guarded(work: () => void): void {
    this.loop.tryOrPause(STORAGE, "the state of a scheduled run could not be stored", work);
  }
}
