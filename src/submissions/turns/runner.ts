/**
 * Runs the turns of the ledger: within a thread one at a time in the order of
 * acceptance, threads side by side up to a limit (L4). It owns the turns that
 * live in memory; every word about them that must last is in the store.
 */

import { AsyncLocalStorage } from "node:async_hooks";
import type { Clock } from "../../core/clock.ts";
import { type Failure, failureOf, isReset } from "../../core/failures.ts";
import { TurnStalledError } from "../errors.ts";
import {
  type AttemptRef,
  concurrencyOf,
  isPool,
  type TurnEnd,
  type TurnHost,
  TurnRefused,
} from "../host.ts";
import type { Limits } from "../options.ts";
import type { Seen } from "../store/changes.ts";
import { isExpired, type Submission } from "../store/rows.ts";
import type { SubmissionStore } from "../store/store.ts";
import { attemptPlanOf } from "./attempt-plan.ts";
import { type LiveTurn, liveTurn, turnOf } from "./live-turn.ts";
import type { Left, Recovery } from "./recovery.ts";

const EXPIRED: Failure = {
  name: "SubmissionExpiredError",
  message: "Its turn did not come within expiresIn.",
};
/** How long something rests that could not be done now: a start, an admission, what a reset has left. */
const REST_MS = 2_000;

/** What the runner needs of the capability that owns it. */
export type RunnerOwner = {
  readonly store: SubmissionStore;
  readonly host: TurnHost;
  readonly clock: Clock;
  readonly limits: Limits;
  /** Makes sure that the runner is kicked again at that time. */
  wakeAt(time: number): void;
  /** A turn has begun. */
  began(submission: Submission): void;
  /** Resolves when the app has been told of the latest status, or the signal is aborted. */
  readonly told: (submissionId: string, signal: AbortSignal) => Promise<void>;
  /** Writes the end of a turn, unless another end was first. */
  end(seen: Seen, end: TurnEnd): void;
  /** What is left running takes up threads and places, too. */
  readonly recovery: Recovery;
  /** Something has been left: it is to be decided about. */
  recoverSoon(): void;
  /** Whether the messages of a cancelled one have to leave the conversation. */
  isToBeUndone(seq: number): boolean;
  /** Runs code of the app in the host's context. */
  inHostContext<T>(work: () => Promise<T>): Promise<T>;
};

export class Runner {
  readonly #live = new Map<number, LiveTurn>();
  /** Threads in which somebody may wait, the longest unserved first, and until when there is no use in looking. */
  readonly #waiting = new Map<string, number>();
  /** The turn that submits must not pass its own context on to the turns that it submits. */
  readonly #detached = AsyncLocalStorage.snapshot();
  #isKicking = false;
  /** After a failure, those whose time has come are looked at again from then on. */
  #admitsFrom = 0;

  constructor(private readonly owner: RunnerOwner) {}

  /** Somebody may wait in these threads. */
  expect(threads: Iterable<string>): void {
    for (const thread of threads) this.#waiting.set(thread, 0);
  }

  /** Whether turns are being run. */
  get isBusy(): boolean {
    return this.#live.size > 0;
  }

