/**
 * Keeps the ledger going: runs what was accepted, lets the next turn start when one has ended, recovers interrupted
 * turns, and holds a wake as long as anything is open. Hosts call it while a turn runs.
 */

import type { UIMessage } from "ai";
import { earliest, withTimeout } from "../../core/clock.ts";
import type { Failure } from "../../core/failures.ts";
import { HEARTBEAT_MS } from "../../engine/work-loop.ts";
import type { InstanceOf } from "../../outbox/destinations/workflow-event.ts";
import { type ToolCalls, type TurnEnd, TurnRefused } from "../host.ts";
import type { Ledger } from "../ledger.ts";
import { type AttemptRef, isTerminal } from "../states.ts";
import type { Submission, Summary } from "../store/rows.ts";
import type { CalledModel, EndedCall } from "../store/timeline.ts";
import type { SettledCall } from "../store/tool-calls.ts";
import type { WhenBusy } from "../submit-options.ts";
import { MAIN } from "../threads.ts";
import type { TokenUsage } from "../types.ts";
import { TokenBudgets } from "./budgets.ts";
import { afterSideEffects } from "./next-attempt.ts";
import { Recovery, type Released } from "./recovery.ts";
import { TurnRunner } from "./runner.ts";
import { Settlement } from "./settlement.ts";
import { ToolReplay } from "./tool-replay.ts";
import { WorkflowLiveness } from "./workflow-liveness.ts";

/** A submission that was accepted is found again at most this long after a crash. */
const BACKSTOP_MS = 10_000;
const RECOVERY_WAIT_MS = 1_000;

/** Ends what was open when the conversation was reset or cleared. */
export const TURN_RESET = {
  name: "TurnResetError",
  message: "Submission was skipped by turn reset.",
};

export class TurnEngine {
  readonly #budgets: TokenBudgets;
  readonly settlement: Settlement;
  readonly #recovery: Recovery;
  readonly #runner: TurnRunner;
  readonly #liveness: WorkflowLiveness;
  /** By thread: submissions that join the running turn at its next model call. After a restart they run by themselves. */
  readonly #steering = new Map<string, number[]>();
  #hasStarted = false;

