/**
 * Runs the turns of the ledger, one at a time in the order of acceptance (L4),
 * and takes up what an earlier life of the object left running (L6). It owns
 * the turns that live in memory; every word about them that must last is in
 * the store.
 */

import { AsyncLocalStorage } from "node:async_hooks";
import type { Clock } from "../core/clock.ts";
import { type Failure, failureOf, isReset } from "../core/failures.ts";
import type { Limits } from "./options.ts";
import { recover } from "./recover.ts";
import type { Submission } from "./rows.ts";
import type { Seen, SubmissionStore } from "./store.ts";
import { type AttemptRef, type TurnEnd, type TurnHost, TurnRefused } from "./turn.ts";

const EXPIRED: Failure = {
  name: "SubmissionExpiredError",
  message: "Its turn did not come within expiresInMs.",
};

type LiveTurn = {
  readonly controller: AbortController;
  /** The attempt, from the moment that the turn has started. */
  attempt: number | undefined;
};

/** What the runner needs of the capability that owns it. */
export type RunnerOwner = {
  readonly store: SubmissionStore;
  readonly host: TurnHost;
  readonly clock: Clock;
  readonly limits: Limits;
  /** Makes sure that the runner is kicked again at that time. */
  wakeAt(time: number): void;
  /** Writes the end of a turn, unless another end was first. */
  end(seen: Seen, end: TurnEnd): void;
  /** Tells that a submission has changed. */
  announce(submission: Submission): void;
  /** Runs code of the app in the host's context. */
  inHostContext<T>(work: () => Promise<T>): Promise<T>;
};

export class Runner {
  readonly #live = new Map<number, LiveTurn>();
  /** Left running by an earlier life; they come before whatever is pending. */
  readonly #orphans = new Set<number>();
  /** Ends that storage refused so far. */
  readonly #unwritten = new Map<number, { seen: Seen; end: TurnEnd }>();
  /** The turn that submits must not pass its own context on to the turns that it submits. */
  readonly #detached = AsyncLocalStorage.snapshot();
  /** Reset in the very step that finds nothing pending: a submission accepted after it starts the next run. */
  #isDraining = false;
  #work: Promise<void> | undefined;
  #startedAt = 0;

  constructor(private readonly owner: RunnerOwner) {}

  /** Takes note of what an earlier life left running. Returns whether there is anything to do. */
  start(): boolean {
    this.#startedAt = this.owner.clock.now();
    for (const { seq } of this.owner.store.running()) this.#orphans.add(seq);
    return this.#orphans.size > 0 || this.owner.store.hasOpen();
  }

  /** Whether turns are being run, or left ones wait for their host. */
  get isBusy(): boolean {
    return this.#isDraining || this.#orphans.size > 0;
  }

  /** Starts to run what is pending, if it is not being run already. */
  kick(): void {
    if (this.isBusy) return;
    this.#isDraining = true;
    this.#work = this.#detached(() => this.#drain());
  }

  /** The run that is going on, for an alarm to keep track of. */
  get work(): Promise<void> | undefined {
    return this.#isDraining ? this.#work : undefined;
  }

