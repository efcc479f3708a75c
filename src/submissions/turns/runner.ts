/**
 * Runs turns: one at a time within a thread, in order; threads in parallel up to a limit. Owns the turns that are in
 * memory; everything about them that has to last is in the store.
 */

import { AsyncLocalStorage } from "node:async_hooks";
import { earliest } from "../../core/clock.ts";
import { type Failure, failureOf } from "../../core/failures.ts";
import { isReset } from "../../engine/resets.ts";
import { TurnStalledError } from "../errors.ts";
import { type TurnEnd, TurnRefused } from "../host.ts";
import type { Ledger } from "../ledger.ts";
import type { AttemptRef } from "../states.ts";
import { isExpired, type Seen, type Submission } from "../store/rows.ts";
import { concurrencyOf, isIsolated, isPool } from "../threads.ts";
import type { TokenBudgets } from "./budgets.ts";
import { inTurnSpan, type LiveTurn, liveTurn, turnOf } from "./live-turn.ts";
import type { Interruption, Recovery } from "./recovery.ts";
import type { Settlement } from "./settlement.ts";
import type { WorkflowLiveness } from "./workflow-liveness.ts";

const EXPIRED: Failure = {
  name: "SubmissionExpiredError",
  message: "Its turn did not come within expiresIn.",
};
const NOT_STARTED = "the next turn could not be started, will retry";
const ADMISSION = "admission";
/** How long to wait after a failed start, a failed admission or a reset. */
const PAUSE_MS = 2_000;

export class TurnRunner {
  readonly #live = new Map<number, LiveTurn>();
  /** Threads that may have pending submissions, the longest unserved first, with the time before which not to look. */
  readonly #waiting = new Map<string, number>();
  /** A turn that submits must not pass its async context on to the turns that it submits. */
  readonly #detached = AsyncLocalStorage.snapshot();
  #isKicking = false;

  constructor(
    private readonly ledger: Ledger,
    private readonly budgets: TokenBudgets,
    private readonly settlement: Settlement,
    private readonly recovery: Recovery,
    private readonly liveness: WorkflowLiveness,
  ) {}

  expect(threads: Iterable<string>): void {
    for (const thread of threads) this.#waiting.set(thread, 0);
  }

  get isBusy(): boolean {
    return this.#live.size + this.#asked.length > 0;
  }