  /** @param cancelFor cancels everything that a terminated workflow instance waits for */
  constructor(
    readonly ledger: Ledger,
    cancelFor: (of: InstanceOf) => Promise<void>,
  ) {
    const { outbox, clock } = ledger;
    const waiterOf = (batch: string) => ledger.store.batches.waiterOf(batch);
    this.#liveness = new WorkflowLiveness(outbox, clock, waiterOf, cancelFor);
    this.#budgets = new TokenBudgets(ledger);
    this.settlement = new Settlement(ledger, this.#budgets, (changed) => this.#onChanged(changed));
    this.#recovery = new Recovery(ledger, this.#budgets, this.settlement, (one) =>
      this.#release(one),
    );
    this.#runner = new TurnRunner(
      ledger,
      this.#budgets,
      this.settlement,
      this.#recovery,
      this.#liveness,
    );
  }

  /** The object has started: finds interrupted turns, and arms a wake if anything is open. */
  async start(): Promise<void> {
    const { host, store, wake, clock } = this.ledger;
    host.start();
    store.migrate();
    this.#recovery.start();
    this.#hasStarted = true;
    const threads = store.open.threads();
    this.#runner.expect(threads);
    const isOpen = threads.length > 0 || store.open.nextScheduled !== null;
    if (isOpen || this.#recovery.nextCheck !== null) await wake.noLaterThan(clock.now());
  }

  /** Announces what was accepted, and runs it when its turn comes, in place of what it interrupts. */
  async onAccepted(items: readonly IntakeResult[]): Promise<void> {
    const { loop, wake, clock } = this.ledger;
    const { events } = loop.lifecycle;
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
    const { loop, wake, clock } = this.ledger;
    const { events } = loop.lifecycle;
    let first = Number.POSITIVE_INFINITY;
    for (const submission of accepted) {
      const { submissionId, idempotencyKey, thread, dueAt } = submission;
      const created = { submissionId, requestId: submissionId, idempotencyKey };
      events.emit("submission:create", created);
      this.ledger.announce(submission);
      this.#runner.expect([thread]);
      first = Math.min(first, dueAt ?? clock.now() + BACKSTOP_MS);
    }
    if (accepted.length === 0) return;
    const armed = wake.request(first);
    this.#runner.kick();
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
    const submission = this.settlement.settle(found, ending);
    if (!submission)
      throw new Error(`Submission ${found.submissionId} changed while it was cancelled`);
    const { seq } = found;
    const reason = failure?.message;
    const { isLive, hadBegun } = this.#runner.abort(seq, reason, isRolledBack);
    if (this.#recovery.has(seq)) this.ledger.host.stop(submission, reason);
    if (!isRolledBack) this.#release(found);
    else {
      if (!isLive) this.#recovery.add(submission);
      this.#recovery.runSoon();
    }
    return { submission, hadBegun };
  }

  /**
   * Aborts the turn that a submission runs in, its own or the one that it joined. An interrupted turn ends at once.
   * Without such a turn it does nothing. It may be called before the start.
   */
  stopTurn(submissionId: string, reason?: string): void {
    if (!this.#hasStarted) return;
    const { store } = this.ledger;
    const found = store.find(submissionId);
    const target = found?.mergedInto === undefined ? found : store.find(found.mergedInto);
    if (target?.status !== "running") return;
    if (this.#runner.stop(target.seq, reason)) return;
    // The host has not taken it over yet, and would report no end.
    if (this.#recovery.has(target.seq)) this.cancel(target, undefined);
  }

  /** Ends all that is open in a thread: pending ones as `skipped`, the running one as `aborted` and rolled back. */
  clear(thread: string, failure: Failure): void {
    this.settlement.skipPending(thread, failure);
    const running = this.current(thread);
    if (running) this.cancel(running, failure, true);
    else this.#rollBackEnding(thread);
  }

  /** A cancelled submission whose turn is still ending is rolled back as well. */
  #rollBackEnding(thread: string): void {
    const { store } = this.ledger;
    const seq = this.#runner.current(thread);
    const ending = seq === undefined ? undefined : store.get(seq);
    if (!ending || !isTerminal(ending.status)) return;
    store.open.requestRollback(ending.seq);
    this.#runner.abort(ending.seq, undefined, true);
  }

  /**
   * Ends all that is open in the main thread, because its conversation is reset: a live turn as `aborted`; pending and
   * interrupted submissions as `skipped`. Reads the rows, so that it may be called before the start, when no interrupted turn is
   * known yet.
   */
  reset(): void {
    const { store, host } = this.ledger;
    const { name, message } = TURN_RESET;
    if (!this.#hasStarted) store.migrate();
    this.settlement.skipPending(MAIN, TURN_RESET);
    const live = this.#runner.current(MAIN);
    if (live !== undefined) this.#runner.abort(live, message);
    for (const running of store.open.running()) {
      if (running.thread !== MAIN || running.mergedInto !== undefined) continue;
      const isLive = running.seq === live;
      const aborted = { status: "aborted", failure: { name } } as const;
      const ending = isLive ? aborted : ({ status: "skipped", failure: TURN_RESET } as const);
      if (!this.settlement.settle(running, ending)) continue;
      if (!isLive) host.stop(running, message);
      if (this.#hasStarted) this.#release(running);
    }
  }

  /** The open submission that runs in a thread, is about to, or was interrupted there. */
  readonly current = (thread: string): Submission | undefined => {
    const seq = this.#runner.current(thread) ?? this.#recovery.current(thread);
    const found = seq === undefined ? undefined : this.ledger.store.get(seq);
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
    if (!this.ledger.store.isRunning(ref)) throw new TurnRefused();
    this.heartbeat(ref);
    this.#budgets.check(ref);
    this.#budgets.callStarted(ref, called);
    return canJoin ? this.#join(ref) : [];
  }

  /** pending → running, in the turn that makes a model call next. */
  #join(ref: AttemptRef): UIMessage[] {
    if (this.#steering.size === 0) return [];
    const { store, clock } = this.ledger;
    const thread = store.get(ref.seq)?.thread;
    const waiting = (thread !== undefined && this.#steering.get(thread)) || [];
    if (thread !== undefined) this.#steering.delete(thread);
    const joined = store.transaction(() =>
      waiting.flatMap((seq) => (seq === ref.seq ? [] : (store.join(seq, ref, clock.now()) ?? []))),
    );
    for (const submission of joined) this.ledger.announce(submission);
    return joined.flatMap(({ messages }) => messages);
  }

  /** The messages that {@link nextStep} returned could not be stored: their submissions wait for turns of their own. */
  detachJoined({ seq }: AttemptRef, messages: readonly UIMessage[]): void {
    const { store } = this.ledger;
    const target = store.get(seq);
    const ids = new Set(messages.map(({ id }) => id));
    for (const joined of target ? store.open.joinedTo(target.submissionId) : []) {
      if (joined.messages.some(({ id }) => ids.has(id))) this.#recovery.detachJoined(joined);
    }
  }

  /**
   * A model call begins, of an attempt with a budget of tokens.
   *
   * @param worst computes about how many tokens it uses
   */
  reserveTokens(ref: AttemptRef, worst: () => number): void {
    this.#budgets.reserveTokens(ref, worst);
  }

  /** A model has finished a call. Its step has not ended: {@link recordUsage} follows. */
  callFinished(ref: AttemptRef, usage: TokenUsage, hasToolCalls: boolean): void {
    this.#budgets.finished(ref, usage, hasToolCalls);
  }

  /** A model call has ended, with the usage that the model reports. */
  recordUsage(ref: AttemptRef, usage: TokenUsage | undefined, call?: EndedCall): void {
    this.heartbeat(ref);
    this.#budgets.add(ref, usage, call);
  }

  /**
   * Records the tool calls of one run of the turn: an attempt, or a recovery of one.
   *
   * @param settled returns the ended calls in the stored replies to the turn. Omit it for the first run of the first attempt
   */
  toolCalls(ref: AttemptRef, settled?: () => readonly SettledCall[]): ToolCalls {
    return new ToolReplay(this.ledger, ref, () => this.heartbeat(ref), settled);
  }

  /** Whether the host's own recovery may continue an interrupted turn, with these calls in its conversation. */
  mayContinue({ seq, retry }: Submission, settled: readonly SettledCall[]): boolean {
    if (afterSideEffects(retry) !== "fail") return true;
    const missing = this.ledger.store.toolCalls.missing(seq, settled);
    return missing.every(({ callKey }) => callKey !== null);
  }

  /**
   * Records the answer, once. It is written with the end of the turn at the latest. Returns whether this call recorded it.
   *
   * @throws AnswerTooLargeError for one over 16 MiB of JSON
   */
  answer(ref: AttemptRef, output: unknown): boolean {
    return this.ledger.store.answers.record(ref, JSON.stringify(output));
  }

  /** The turn has ended. A later end of the same attempt changes nothing. */
  end({ seq, attempt }: AttemptRef, end: TurnEnd): void {
    this.settlement.end({ seq, attempts: attempt, status: "running" }, end);
  }

  /** The host runs a turn of its own in this thread: the submission that waits for it has not stalled. */
  busy(thread: string): void {
    const seq = this.#runner.current(thread);
    if (seq !== undefined) this.#runner.heartbeat(seq);
  }

  /** When a running submission last made progress, where this object instance runs it. */
  progressAt(seq: number): number | undefined {
    return this.#runner.progressAt(seq);
  }

  /** The turn has made progress, e.g. a part of an answer has come. */
  heartbeat({ seq }: AttemptRef): void {
    this.#runner.heartbeat(seq);
    this.#recovery.heartbeat(seq);
  }

  #onChanged(submission: Submission): void {
    this.#runner.reported(submission);
    if (submission.status === "pending") this.#recovery.onRetryScheduled(submission.submissionId);
    this.#release(submission);
  }

  /** A submission no longer occupies its thread: the next one can start, and a wake comes while turns run. */
  #release({ seq, thread, dueAt }: Released): void {
    const { wake, clock } = this.ledger;
    if (dueAt !== undefined) wake.request(dueAt);
    this.#recovery.forget(seq);
    this.#runner.expect([thread]);
    this.#runner.kick();
    if (this.#runner.isBusy) wake.request(clock.now() + HEARTBEAT_MS);
  }

  /** The wake: recovers, ends stalled turns, and starts what can start. */
  async drive(): Promise<number | null> {
    const recovered = this.#recovery.run();
    this.ledger.loop.track(this.#recovery, recovered);
    // A host that answers slowly holds up nothing else.
    await withTimeout(recovered, RECOVERY_WAIT_MS).catch(() => {});
    this.settlement.flushAgain();
    this.watch();
    this.#runner.kick();
    return this.#nextWake();
  }

  watch(): void {
    this.#runner.endStalled();
    this.#liveness.check([...this.#runner.running, ...this.#recovery.running]);
  }

  /** The earliest time at which there is something to do, or null when nothing is open. */
  #nextWake(): number | null {
    // Retention must not wait for long-running submissions.
    if (this.settlement.prune()) return this.ledger.clock.now();
    return earliest([this.#recovery.nextCheck, this.#runner.nextDue, this.#runner.nextAdmission]);
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