  /** Aborts the turn of a cancelled submission. Returns whether it had begun here. */
  abort({ seq, messages }: Submission, reason: string | undefined): boolean {
    const live = this.#live.get(seq);
    if (live) live.controller.abort(new Error(reason ?? "The submission was cancelled"));
    else if (this.#orphans.has(seq)) this.owner.host.stop(messages, reason);
    return live?.attempt !== undefined;
  }

  /** A submission has ended: what waited behind it can run. */
  forget(seq: number): void {
    this.#unwritten.delete(seq);
    if (this.#orphans.delete(seq)) this.kick();
  }

  /** Decides about each submission that an earlier life left running. */
  async recoverOrphans(): Promise<void> {
    for (const { seen, end } of [...this.#unwritten.values()]) this.#write(seen, end);
    const { store, host, clock } = this.owner;
    for (const seq of [...this.#orphans].filter((left) => !this.#unwritten.has(left))) {
      const orphan = store.get(seq);
      if (orphan?.status !== "running") {
        this.forget(seq);
        continue;
      }
      const trace = await host.trace(orphan.messages);
      const decision = recover({
        ...trace,
        isAnswered: orphan.isAnswered,
        mayRepeatEffects: orphan.retry?.afterSideEffects ?? false,
        isHostRecovering: await host.isRecovering(),
        attempts: orphan.attempts,
        maxAttempts: orphan.retry?.maxAttempts ?? this.owner.limits.maxAttempts,
        waitedMs: clock.now() - this.#startedAt,
      });
      if (decision.action === "complete") this.owner.end(orphan, { outcome: "completed" });
      else if (decision.action === "fail")
        this.owner.end(orphan, { outcome: "error", ...decision });
      else if (decision.action === "startOver") this.#startOver(orphan);
    }
  }

  #startOver({ seq, attempts }: Submission): void {
    const pending = this.owner.store.startOver(seq, attempts);
    if (pending) this.owner.announce(pending);
    this.forget(seq);
  }

  async #drain(): Promise<void> {
    try {
      while (this.#orphans.size === 0) {
        const next = this.#next();
        if (!next) return;
        if (next.dueAt !== undefined && next.dueAt > this.owner.clock.now()) {
          // What is next stays next: the ones behind it would meet the same trouble (L4, L8).
          this.owner.wakeAt(next.dueAt);
          return;
        }
        if (!(await this.#run(next))) return;
      }
    } finally {
      this.#isDraining = false;
    }
  }

  /** Whose turn it is: those whose time has come are in line by now, those whose time is over are not. */
  #next(): Submission | undefined {
    const { store, clock, end } = this.owner;
    const now = clock.now();
    if (store.nextScheduled !== null && store.nextScheduled <= now) store.admitDue(now);
    for (;;) {
      const next = store.nextPending();
      if (next?.expiresAt === undefined || next.expiresAt > now || next.attempts > 0) return next;
      end(next, { outcome: "skipped", failure: EXPIRED });
    }
  }

  /** Runs one turn to its end. Returns false when the next one has to wait for another wake. */
  async #run(submission: Submission): Promise<boolean> {
    const live: LiveTurn = { controller: new AbortController(), attempt: undefined };
    this.#live.set(submission.seq, live);
    try {
      return this.#end(submission, live, await this.#endOf(submission, live));
    } finally {
      this.#live.delete(submission.seq);
    }
  }

  async #endOf(submission: Submission, live: LiveTurn): Promise<TurnEnd> {
    const { seq, submissionId, messages, channel, answer } = submission;
    const { signal } = live.controller;
    const begin = () => this.#begin(seq, live);
    const turn = { submissionId, messages, channel, answer, signal, begin };
    try {
      return await this.owner.inHostContext(() => this.owner.host.run(turn));
    } catch (error) {
      if (error instanceof TurnRefused) return { outcome: "reported" };
      // A reset of this object, or of one that the turn called, which look the
      // same: nothing is known of the turn, as after a crash.
      if (isReset(error)) return { outcome: "recovering" };
      return { outcome: "error", failure: failureOf(error), cause: error };
    }
  }

  #begin(seq: number, live: LiveTurn): AttemptRef {
    const claimed = live.controller.signal.aborted
      ? undefined
      : this.owner.store.claim(seq, this.owner.clock.now());
    if (!claimed) throw new TurnRefused();
    live.attempt = claimed.attempts;
    this.owner.announce(claimed);
    return { seq, attempt: claimed.attempts };
  }

  /** Takes note of an end. Returns whether the thread can go on. */
  #end(submission: Submission, { attempt }: LiveTurn, end: TurnEnd): boolean {
    const { seq } = submission;
    const seen =
      attempt === undefined ? submission : { seq, attempts: attempt, status: "running" as const };
    if (end.outcome === "recovering") {
      if (attempt === undefined) return false;
      // Cancelled meanwhile, it is over, whatever its turn comes to.
      if (this.owner.store.get(seq)?.status !== "running") return true;
      // From here on it is left running, as after a restart.
      this.#orphans.add(seq);
      return false;
    }
    return this.#write(seen, end);
  }

  /** An end that cannot be written now is kept, and written by a later wake: the turn must not run again for it. */
  #write(seen: Seen, end: TurnEnd): boolean {
    try {
      this.owner.end(seen, end);
      this.#unwritten.delete(seen.seq);
      return true;
    } catch (error) {
      console.error("[perdure] the end of a turn could not be stored, and is tried again:", error);
      this.#orphans.add(seen.seq);
      this.#unwritten.set(seen.seq, { seen, end });
      return false;
    }
  }
}
