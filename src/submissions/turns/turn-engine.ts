/**
 * Runs turns: one at a time within a thread, in order; threads in parallel up to a limit. Owns the turns that are in memory, recovers
 * interrupted ones, and holds a wake as long as anything is open. Hosts call it while a turn runs.
 */

import { AsyncLocalStorage } from "node:async_hooks";
import type { UIMessage } from "ai";
import { earliest, withTimeout } from "../../core/clock.ts";
import { type Failure, failureOf } from "../../core/failures.ts";
import { isReset } from "../../engine/resets.ts";
import { HEARTBEAT_MS, type WorkLoop } from "../../engine/work-loop.ts";
import type { InstanceOf } from "../../outbox/destinations/workflow-event.ts";
import type { Outbox } from "../../outbox/outbox.ts";
import { CANCELLED, TurnStalledError } from "../errors.ts";
import { type ToolCalls, type TurnEnd, type TurnHost, TurnRefused } from "../host.ts";
import type { Limiter } from "../limiter.ts";
import type { Limits } from "../options.ts";
import { type AttemptRef, isTerminal } from "../states.ts";
import type { Statuses } from "../statuses.ts";
import { isExpired, type Seen, type Submission, type Summary } from "../store/rows.ts";
import type { SubmissionStore } from "../store/store.ts";
import type { CalledModel, EndedCall } from "../store/timeline.ts";
import type { SettledCall } from "../store/tool-calls.ts";
import type { WhenBusy } from "../submit-options.ts";
import { concurrencyOf, isIsolated, isPool, MAIN } from "../threads.ts";
import type { TokenUsage } from "../types.ts";
import { TokenBudgets } from "./budgets.ts";
import { inTurnSpan, type LiveTurn, liveTurn, turnOf } from "./live-turn.ts";
import { afterSideEffects } from "./next-attempt.ts";
import { CHECK_MS, type Interruption, Recovery, type Released } from "./recovery.ts";
import { Settlement } from "./settlement.ts";
import { ToolReplay } from "./tool-replay.ts";
import { WorkflowLiveness } from "./workflow-liveness.ts";

/** A submission that was accepted is found again at most this long after a crash. */
const BACKSTOP_MS = 10_000;
const RECOVERY_WAIT_MS = 1_000;

const EXPIRED: Failure = {
  name: "SubmissionExpiredError",
  message: "Its turn did not come within expiresIn.",
};
const NOT_STARTED = "the next turn could not be started, will retry";
const ADMISSION = "admission";
/** The pause after a failed start, a failed admission or a reset. */
const PAUSE_MS = 2_000;

/** Ends what was open when the conversation was reset or cleared. */
export const TURN_RESET = {
  name: "TurnResetError",
  message: "Submission was skipped by turn reset.",
};

export class TurnEngine {
  /** Hosts report model calls to it. */
  readonly budgets: TokenBudgets;
  readonly #settlement: Settlement;
  readonly #recovery: Recovery;
  readonly #liveness: WorkflowLiveness;
  readonly #live = new Map<number, LiveTurn>();
  /** Threads that may have pending submissions, the longest unserved first, with the time before which not to look. */
  readonly #waiting = new Map<string, number>();
  /** By thread: submissions that join the running turn at its next model call. After a restart they run by themselves. */
  readonly #steering = new Map<string, number[]>();
  /** The steps of durable tools that run now, by their idempotency keys. */
  readonly #runningSteps = new Map<string, Promise<unknown>>();
  /** A turn that submits must not pass its async context on to the turns that it submits. */
  readonly #detached = AsyncLocalStorage.snapshot();
  #hasStarted = false;
  #isKicking = false;
  #recovering: Promise<void> | undefined;
  #requestedRecovery: { readonly isWake: boolean } | undefined;

  constructor(
    readonly store: SubmissionStore,
    readonly loop: WorkLoop,
    private readonly host: TurnHost,
    outbox: Outbox,
    private readonly limits: Limits,
    readonly statuses: Statuses,
    readonly limiter: Limiter,
  ) {
    const { clock } = loop;
    const budgets = new TokenBudgets(store, clock, limiter);
    const settlement = new Settlement(store, loop, outbox, limits, statuses, limiter, budgets);
    this.budgets = budgets;
    this.#settlement = settlement;
    this.#recovery = new Recovery(store, clock, host, limits, statuses, budgets, settlement);
    this.#liveness = new WorkflowLiveness(store, outbox, clock);
  }

