/**
 * Keeps the ledger going: what was accepted is run, what has ended lets the
 * next one go, what was left is decided about, and a wake comes as long as
 * anything is open (L1). Joins the ledger's parts; each of them does one thing.
 */

import type { LifecycleServices } from "agents/lifecycle";
import type { UIMessage } from "ai";
import type { Clock } from "../../core/clock.ts";
import type { Failure } from "../../core/failures.ts";
import { type OnProblem, reportProblem } from "../../core/problems.ts";
import { withTimeout } from "../../core/timeout.ts";
import { Wake } from "../../core/wake.ts";
import type { Outbox } from "../../outbox/outbox.ts";
import type { InstanceOf } from "../../outbox/types.ts";
import { type AttemptRef, type TurnEnd, type TurnHost, TurnRefused } from "../host.ts";
import { inspect } from "../inspection.ts";
import type { Limits } from "../options.ts";
import { isTerminal } from "../states.ts";
import type { Seen } from "../store/changes.ts";
import { SubmissionRecords } from "../store/history.ts";
import type { Submission, Summary } from "../store/rows.ts";
import { SubmissionStore } from "../store/store.ts";
import { DayUsage } from "../store/usage.ts";
import type { SubmissionInspection } from "../types.ts";
import { Spending, type SpendingOwner } from "./budgets.ts";
import { CHECK_MS, Recovery, type RecoveryOwner } from "./recovery.ts";
import { Runner, type RunnerOwner } from "./runner.ts";
import { Settlement, type SettlementOwner } from "./settlement.ts";
import { tellApp, Waiters } from "./status-hooks.ts";
import { Steering, type SteeringOwner } from "./steering.ts";
import { WorkflowLiveness } from "./workflow-liveness.ts";

/** A submission that was accepted is found again at most this long after a crash. */
const BACKSTOP_MS = 10_000;
/** While a turn runs, the object is looked after this often. */
const HEARTBEAT_MS = 30_000;
/** How long a wake waits for what is left to be decided about. */
const PATIENCE_MS = 1_000;

export type EngineOwner = {
  readonly host: TurnHost;
  readonly outbox: Outbox;
  readonly clock: Clock;
  readonly limits: Limits;
  readonly onProblem: OnProblem | undefined;
  /** Given when the ledger is installed, which is later than its construction. */
  readonly lifecycle: () => LifecycleServices;
  /** Cancels what an instance of a workflow waits for, which was terminated. */
  readonly cancelFor: (of: InstanceOf) => Promise<void>;
};