  /** Those about which the gate of `limits()` decides. Each takes a slot. */
  get #asked(): readonly number[] {
    return this.ledger.admissions?.asked ?? [];
  }

  /** The submissions of the live turns, as they were claimed. */
  get running(): Submission[] {
    return [...this.#live.values()].map(({ submission }) => submission);
  }

  current(thread: string): number | undefined {
    return this.running.find((submission) => submission.thread === thread)?.seq;
  }

  get nextDue(): number | null {
    // A thread without a free slot is looked at when a slot becomes free.
    const due = [...this.#waiting].filter(([thread, time]) => time > 0 && this.#hasSlot(thread));
    return earliest(due.map(([, time]) => time));
  }

  /** Starts all turns that can start. Never fails: the next wake tries again. */
  kick(): void {
    if (this.#isKicking) return;
    this.#isKicking = true;
    try {
      this.ledger.loop.tryOrPause(ADMISSION, NOT_STARTED, () => this.#admit(), PAUSE_MS);
      for (const thread of this.#waiting.keys()) {
        if (!this.#hasFreeSlot()) break;
        this.#tryOrPause(() => this.#startIn(thread), thread);
      }
    } finally {
      this.#isKicking = false;
    }
  }

  /** A pool takes one slot at a time and goes to the end of the queue, to share the slots with the other threads. */
  #startIn(thread: string): void {
    while (this.#hasSlot(thread)) {
      const next = this.#next(thread);
      if (!next) break;
      this.#start(next);
      if (!isPool(thread)) continue;
      this.#moveToEnd(thread);
      break;
    }
  }

  /** A failure in one thread does not affect the others. */
  #tryOrPause(work: () => void, thread: string): void {
    try {
      work();
    } catch (error) {
      console.error(`[perdure] ${NOT_STARTED}:`, error);
      this.#pause(thread, this.ledger.clock.now() + PAUSE_MS);
    }
  }

  progressAt(seq: number): number | undefined {
    return this.#live.get(seq)?.heartbeatAt;
  }

  heartbeat(seq: number): void {
    const live = this.#live.get(seq);
    if (live) live.heartbeatAt = this.ledger.clock.now();
  }

  /** The end of an attempt was stored, maybe by its host. */
  reported({ seq, status, errorName }: Submission): void {
    const live = this.#live.get(seq);
    if (live) live.reported = { status, errorName };
  }

  /** Ends, or schedules again, the turns that have made no progress for `stallTimeout`. */
  endStalled(): void {
    const { clock, limits } = this.ledger;
    for (const live of [...this.#live.values()]) {
      if (clock.now() - live.heartbeatAt >= limits.stallTimeoutMs) {
        this.#tryOrPause(() => this.#giveUp(live), live.submission.thread);
      }
    }
    this.ledger.admissions?.endStalled();
  }

  #giveUp(live: LiveTurn): void {
    const cause = new TurnStalledError(this.ledger.limits.stallTimeoutMs);
    // A turn that its host has not begun counts as an attempt, so that it cannot stall without end.
    const hasBegun = live.attempt !== undefined || this.#begin(live) !== undefined;
    live.controller.abort(cause);
    if (hasBegun) this.#end(live, { outcome: "error", failure: failureOf(cause), cause });
    this.#release(live);
  }

  /**
   * Aborts the turn of a cancelled submission, if it is live.
   *
   * @param isRolledBack whether its messages are removed once it has ended
   * @returns whether it is live, and whether it may have said anything
   */
  abort(
    seq: number,
    reason: string | undefined,
    isRolledBack = false,
  ): { isLive: boolean; hadBegun: boolean } {
    const live = this.#live.get(seq);
    live?.controller.abort(new Error(reason ?? "The submission was cancelled"));
    if (live && isRolledBack) live.isRolledBack = true;
    return { isLive: live !== undefined, hadBegun: live?.attempt !== undefined && !live.isInHook };
  }

  /** Aborts the turn of an open submission; its host reports the end. Returns whether it is live. */
  stop(seq: number, reason: string | undefined): boolean {
    const live = this.#live.get(seq);
    if (live?.attempt === undefined) return false;
    live.isStopped = true;
    live.controller.abort(new Error(reason ?? "The turn was cancelled"));
    return true;
  }

  /** Submissions whose `notBefore` has passed join the queue of their thread. */
  #admit(): void {
    const { store, clock } = this.ledger;
    const { nextScheduled } = store.open;
    const now = clock.now();
    if (nextScheduled !== null && nextScheduled <= now) this.expect(store.open.admitDue(now));
  }

  get nextAdmission(): number | null {
    const { loop, store } = this.ledger;
    return loop.isPaused(ADMISSION) ? null : store.open.nextScheduled;
  }

  #hasFreeSlot(): boolean {
    const taken = this.#live.size + this.#asked.length + this.recovery.count;
    return taken < this.ledger.limits.maxConcurrentTurns;
  }

  #hasSlot(thread: string): boolean {
    if (!this.#hasFreeSlot()) return false;
    const concurrency = concurrencyOf(thread);
    if (concurrency === Number.POSITIVE_INFINITY) return true;
    const live = this.running.filter((submission) => submission.thread === thread);
    return live.length + this.recovery.countIn(thread) < concurrency;
  }

  /** The next submission of a thread, if it may start now. Expired ones are skipped. */
  #next(thread: string): Submission | undefined {
    const { store, clock } = this.ledger;
    const now = clock.now();
    if ((this.#waiting.get(thread) ?? 0) > now) return undefined;
    for (;;) {
      const next = store.open.nextPending(thread, this.#unbegun(thread));
      if (!next) {
        this.#waiting.delete(thread);
        return undefined;
      }
      if (isExpired(next, now)) {
        this.settlement.end(next, { outcome: "skipped", failure: EXPIRED });
        continue;
      }
      if (next.dueAt !== undefined && next.dueAt > now) {
        // Keep first-in-first-out order: later turns would fail too.
        this.#pause(thread, next.dueAt);
        return undefined;
      }
      const onDecided = (pausedUntil: number) => this.#decided(thread, pausedUntil);
      if (!this.ledger.admissions?.holds(next, onDecided)) return next;
      if (!isIsolated(thread) || !this.#hasSlot(thread)) return undefined;
    }
  }

  /** The gate has decided about a submission of the thread. */
  #decided(thread: string, pausedUntil: number): void {
    this.expect([thread]);
    if (pausedUntil > 0) this.#pause(thread, pausedUntil);
    this.kick();
  }

  #pause(thread: string, until: number): void {
    this.#waiting.set(thread, until);
    this.ledger.wake.request(until);
  }

  /** Live turns that have not begun: their submissions are still pending. Of isolated ones, also those that the gate has. */
  #unbegun(thread: string): number[] {
    const live = [...this.#live.values()]
      .filter(({ submission, attempt }) => submission.thread === thread && attempt === undefined)
      .map(({ submission }) => submission.seq);
    return isIsolated(thread) ? [...live, ...this.#asked] : live;
  }

  #start(submission: Submission): void {
    const live = liveTurn(submission, this.ledger.clock.now());
    this.#live.set(submission.seq, live);
    const work = this.#detached(() => this.#run(live));
    this.ledger.loop.track(live, work);
  }

  /** Runs one turn to its end. Never rejects. */
  async #run(live: LiveTurn): Promise<void> {
    const { seq, thread } = live.submission;
    let pausedUntil = 0;
    try {
      const end = await this.#endOf(live);
      // The turn was given up as stalled meanwhile.
      if (this.#live.get(seq) !== live) return;
      if (!this.#end(live, end)) pausedUntil = this.ledger.clock.now() + PAUSE_MS;
    } finally {
      this.#release(live);
      if (pausedUntil > 0) this.#pause(thread, pausedUntil);
      this.kick();
    }
  }

  /** Frees the slot. The thread goes to the end of the queue; a pool did so when it took the slot. */
  #release(live: LiveTurn): void {
    const { seq, thread } = live.submission;
    if (this.#live.get(seq) !== live) return;
    if (live.attempt === undefined) this.ledger.gate?.released(seq);
    this.#live.delete(seq);
    this.ledger.loop.untrack(live);
    if (isPool(thread)) this.#waiting.set(thread, 0);
    else this.#moveToEnd(thread);
  }

  #moveToEnd(thread: string): void {
    this.#waiting.delete(thread);
    this.#waiting.set(thread, 0);
  }

  async #endOf(live: LiveTurn): Promise<TurnEnd> {
    const turn = turnOf(live, this.ledger.hooks, {
      isGivenUp: () => this.#live.get(live.submission.seq) !== live,
      begin: () => this.#begin(live),
    });
    try {
      const { loop, host } = this.ledger;
      return await inTurnSpan(live, () => loop.inHostContext(() => host.run(turn)));
    } catch (error) {
      if (error instanceof TurnRefused) return { outcome: live.isStopped ? "aborted" : "reported" };
      // A reset of this object looks the same as that of an object that the turn called: the end is unknown, as after a crash.
      if (isReset(error)) return { outcome: "recovering", isReset: true };
      return { outcome: "error", failure: failureOf(error), cause: error };
    }
  }

  /** Claims the submission. Returns undefined if it must not run any more. */
  #begin(live: LiveTurn): AttemptRef | undefined {
    const { store, clock } = this.ledger;
    const { seq, expiresAt } = live.submission;
    const isOver = this.#live.get(seq) !== live || live.controller.signal.aborted;
    const next = isOver || expiresAt === undefined ? undefined : store.get(seq);
    // It may have waited for long in the host's own queue.
    if (next?.status === "pending" && isExpired(next, clock.now())) {
      this.settlement.end(next, { outcome: "skipped", failure: EXPIRED });
    }
    const claimed = isOver ? undefined : store.claim(seq, clock.now());
    if (!claimed) return undefined;
    // Submissions that joined an earlier attempt are asked again together with it.
    const joined = claimed.attempts > 1 ? store.open.joinedTo(claimed.submissionId) : [];
    const messages = [claimed, ...joined].flatMap((submission) => submission.messages);
    live.submission = { ...claimed, messages };
    live.attempt = claimed.attempts;
    live.plan = store.attempts.planOf(claimed);
    live.heartbeatAt = clock.now();
    this.budgets.open(claimed);
    this.ledger.announce(claimed);
    // It may have been pending for long.
    this.liveness.check([claimed]);
    return { seq, attempt: claimed.attempts };
  }

  /** Handles the end of a turn. Returns whether the thread can continue at once. */
  #end({ submission, attempt, isRolledBack }: LiveTurn, end: TurnEnd): boolean {
    const { seq } = submission;
    const isRecovering = end.outcome === "recovering";
    if (isRecovering && attempt === undefined) return false;
    const seen =
      attempt === undefined ? submission : { seq, attempts: attempt, status: "running" as const };
    const unwritten = isRecovering ? undefined : this.#write(seen, end);
    if (unwritten) this.#interrupt(submission, { unwritten });
    else if (isRecovering || isRolledBack) {
      const now = this.#read(submission);
      const isOpen = now?.isRollbackPending || now?.status === "running";
      if (now && isOpen) this.#interrupt(now, { isReset: isRecovering && end.isReset });
    }
    return true;
  }

  /** A submission that cannot be read now is decided about at the next wake. */
  #read(submission: Submission): Submission | undefined {
    try {
      return this.ledger.store.get(submission.seq);
    } catch (error) {
      console.error("[perdure] the state of a turn could not be read:", error);
      return { ...submission, status: "running" };
    }
  }

  /** From here on the turn is recovered, as after a restart. */
  #interrupt(submission: Submission, interruption: Interruption): void {
    this.recovery.add(submission, interruption);
    // After a reset, the host may need a moment.
    if (submission.isRollbackPending || interruption.unwritten) this.recovery.runSoon();
    else this.ledger.wake.request(this.ledger.clock.now() + PAUSE_MS);
  }

  /** An end that cannot be written now is kept and written by a later wake: the turn must not run again for it. */
  #write(seen: Seen, end: TurnEnd): Interruption["unwritten"] {
    try {
      this.settlement.end(seen, end);
      return undefined;
    } catch (error) {
      console.error("[perdure] the end of a turn could not be stored, will retry:", error);
      return { seen, end };
    }
  }
}