  /** The object has started: finds interrupted turns, and arms a wake if anything is open. */
  async start(): Promise<void> {
    const { store } = this;
    const { wake, clock } = this.loop;
    this.host.start();
    store.migrate();
    this.#recovery.start();
    this.#hasStarted = true;
    const threads = store.open.threads();
    this.#expect(threads);
    const isOpen = threads.length > 0 || store.open.nextScheduled !== null;
    if (isOpen || this.#recovery.nextCheck !== null) await wake.noLaterThan(clock.now());
  }

  /** Announces what was accepted, and runs it when its turn comes, in place of what it interrupts. */
  async onAccepted(items: readonly IntakeResult[]): Promise<void> {
    const { lifecycle, wake, clock } = this.loop;
    const { events } = lifecycle;
    const accepted: Summary[] = [];
    for (const { submission, conflict, debounced, whenBusy, ...taken } of items) {
      const { submissionId, idempotencyKey, thread, dueAt, seq } = submission;
      if (conflict) events.emit("submission:conflict", { submissionId, idempotencyKey });
      if (debounced) events.emit("submission:debounce", { submissionId });
      if (!taken.accepted) continue;
      // A debounced one was announced before; only its time has changed.
      if (debounced) wake.request(dueAt ?? clock.now());
      else accepted.push(submission);
      if (whenBusy === "steer" && dueAt === undefined) {
        this.#steering.set(thread, [...(this.#steering.get(thread) ?? []), seq]);
      }
    }
    const armed = this.#startAccepted(accepted);
    for (const item of items) {
      if (accepted.includes(item.submission)) this.#interrupt(item, accepted);
    }
    await armed;
  }

  async #startAccepted(accepted: readonly Summary[]): Promise<void> {
    const { lifecycle, wake, clock } = this.loop;
    const { events } = lifecycle;
    let first = Number.POSITIVE_INFINITY;
    for (const submission of accepted) {
      const { submissionId, idempotencyKey, thread, dueAt } = submission;
      const created = { submissionId, requestId: submissionId, idempotencyKey };
      events.emit("submission:create", created);
      this.statuses.announce(submission);
      this.#expect([thread]);
      first = Math.min(first, dueAt ?? clock.now() + BACKSTOP_MS);
    }
    if (accepted.length === 0) return;
    const armed = wake.request(first);
    this.#kick();
    await armed;
  }