/** What the parts know of each other. */
export class Engine
  implements SettlementOwner, RecoveryOwner, RunnerOwner, SpendingOwner, SteeringOwner
{
  readonly host: TurnHost;
  readonly outbox: Outbox;
  readonly clock: Clock;
  readonly limits: Limits;
  readonly waiters: Waiters;
  readonly wake: Wake;
  readonly spending = new Spending(this);
  readonly recovery = new Recovery(this);
  readonly #endings = new Settlement(this);
  readonly #steering = new Steering(this);
  readonly #runner = new Runner(this);
  /** Cancelled ones whose messages leave the conversation when their turn has come to its end. */
  readonly #toBeUndone = new Set<number>();
  readonly #lifecycle: EngineOwner["lifecycle"];
  readonly #onProblem: EngineOwner["onProblem"];
  #opened: { store: SubmissionStore; records: SubmissionRecords; dayUsage: DayUsage } | undefined;

  readonly #wanted: WorkflowLiveness;
  #hasStarted = false;

  constructor({ host, outbox, clock, limits, onProblem, lifecycle, cancelFor }: EngineOwner) {
    this.host = host;
    this.outbox = outbox;
    this.clock = clock;
    this.limits = limits;
    this.#lifecycle = lifecycle;
    this.#onProblem = onProblem;
    const waiterOf = (batch: string) => this.store.batches.waiterOf(batch);
    this.#wanted = new WorkflowLiveness({ outbox, clock, waiterOf, cancelFor });
    this.wake = new Wake(lifecycle, "perdure.submissions", () => this.#drive(), clock);
    this.waiters = new Waiters({
      hook: (submission) => tellApp(submission, host, lifecycle()),
      hookTimeoutMs: limits.hookTimeoutMs,
    });
  }

  get store(): SubmissionStore {
    return this.#open().store;
  }

  get records(): SubmissionRecords {
    return this.#open().records;
  }

  get dayUsage(): DayUsage {
    return this.#open().dayUsage;
  }

  /** The object has started: finds what an earlier life left, and makes sure of a wake if there is anything. */
  async start(): Promise<void> {
    this.host.start();
    this.store.migrate();
    this.recovery.start();
    this.#hasStarted = true;
    const threads = this.store.open.threads();
    this.#runner.expect(threads);
    const isOpen = threads.length > 0 || this.store.open.nextScheduled !== null;
    if (isOpen || this.recovery.nextCheck !== null) await this.wake.noLaterThan(this.clock.now());
  }

  /** What has just been accepted is announced, and run when its turn comes. */
  async begin(submissions: readonly Submission[]): Promise<void> {
    let first = Number.POSITIVE_INFINITY;
    for (const submission of submissions) {
      const { submissionId, idempotencyKey, thread, dueAt } = submission;
      const created = { submissionId, requestId: submissionId, idempotencyKey };
      this.#lifecycle().events.emit("submission:create", created);
      this.announce(submission);
      this.#runner.expect([thread]);
      first = Math.min(first, dueAt ?? this.clock.now() + BACKSTOP_MS);
    }
    if (submissions.length === 0) return;
    const armed = this.wake.noLaterThan(first);
    this.#runner.kick();
    await armed.catch((error) => console.error("[perdure] the wake could not be armed:", error));
  }

  /** It joins the turn that runs in its thread, if that calls the model again. */
  steer(submission: Submission): void {
    if (submission.dueAt === undefined) this.#steering.add(submission);
  }

  /**
   * Ends an open submission as `aborted` (L5). Returns it as it is then, and
   * whether its turn had begun in this life.
   *
   * @param isToBeUndone whether its messages are to leave the conversation, once its turn has come to its end
   */
  cancel(
    found: Summary,
    failure: Failure | undefined,
    isToBeUndone = false,
  ): { submission: Submission; hadBegun: boolean } {
    const ending = { status: "aborted", failure, isToBeUndone } as const;
    const submission = this.#endings.settle(found, ending);
    if (!submission)
      throw new Error(`Submission ${found.submissionId} changed while it was cancelled`);
    const { seq } = found;
    const reason = failure?.message;
    const { isLive, hadBegun } = this.#runner.abort(seq, reason);
    if (this.recovery.has(seq)) this.host.stop(submission, reason);
    if (isToBeUndone && isLive) this.#toBeUndone.add(seq);
    else if (isToBeUndone) this.recovery.add(submission);
    if (!isToBeUndone) this.release(found);
    else this.recoverSoon();
    return { submission, hadBegun };
  }

  /** The submission whose turn has, or had, this id of the host's own. */
  findByTurn(requestId: string): Submission | undefined {
    const submissionId = this.host.submissionOf(requestId) ?? this.records.ofTurn(requestId);
    return submissionId === undefined ? undefined : this.store.find(submissionId);
  }

  /**
   * Aborts the turn that a submission runs in, its own or the one that it has joined; one that a crash has interrupted
   * ends at once. Without such a turn it does nothing; it may come before the start.
   */
  stopTurn(submissionId: string, reason: string | undefined): void {
    if (!this.#hasStarted) return;
    const found = this.store.find(submissionId);
    const asked = found?.mergedInto === undefined ? found : this.store.find(found.mergedInto);
    if (asked?.status !== "running") return;
    if (this.#runner.stop(asked.seq, reason)) return;
    // Where its host has not taken it up yet, nobody would report an end.
    if (this.recovery.has(asked.seq)) this.cancel(asked, undefined);
  }

  /** Whether any of its messages are in the conversation, or may be: where the host cannot tell. */
  async hasLeftMessages(submission: Submission): Promise<boolean> {
    try {
      return (await this.host.inspectConversation(submission)).applied !== "none";
    } catch (error) {
      const { submissionId } = submission;
      console.error(
        `[perdure] what ${submissionId} left in the conversation cannot be told:`,
        error,
      );
      return true;
    }
  }

  /** Ends whatever is open in a thread: what waits as `skipped`, what runs as `aborted`, and what that has said leaves it. */
  clear(thread: string, failure: Failure): void {
    this.skipPending(thread, failure);
    const running = this.current(thread);
    // What its turn still writes while it ends is taken back.
    if (running) this.cancel(running, failure, true);
    else this.#undoEnding(thread);
  }

  /** The messages of what has been cancelled in a thread, and whose turn is still ending, leave it, too. */
  #undoEnding(thread: string): void {
    const seq = this.#runner.current(thread);
    const ending = seq === undefined ? undefined : this.store.get(seq);
    if (!ending || !isTerminal(ending.status)) return;
    this.store.rollbacks.add(ending.seq);
    this.#toBeUndone.add(ending.seq);
  }

  /** What runs in a thread, or is left running there. */
  readonly current = (thread: string): Submission | undefined => {
    const seq = this.#runner.current(thread) ?? this.recovery.current(thread);
    const found = seq === undefined ? undefined : this.store.get(seq);
    // Cancelled, it is in nobody's way any more, however long its turn takes to end.
    return found && !isTerminal(found.status) ? found : undefined;
  };

  /** A call of the model comes next. */
  nextStep(ref: AttemptRef, canJoin: boolean): UIMessage[] {
    if (!this.store.isRunning(ref)) throw new TurnRefused();
    this.heard(ref);
    this.spending.check(ref);
    return canJoin ? this.#steering.join(ref) : [];
  }

  /** What has just joined a turn could not be said in it. */
  part({ seq }: AttemptRef, messages: readonly UIMessage[]): void {
    const target = this.store.get(seq);
    const unsaid = new Set(messages.map(({ id }) => id));
    for (const joined of target ? this.store.open.joinedTo(target.submissionId) : []) {
      if (joined.messages.some(({ id }) => unsaid.has(id))) this.recovery.detachJoined(joined);
    }
  }

  /** The host is busy with a turn of its own: those that wait for it in that thread have not stalled. */
  heardIn(thread: string): void {
    const seq = this.#runner.current(thread);
    if (seq !== undefined) this.#runner.heard(seq);
  }

  heard({ seq }: Pick<AttemptRef, "seq">): void {
    this.#runner.heard(seq);
    this.recovery.heard(seq);
  }

  /** Ends some of what waits in a batch as `aborted`, and returns how many that were. */
  abortWaiting(batch: string, failure: Failure): number {
    return this.#endings.abortWaiting(batch, failure);
  }

  /** Begins to deliver what has been put into the outbox. */
  flush(): void {
    this.#endings.flush();
  }

  /**
   * Ends all that is open in a thread: a turn that runs in this life as `aborted`, and as `skipped` what waits and what
   * an earlier life left running. Goes by the rows: it may come before the start, which finds nothing left then.
   */
  reset(thread: string, failure: Failure): void {
    if (!this.#hasStarted) this.store.migrate();
    this.#endings.skipPending(thread, failure);
    const live = this.#runner.current(thread);
    if (live !== undefined) this.#runner.abort(live, failure.message);
    for (const running of this.store.open.running()) {
      if (running.thread !== thread || running.mergedInto !== undefined) continue;
      const isLive = running.seq === live;
      const aborted = { status: "aborted", failure: { name: failure.name } } as const;
      const ending = isLive ? aborted : ({ status: "skipped", failure } as const);
      if (!this.#endings.settle(running, ending)) continue;
      if (!isLive) this.host.stop(running, failure.message);
      if (this.#hasStarted) this.release(running);
    }
  }

  /** Ends whatever waits in a thread as `skipped`. */
  skipPending(thread: string, failure: Failure): void {
    this.#endings.skipPending(thread, failure);
  }

  /** Resolves when the app's status hook has returned for the latest status, or the signal is aborted. */
  readonly told = (submissionId: string, signal?: AbortSignal): Promise<void> =>
    this.waiters.told(submissionId, signal);

  readonly announce = (submission: Summary): void => {
    const inspection = inspect(submission);
    if (inspection.status === "error") this.#reportProblem(inspection);
    this.waiters.announce(inspection);
  };

  #reportProblem({
    submissionId,
    thread,
    attempts,
    error = "",
    errorName = "",
  }: SubmissionInspection) {
    const ids = { submissionId, thread, attempts, errorName };
    const problem = { type: "submission:error", level: "error", message: error, ids } as const;
    reportProblem(this.#onProblem, problem, this.inHostContext);
  }

  readonly nextWake = (): number | null => this.wake.armedFor;

  readonly wakeAt = (time: number): void => this.wake.request(time);

  readonly began = (submission: Submission): void => {
    this.spending.begin(submission);
    this.announce(submission);
    // It may have been in line for long.
    this.#wanted.look([submission]);
  };

  readonly end = (seen: Seen, end: TurnEnd): void => this.#endings.end(seen, end);

  readonly putOff = ({ submissionId }: Submission): void => {
    if (this.recovery.part(submissionId)) this.recoverSoon();
  };

  readonly startsOver = (submission: Submission): void => this.announce(submission);

  /** One is over, for now or for good: what waited behind it runs, and is looked after while it does (L1). */
  readonly release = ({ seq, thread, dueAt }: Released): void => {
    if (dueAt !== undefined) this.wakeAt(dueAt);
    this.recovery.forget(seq);
    this.#runner.expect([thread]);
    this.#runner.kick();
    if (this.#runner.isBusy) this.wakeAt(this.clock.now() + HEARTBEAT_MS);
  };

  readonly isToBeUndone = (seq: number): boolean => this.#toBeUndone.delete(seq);

  /** Something was left running: it is decided about now, and again at the next wake. */
  readonly recoverSoon = (): void => {
    this.wakeAt(this.clock.now() + CHECK_MS);
    void this.recovery.run();
  };

  readonly inHostContext = <T>(work: () => Promise<T>): Promise<T> =>
    this.#lifecycle().runInHostContext(work) as Promise<T>;

  #open() {
    const { storage } = this.#lifecycle();
    this.#opened ??= {
      store: new SubmissionStore(storage, this.limits),
      records: new SubmissionRecords(storage),
      dayUsage: new DayUsage(storage.sql),
    };
    return this.#opened;
  }

  async #drive(): Promise<number | null> {
    const recovered = this.recovery.run();
    // A host that is long in answering for what is left holds up nothing else.
    await withTimeout(recovered, PATIENCE_MS).catch(() => {});
    this.#endings.flushAgain();
    this.#runner.endStalled();
    this.#wanted.lookAtAll(() => [...this.#runner.running, ...this.recovery.running]);
    this.#runner.kick();
    const { work } = this.#runner;
    this.#lifecycle().trackAlarmWork(Promise.all([recovered, work]));
    return this.#nextWake();
  }

  /** The earliest time at which there is something to do, or null when nothing is open. */
  #nextWake(): number | null {
    const now = this.clock.now();
    const times = [
      this.#runner.isBusy ? now + HEARTBEAT_MS : null,
      this.recovery.nextCheck,
      this.#runner.nextDue,
      this.#runner.nextAdmission,
    ].filter((time) => time !== null);
    // What is open for long must not keep retention from its work.
    if (this.#endings.prune()) return now;
    if (this.outbox.isBusy) times.push(now + HEARTBEAT_MS);
    return times.length > 0 ? Math.min(...times) : null;
  }
}

type Released = Pick<Submission, "seq" | "thread"> & { readonly dueAt?: number | undefined };