  /** What is being run, as it was claimed. */
  get running(): Submission[] {
    return [...this.#live.values()].map(({ submission }) => submission);
  }

  /** The turns that run, for an alarm to keep track of. */
  get work(): Promise<unknown> | undefined {
    return this.isBusy ? Promise.all([...this.#live.values()].map(({ work }) => work)) : undefined;
  }

  /** The submission that runs in a thread, or is about to. */
  current(thread: string): number | undefined {
    return [...this.#live.values()].find(({ submission }) => submission.thread === thread)
      ?.submission.seq;
  }

  /** When the next thread that rests is to be looked at again, or null. */
  get nextDue(): number | null {
    // One that has no place is looked at when a place is free, and not by a wake.
    const due = [...this.#waiting].filter(([thread, time]) => time > 0 && this.#isFree(thread));
    return due.length > 0 ? Math.min(...due.map(([, time]) => time)) : null;
  }

  /** Starts what can be started. Never fails: what could not be read now is read at the next wake. */
  kick(): void {
    if (this.#isKicking) return;
    this.#isKicking = true;
    try {
      this.#trying(() => this.#admit());
      for (const thread of this.#waiting.keys()) {
        if (!this.#hasPlaces()) break;
        this.#trying(() => this.#startIn(thread), thread);
      }
    } finally {
      this.#isKicking = false;
    }
  }

  /** A pool takes one place and goes behind all that wait, so that it shares the places with them and with other pools. */
  #startIn(thread: string): void {
    while (this.#isFree(thread)) {
      const next = this.#next(thread);
      if (!next) break;
      this.#start(next);
      if (!isPool(thread)) continue;
      this.#toTheEnd(thread);
      break;
    }
  }

  /** The trouble of one thread is not that of the others. */
  #trying(work: () => void, thread?: string): void {
    try {
      work();
    } catch (error) {
      console.error("[perdure] the next turn could not be started, and is tried again:", error);
      const until = this.owner.clock.now() + REST_MS;
      if (thread === undefined) this.owner.wakeAt(until);
      else this.#rest(thread, until);
    }
  }

  /** Something was heard of the turn. */
  heard(seq: number): void {
    const live = this.#live.get(seq);
    if (live) live.heardAt = this.owner.clock.now();
  }

  /** Ends turns that have been silent for longer than the limit, or tries them again: they would run for ever. */
  endStalled(): void {
    const { clock, limits } = this.owner;
    for (const live of [...this.#live.values()]) {
      if (clock.now() - live.heardAt >= limits.stallTimeoutMs) {
        this.#trying(() => this.#giveUp(live), live.submission.thread);
      }
    }
  }

  #giveUp(live: LiveTurn): void {
    const cause = new TurnStalledError(this.owner.limits.stallTimeoutMs);
    // One that its host has not begun is an attempt, too: otherwise it would wait for its host for ever.
    const hasBegun = live.attempt !== undefined || this.#begin(live) !== undefined;
    live.controller.abort(cause);
    if (hasBegun) this.#end(live, { outcome: "error", failure: failureOf(cause), cause });
    this.#release(live);
  }

  /** Aborts the turn of a cancelled submission, if it is run here. What the app is still told of has said nothing yet. */
  abort(seq: number, reason: string | undefined): { isLive: boolean; hadBegun: boolean } {
    const live = this.#live.get(seq);
    live?.controller.abort(new Error(reason ?? "The submission was cancelled"));
    return {
      isLive: live !== undefined,
      hadBegun: live?.attempt !== undefined && !live.isBeingTold,
    };
  }

  /** Aborts the turn of an open submission, which ends as its host reports it. Returns whether it is run here. */
  stop(seq: number, reason: string | undefined): boolean {
    const live = this.#live.get(seq);
    if (live?.attempt === undefined) return false;
    live.isStopped = true;
    live.controller.abort(new Error(reason ?? "The turn was cancelled"));
    return true;
  }

  /** Those whose time has come are in line. */
  #admit(): void {
    const { store, clock } = this.owner;
    const { nextScheduled } = store.open;
    const now = clock.now();
    if (nextScheduled === null || nextScheduled > now) return;
    this.#admitsFrom = now + REST_MS;
    this.expect(store.admitDue(now));
    this.#admitsFrom = 0;
  }

  /** When the next one that waits for its time is to join the line, or null. */
  get nextAdmission(): number | null {
    const { nextScheduled } = this.owner.store.open;
    return nextScheduled === null ? null : Math.max(nextScheduled, this.#admitsFrom);
  }

  #hasPlaces(): boolean {
    const { recovery, limits } = this.owner;
    return this.#live.size + recovery.count < limits.maxConcurrentTurns;
  }

  #isFree(thread: string): boolean {
    if (!this.#hasPlaces()) return false;
    const lanes = concurrencyOf(thread);
    if (lanes === Number.POSITIVE_INFINITY) return true;
    const live = [...this.#live.values()].filter(({ submission }) => submission.thread === thread);
    return live.length + this.owner.recovery.countIn(thread) < lanes;
  }

  /** Whose turn it is in a thread: those whose time is over are not. */
  #next(thread: string): Submission | undefined {
    const { store, clock, end } = this.owner;
    const now = clock.now();
    if ((this.#waiting.get(thread) ?? 0) > now) return undefined;
    for (;;) {
      const next = store.open.nextPending(thread, this.#unbegun(thread));
      if (!next) {
        this.#waiting.delete(thread);
        return undefined;
      }
      if (isExpired(next, now)) {
        end(next, { outcome: "skipped", failure: EXPIRED });
        continue;
      }
      if (next.dueAt === undefined || next.dueAt <= now) return next;
      // What is next stays next: the ones behind it would meet the same trouble (L4, L8).
      this.#rest(thread, next.dueAt);
      return undefined;
    }
  }

  #rest(thread: string, until: number): void {
    this.#waiting.set(thread, until);
    this.owner.wakeAt(until);
  }

  /** Those that are about to run, and are pending until they do. */
  #unbegun(thread: string): number[] {
    return [...this.#live.values()]
      .filter(({ submission, attempt }) => submission.thread === thread && attempt === undefined)
      .map(({ submission }) => submission.seq);
  }

  #start(submission: Submission): void {
    const live = liveTurn(submission, this.owner.clock.now());
    this.#live.set(submission.seq, live);
    live.work = this.#detached(() => this.#run(live));
  }

  /** Runs one turn to its end. Never rejects. */
  async #run(live: LiveTurn): Promise<void> {
    const { seq, thread } = live.submission;
    let restsUntil = 0;
    try {
      const end = await this.#endOf(live);
      // Given up as stalled meanwhile, it has no say any more.
      if (this.#live.get(seq) !== live) return;
      if (!this.#end(live, end)) restsUntil = this.owner.clock.now() + REST_MS;
    } finally {
      this.#release(live);
      if (restsUntil > 0) this.#rest(thread, restsUntil);
      this.kick();
    }
  }

  /** Its place is free. The thread goes to the end of the row, so that all threads get on; a pool has done so when it took the place. */
  #release(live: LiveTurn): void {
    const { seq, thread } = live.submission;
    if (this.#live.get(seq) !== live) return;
    this.#live.delete(seq);
    if (isPool(thread)) this.#waiting.set(thread, 0);
    else this.#toTheEnd(thread);
  }

  #toTheEnd(thread: string): void {
    this.#waiting.delete(thread);
    this.#waiting.set(thread, 0);
  }

  async #endOf(live: LiveTurn): Promise<TurnEnd> {
    const turn = turnOf(live, {
      isGivenUp: () => this.#live.get(live.submission.seq) !== live,
      begin: () => this.#begin(live),
      told: this.owner.told,
    });
    try {
      return await this.owner.inHostContext(() => this.owner.host.run(turn));
    } catch (error) {
      if (error instanceof TurnRefused) return { outcome: live.isStopped ? "aborted" : "reported" };
      // A reset of this object, or of one that the turn called, which look the
      // same: nothing is known of the turn, as after a crash.
      if (isReset(error)) return { outcome: "recovering", isReset: true };
      return { outcome: "error", failure: failureOf(error), cause: error };
    }
  }

  /** Returns undefined for one that is not to be run any more. */
  #begin(live: LiveTurn): AttemptRef | undefined {
    const { store, clock, end } = this.owner;
    const { seq, expiresAt } = live.submission;
    const isOver = this.#live.get(seq) !== live || live.controller.signal.aborted;
    const next = isOver || expiresAt === undefined ? undefined : store.get(seq);
    // It may have waited long in a queue of the host's own.
    if (next?.status === "pending" && isExpired(next, clock.now())) {
      end(next, { outcome: "skipped", failure: EXPIRED });
    }
    const claimed = isOver ? undefined : store.claim(seq, clock.now());
    if (!claimed) return undefined;
    // What had joined an earlier attempt is asked again together with it.
    const joined = claimed.attempts > 1 ? store.open.joinedTo(claimed.submissionId) : [];
    const messages = [claimed, ...joined].flatMap((asked) => asked.messages);
    live.submission = { ...claimed, messages };
    live.attempt = claimed.attempts;
    live.plan = attemptPlanOf(claimed.answer, store.attempts.priors(claimed));
    live.heardAt = this.owner.clock.now();
    this.owner.began(claimed);
    return { seq, attempt: claimed.attempts };
  }

  /** Takes note of an end. Returns whether the thread can go on at once. */
  #end({ submission, attempt }: LiveTurn, end: TurnEnd): boolean {
    const { seq } = submission;
    const { isToBeUndone } = this.owner;
    const isRecovering = end.outcome === "recovering";
    if (isRecovering && attempt === undefined) return false;
    const seen =
      attempt === undefined ? submission : { seq, attempts: attempt, status: "running" as const };
    const unwritten = isRecovering ? undefined : this.#write(seen, end);
    if (unwritten) this.#leave(submission, { unwritten });
    else if (isRecovering || isToBeUndone(seq)) {
      // From here on it is left, as after a restart; what cannot be read now is decided about at the next wake.
      const now = this.#read(submission);
      const isLeft = now?.isToBeUndone || now?.status === "running";
      if (now && isLeft) this.#leave(now, { isReset: isRecovering && end.isReset });
    }
    return true;
  }

  #read(submission: Submission): Submission | undefined {
    try {
      return this.owner.store.get(submission.seq);
    } catch (error) {
      console.error("[perdure] what a turn has come to could not be read:", error);
      return { ...submission, status: "running" };
    }
  }

  #leave(submission: Submission, left: Left): void {
    this.owner.recovery.add(submission, left);
    // What was reset may be so for a moment; its host may have to be waited for.
    if (submission.isToBeUndone || left.unwritten) this.owner.recoverSoon();
    else this.owner.wakeAt(this.owner.clock.now() + REST_MS);
  }

  /** An end that cannot be written now is kept, and written by a later wake: the turn must not run again for it. */
  #write(seen: Seen, end: TurnEnd): Left["unwritten"] {
    try {
      this.owner.end(seen, end);
      return undefined;
    } catch (error) {
      console.error("[perdure] the end of a turn could not be stored, and is tried again:", error);
      return { seen, end };
    }
  }
}