  /** Cancels what runs in the thread, so that this submission, which is next there, can run. */
  #interrupt(
    { submission: { submissionId, thread }, whenBusy }: IntakeResult,
    accepted: readonly Summary[],
  ): void {
    if (whenBusy !== "interrupt" && whenBusy !== "rollback") return;
    const running = this.current(thread);
    // A pending one must not be lost.
    if (running?.status !== "running") return;
    if (accepted.some(({ seq }) => seq === running.seq)) return;
    const failure = {
      name: "SubmissionInterruptedError",
      message: `Interrupted by submission ${submissionId}`,
    };
    this.cancel(running, failure, whenBusy === "rollback");
  }

  /**
   * Ends an open submission as `aborted`.
   *
   * @param isRolledBack whether its messages are removed from the conversation, once its turn has ended
   * @returns it as it is then, and whether its turn had begun in this object instance
   */
  cancel(
    found: Summary,
    failure: Failure | undefined,
    isRolledBack = false,
  ): { submission: Submission; hadBegun: boolean } {
    const ending = { status: "aborted", failure, isRolledBack } as const;
    const submission = this.#settlement.settle(found, ending);
    if (!submission)
      throw new Error(`Submission ${found.submissionId} changed while it was cancelled`);
    const { seq } = found;
    const reason = failure?.message;
    const { isLive, hadBegun } = this.#abort(seq, reason, isRolledBack);
    if (this.#recovery.has(seq)) this.host.stop(submission, reason);
    if (!isRolledBack) this.#release(found);
    else {
      if (!isLive) this.#recovery.add(submission);
      this.#recoverSoon();
    }
    return { submission, hadBegun };
  }

  /**
   * Aborts the turn that a submission runs in, its own or the one that it joined. An interrupted turn ends at once.
   * Without such a turn it does nothing. It may be called before the start.
   */
  stopTurn(submissionId: string, reason?: string): void {
    if (!this.#hasStarted) return;
    const { store } = this;
    const found = store.find(submissionId);
    const target = found?.mergedInto === undefined ? found : store.find(found.mergedInto);
    if (target?.status !== "running") return;
    if (this.#stop(target.seq, reason)) return;
    // The host has not taken it over yet, and would report no end.
    if (this.#recovery.has(target.seq)) this.cancel(target, undefined);
  }

  /** Ends all that is open in a thread: pending ones as `skipped`, the running one as `aborted` and rolled back. */
  clear(thread: string, failure: Failure): void {
    this.#settlement.skipPending(thread, failure);
    const running = this.current(thread);
    if (running) this.cancel(running, failure, true);
    else this.#rollBackEnding(thread);
  }

  /** A cancelled submission whose turn is still ending is rolled back as well. */
  #rollBackEnding(thread: string): void {
    const { store } = this;
    const seq = this.#liveIn(thread);
    const ending = seq === undefined ? undefined : store.get(seq);
    if (!ending || !isTerminal(ending.status)) return;
    store.open.requestRollback(ending.seq);
    this.#abort(ending.seq, undefined, true);
  }

  /**
   * Ends all that is open in the main thread, because its conversation is reset: a live turn as `aborted`; pending and
   * interrupted submissions as `skipped`. Reads the rows, so that it may be called before the start, when no interrupted turn is
   * known yet.
   */
  reset(): void {
    const { store, host } = this;
    const { name, message } = TURN_RESET;
    if (!this.#hasStarted) store.migrate();
    this.#settlement.skipPending(MAIN, TURN_RESET);
    const live = this.#liveIn(MAIN);
    if (live !== undefined) this.#abort(live, message);
    for (const running of store.open.running()) {
      if (running.thread !== MAIN || running.mergedInto !== undefined) continue;
      const isLive = running.seq === live;
      const aborted = { status: "aborted", failure: { name } } as const;
      const ending = isLive ? aborted : ({ status: "skipped", failure: TURN_RESET } as const);
      if (!this.#settlement.settle(running, ending)) continue;
      if (!isLive) host.stop(running, message);
      if (this.#hasStarted) this.#release(running);
    }
  }

  /** The open submission that runs in a thread, is about to, or was interrupted there. */
  readonly current = (thread: string): Submission | undefined => {
    const seq = this.#liveIn(thread) ?? this.#recovery.current(thread);
    const found = seq === undefined ? undefined : this.store.get(seq);
    // A cancelled one blocks nothing, however long its turn takes to end.
    return found && !isTerminal(found.status) ? found : undefined;
  };

  /**
   * Call it before each model call. Returns messages of submissions that join the turn; the host appends them.
   *
   * @param canJoin false where messages could no longer come before the reply
   * @param called the model, for the trace of a call that fails
   * @throws TurnRefused when the attempt has ended or was given up
   * @throws BudgetExceededError when the turn has no tokens left
   */
  nextStep(ref: AttemptRef, canJoin = true, called?: CalledModel): UIMessage[] {
    if (!this.store.isRunning(ref)) throw new TurnRefused();
    this.heartbeat(ref);
    this.budgets.check(ref);
    this.budgets.callStarted(ref, called);
    return canJoin ? this.#join(ref) : [];
  }

  /** pending → running, in the turn that makes a model call next. */
  #join(ref: AttemptRef): UIMessage[] {
    if (this.#steering.size === 0) return [];
    const { store } = this;
    const { clock } = this.loop;
    const thread = store.get(ref.seq)?.thread;
    const waiting = (thread !== undefined && this.#steering.get(thread)) || [];
    if (thread !== undefined) this.#steering.delete(thread);
    const joined = store.transaction(() =>
      waiting.flatMap((seq) => (seq === ref.seq ? [] : (store.join(seq, ref, clock.now()) ?? []))),
    );
    for (const submission of joined) this.statuses.announce(submission);
    return joined.flatMap(({ messages }) => messages);
  }

  /** The messages that {@link nextStep} returned could not be stored: their submissions wait for turns of their own. */
  detachJoined({ seq }: AttemptRef, messages: readonly UIMessage[]): void {
    const { store } = this;
    const target = store.get(seq);
    const ids = new Set(messages.map(({ id }) => id));
    for (const joined of target ? store.open.joinedTo(target.submissionId) : []) {
      const isMeant = joined.messages.some(({ id }) => ids.has(id));
      const pending = isMeant ? this.#recovery.detachJoined(joined) : undefined;
      if (pending) this.#release(pending);
    }
  }

  /** A model call has ended, with the usage that the model reports. */
  recordUsage(ref: AttemptRef, usage: TokenUsage | undefined, call?: EndedCall): void {
    this.heartbeat(ref);
    this.budgets.add(ref, usage, call);
  }

  /**
   * Records the tool calls of one run of the turn: an attempt, or a recovery of one.
   *
   * @param settled returns the ended calls in the stored replies to the turn. Omit it for the first run of the first attempt
   */
  toolCalls(ref: AttemptRef, settled?: () => readonly SettledCall[]): ToolCalls {
    const { store, loop, limits } = this;
    const heartbeat = () => this.heartbeat(ref);
    return new ToolReplay(store, loop.clock, limits, this.#runningSteps, ref, heartbeat, settled);
  }

  /** Whether the host's own recovery may continue an interrupted turn, with these calls in its conversation. */
  mayContinue({ seq, retry }: Submission, settled: readonly SettledCall[]): boolean {
    if (afterSideEffects(retry) !== "fail") return true;
    const missing = this.store.toolCalls.missing(seq, settled);
    return missing.every(({ callKey }) => callKey !== null);
  }

  /**
   * Records the answer, once. It is written with the end of the turn at the latest. Returns whether this call recorded it.
   *
   * @throws AnswerTooLargeError for one over 16 MiB of JSON
   */
  answer(ref: AttemptRef, output: unknown): boolean {
    return this.store.answers.record(ref, JSON.stringify(output));
  }

  /** The turn has ended. A later end of the same attempt changes nothing. */
  end({ seq, attempt }: AttemptRef, end: TurnEnd): void {
    this.endSeen({ seq, attempts: attempt, status: "running" }, end);
  }

  /** {@link end}, of a submission in any open state. It changes nothing unless the submission is as it was seen. */
  endSeen(seen: Seen, end: TurnEnd): void {
    const changed = this.#settlement.end(seen, end);
    if (changed) this.#onChanged(changed);
  }

  /** Starts the deliveries of the outbox. Never fails. */
  flush(): void {
    this.#settlement.flush();
  }

  /** Cancels everything that a workflow instance waits for. */
  cancelFor(of: InstanceOf, message: string): void {
    const failure = { name: CANCELLED, message };
    const { open, batches } = this.store;
    for (const id of open.forWorkflow(of)) {
      const found = this.store.find(id);
      if (found && !isTerminal(found.status)) this.cancel(found, failure);
    }
    for (const batch of batches.forWorkflow(of)) this.cancelBatch(batch, failure);
  }

  /** Cancels what is open in a batch; pending items first, so that none of them starts in place of a running one. */
  cancelBatch(batch: string, failure: Failure): void {
    const { batches } = this.store;
    // The row stays until the last item has ended, so that a crash in between leaves it to be found.
    batches.unwait(batch);
    while (this.#settlement.abortWaiting(batch, failure) > 0);
    for (const running of batches.running(batch)) this.cancel(running, failure);
    batches.forget(batch);
  }

  /** The host runs a turn of its own in this thread: the submission that waits for it has not stalled. */
  busy(thread: string): void {
    const seq = this.#liveIn(thread);
    if (seq !== undefined) this.heartbeat({ seq });
  }

  /** When a running submission last made progress, where this object instance runs it. */
  progressAt(seq: number): number | undefined {
    return this.#live.get(seq)?.heartbeatAt;
  }

  /** The turn has made progress, e.g. a part of an answer has come. */
  heartbeat({ seq }: Pick<AttemptRef, "seq">): void {
    const live = this.#live.get(seq);
    if (live) live.heartbeatAt = this.loop.clock.now();
    this.#recovery.heartbeat(seq);
  }

  /** The turn of a submission is over: it has ended, or waits for its next attempt. */
  #onChanged(submission: Submission): void {
    const { seq, submissionId, status, errorName } = submission;
    const live = this.#live.get(seq);
    // Maybe by its host, before the turn returns.
    if (live) live.reported = { status, errorName };
    if (status === "pending" && this.#recovery.expectJoined(submissionId)) this.#recoverSoon();
    this.#release(submission);
  }

  /** A submission no longer occupies its thread: the next one can start, and a wake comes while turns run. */
  #release({ seq, thread, dueAt }: Released): void {
    const { wake, clock } = this.loop;
    if (dueAt !== undefined) wake.request(dueAt);
    this.#recovery.forget(seq);
    this.#expect([thread]);
    this.#kick();
    if (this.#isBusy) wake.request(clock.now() + HEARTBEAT_MS);
  }

  /** The wake: recovers, ends stalled turns, and starts what can start. */
  async drive(): Promise<number | null> {
    const recovered = this.#recover(true);
    this.loop.track(this.#recovery, recovered);
    // A host that answers slowly holds up nothing else.
    await withTimeout(recovered, RECOVERY_WAIT_MS).catch(() => {});
    this.#settlement.flushAgain();
    this.watch();
    this.#kick();
    // Retention must not wait for long-running submissions.
    if (this.#settlement.prune()) return this.loop.clock.now();
    return earliest([this.#recovery.nextCheck, this.#nextDue, this.#nextAdmission]);
  }

  watch(): void {
    this.#endStalled();
    this.#cancelGone([...this.#running, ...this.#recovery.running]);
  }

  #recoverSoon(): void {
    this.loop.wake.request(this.loop.clock.now() + CHECK_MS);
    void this.#recover(false);
  }

  /** Decides about each interrupted turn, as far as possible now. Never fails. Runs never overlap. */
  #recover(isWake: boolean): Promise<void> {
    this.#requestedRecovery = { isWake: isWake || this.#requestedRecovery?.isWake === true };
    this.#recovering ??= this.#recoverAll().finally(() => {
      this.#recovering = undefined;
    });
    return this.#recovering;
  }

  async #recoverAll(): Promise<void> {
    for (let asked = this.#requestedRecovery; asked; asked = this.#requestedRecovery) {
      this.#requestedRecovery = undefined;
      try {
        for await (const outcome of this.#recovery.check(asked.isWake)) {
          if ("changed" in outcome) this.#onChanged(outcome.changed);
          else this.#release(outcome.released);
        }
      } catch (error) {
        console.error("[perdure] an interrupted turn could not be checked, will retry:", error);
      }
    }
  }

  /** Cancels, in the background, what terminated workflows have left. */
  #cancelGone(running: readonly Submission[]): void {
    for (const asked of this.#liveness.findGone(running)) {
      asked
        .then((of) => of && this.cancelFor(of, "The workflow that waited for it was terminated"))
        .catch((error) => {
          console.error("[perdure] turns of a terminated workflow could not be cancelled:", error);
        });
    }
  }

  #expect(threads: Iterable<string>): void {
    for (const thread of threads) this.#waiting.set(thread, 0);
  }

  get #isBusy(): boolean {
    return this.#live.size + this.#asked.length > 0;
  }

  /** Submissions that wait for the gate of `limits()`. Each takes a slot. */
  get #asked(): readonly number[] {
    return this.limiter.admissions?.asked ?? [];
  }

  /** The submissions of the live turns, as they were claimed. */
  get #running(): Submission[] {
    return [...this.#live.values()].map(({ submission }) => submission);
  }

  #liveIn(thread: string): number | undefined {
    return this.#running.find((submission) => submission.thread === thread)?.seq;
  }

  get #nextDue(): number | null {
    // A thread without a free slot is looked at when a slot becomes free.
    const due = [...this.#waiting].filter(([thread, time]) => time > 0 && this.#hasSlot(thread));
    return earliest(due.map(([, time]) => time));
  }

  /** Starts all turns that can start. Never fails: the next wake tries again. */
  #kick(): void {
    if (this.#isKicking) return;
    this.#isKicking = true;
    try {
      this.loop.tryOrPause(ADMISSION, NOT_STARTED, () => this.#admit(), PAUSE_MS);
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
      this.#pause(thread, this.loop.clock.now() + PAUSE_MS);
    }
  }

  /** Ends, or schedules again, the turns that have made no progress for `stallTimeout`. */
  #endStalled(): void {
    const { clock } = this.loop;
    for (const live of [...this.#live.values()]) {
      if (clock.now() - live.heartbeatAt >= this.limits.stallTimeoutMs) {
        this.#tryOrPause(() => this.#giveUp(live), live.submission.thread);
      }
    }
    this.limiter.admissions?.endStalled();
  }

  #giveUp(live: LiveTurn): void {
    const cause = new TurnStalledError(this.limits.stallTimeoutMs);
    // A turn that its host has not begun counts as an attempt, so that it cannot stall without end.
    const hasBegun = live.attempt !== undefined || this.#begin(live) !== undefined;
    live.controller.abort(cause);
    if (hasBegun) this.#finish(live, { outcome: "error", failure: failureOf(cause), cause });
    this.#freeSlot(live);
  }

  /**
   * Aborts the turn of a cancelled submission, if it is live.
   *
   * @param isRolledBack whether its messages are removed once it has ended
   * @returns whether it is live, and whether it may have said anything
   */
  #abort(
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
  #stop(seq: number, reason: string | undefined): boolean {
    const live = this.#live.get(seq);
    if (live?.attempt === undefined) return false;
    live.isStopped = true;
    live.controller.abort(new Error(reason ?? "The turn was cancelled"));
    return true;
  }

  /** Submissions whose `notBefore` has passed join the queue of their thread. */
  #admit(): void {
    const { open } = this.store;
    const { nextScheduled } = open;
    const now = this.loop.clock.now();
    if (nextScheduled !== null && nextScheduled <= now) this.#expect(open.admitDue(now));
  }

  get #nextAdmission(): number | null {
    return this.loop.isPaused(ADMISSION) ? null : this.store.open.nextScheduled;
  }

  #hasFreeSlot(): boolean {
    const taken = this.#live.size + this.#asked.length + this.#recovery.count;
    return taken < this.limits.maxConcurrentTurns;
  }

  #hasSlot(thread: string): boolean {
    if (!this.#hasFreeSlot()) return false;
    const concurrency = concurrencyOf(thread);
    if (concurrency === Number.POSITIVE_INFINITY) return true;
    const live = this.#running.filter((submission) => submission.thread === thread);
    return live.length + this.#recovery.countIn(thread) < concurrency;
  }

  /** The next submission of a thread, if it may start now. Expired ones are skipped. */
  #next(thread: string): Submission | undefined {
    const now = this.loop.clock.now();
    if ((this.#waiting.get(thread) ?? 0) > now) return undefined;
    for (;;) {
      const next = this.store.open.nextPending(thread, this.#unbegun(thread));
      if (!next) {
        this.#waiting.delete(thread);
        return undefined;
      }
      if (isExpired(next, now)) {
        this.endSeen(next, { outcome: "skipped", failure: EXPIRED });
        continue;
      }
      if (next.dueAt !== undefined && next.dueAt > now) {
        // Keep first-in-first-out order: later turns would fail too.
        this.#pause(thread, next.dueAt);
        return undefined;
      }
      const onDecided = (pausedUntil: number) => this.#decided(thread, pausedUntil);
      if (!this.limiter.admissions?.holds(next, onDecided)) return next;
      if (!isIsolated(thread) || !this.#hasSlot(thread)) return undefined;
    }
  }

  /** The gate has decided about a submission of the thread. */
  #decided(thread: string, pausedUntil: number): void {
    this.#expect([thread]);
    if (pausedUntil > 0) this.#pause(thread, pausedUntil);
    this.#kick();
  }

  #pause(thread: string, until: number): void {
    this.#waiting.set(thread, until);
    this.loop.wake.request(until);
  }

  /** Live turns that have not begun: their submissions are still pending. Of isolated ones, also those that the gate has. */
  #unbegun(thread: string): number[] {
    const live = [...this.#live.values()]
      .filter(({ submission, attempt }) => submission.thread === thread && attempt === undefined)
      .map(({ submission }) => submission.seq);
    return isIsolated(thread) ? [...live, ...this.#asked] : live;
  }

  #start(submission: Submission): void {
    const live = liveTurn(submission, this.loop.clock.now());
    this.#live.set(submission.seq, live);
    const work = this.#detached(() => this.#run(live));
    this.loop.track(live, work);
  }

  /** Runs one turn to its end. Never rejects. */
  async #run(live: LiveTurn): Promise<void> {
    const { seq, thread } = live.submission;
    let pausedUntil = 0;
    try {
      const end = await this.#endOf(live);
      // The turn was given up as stalled meanwhile.
      if (this.#live.get(seq) !== live) return;
      if (!this.#finish(live, end)) pausedUntil = this.loop.clock.now() + PAUSE_MS;
    } finally {
      this.#freeSlot(live);
      if (pausedUntil > 0) this.#pause(thread, pausedUntil);
      this.#kick();
    }
  }

  /** The thread goes to the end of the queue; a pool did so when it took the slot. */
  #freeSlot(live: LiveTurn): void {
    const { seq, thread } = live.submission;
    if (this.#live.get(seq) !== live) return;
    if (live.attempt === undefined) this.limiter.gate?.released(seq);
    this.#live.delete(seq);
    this.loop.untrack(live);
    if (isPool(thread)) this.#waiting.set(thread, 0);
    else this.#moveToEnd(thread);
  }

  #moveToEnd(thread: string): void {
    this.#waiting.delete(thread);
    this.#waiting.set(thread, 0);
  }

  async #endOf(live: LiveTurn): Promise<TurnEnd> {
    const turn = turnOf(live, this.statuses.hooks, {
      isGivenUp: () => this.#live.get(live.submission.seq) !== live,
      begin: () => this.#begin(live),
    });
    try {
      const { loop, host } = this;
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
    const { store } = this;
    const { clock } = this.loop;
    const { seq, expiresAt } = live.submission;
    const isOver = this.#live.get(seq) !== live || live.controller.signal.aborted;
    const next = isOver || expiresAt === undefined ? undefined : store.get(seq);
    // It may have waited for long in the host's own queue.
    if (next?.status === "pending" && isExpired(next, clock.now())) {
      this.endSeen(next, { outcome: "skipped", failure: EXPIRED });
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
    this.statuses.announce(claimed);
    // It may have been pending for long.
    this.#cancelGone([claimed]);
    return { seq, attempt: claimed.attempts };
  }

  /** Handles the end of a turn. Returns whether the thread can continue at once. */
  #finish({ submission, attempt, isRolledBack }: LiveTurn, end: TurnEnd): boolean {
    const { seq } = submission;
    const isRecovering = end.outcome === "recovering";
    if (isRecovering && attempt === undefined) return false;
    const seen =
      attempt === undefined ? submission : { seq, attempts: attempt, status: "running" as const };
    const unwritten = isRecovering ? undefined : this.#write(seen, end);
    if (unwritten) this.#leaveToRecovery(submission, { unwritten });
    else if (isRecovering || isRolledBack) {
      const now = this.#read(submission);
      const isOpen = now?.isRollbackPending || now?.status === "running";
      if (now && isOpen) this.#leaveToRecovery(now, { isReset: isRecovering && end.isReset });
    }
    return true;
  }

  /** A submission that cannot be read now is decided about at the next wake. */
  #read(submission: Submission): Submission | undefined {
    try {
      return this.store.get(submission.seq);
    } catch (error) {
      console.error("[perdure] the state of a turn could not be read:", error);
      return { ...submission, status: "running" };
    }
  }

  /** From here on the turn is recovered, as after a restart. */
  #leaveToRecovery(submission: Submission, interruption: Interruption): void {
    this.#recovery.add(submission, interruption);
    if (submission.isRollbackPending || interruption.unwritten) this.#recoverSoon();
    else this.loop.wake.request(this.loop.clock.now() + CHECK_MS);
  }

  /** An end that cannot be written now is kept and written by a later wake: the turn must not run again for it. */
  #write(seen: Seen, end: TurnEnd): Interruption["unwritten"] {
    try {
      this.endSeen(seen, end);
      return undefined;
    } catch (error) {
      console.error("[perdure] the end of a turn could not be stored, will retry:", error);
      return { seen, end };
    }
  }
}

/** A new submission, or the one that is known under the key or id. */
export type IntakeResult = {
  readonly submission: Summary & Partial<Pick<Submission, "messages">>;
  readonly accepted: boolean;
  /** It is known with other messages. */
  readonly conflict?: boolean;
  /** Its messages have replaced earlier ones. */
  readonly debounced?: boolean;
  readonly whenBusy?: WhenBusy | undefined;
};
