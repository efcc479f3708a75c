/**
 * The ledger of accepted turns: what was accepted is stored, reaches exactly
 * one end, and keeps it (L1-L5, L7). This file has the public verbs; the store
 * writes, the runner runs, a host knows the conversation.
 */

import {
  LifecycleCapability,
  type LifecycleJobContext,
  type LifecycleRouteContext,
} from "agents/lifecycle";
import type { UIMessage } from "ai";
import { type Clock, systemClock } from "../core/clock.ts";
import type { Failure } from "../core/failures.ts";
import { Wake } from "../core/wake.ts";
import type { Outbox } from "../outbox/outbox.ts";
import { readFilter } from "./accept.ts";
import { Endings } from "./endings.ts";
import { endOf, inspect } from "./inspection.ts";
import { Intake, resultOf, type Taken } from "./intake.ts";
import { type LedgerOptions, type Limits, readOptions } from "./options.ts";
import { SubmissionRecords } from "./records.ts";
import type { Submission } from "./rows.ts";
import { Runner } from "./runner.ts";
import { isTerminal, type TerminalStatus } from "./states.ts";
import { type Seen, SubmissionStore } from "./store.ts";
import type { AttemptRef, TurnEnd, TurnHost } from "./turn.ts";
import type {
  CancelSubmissionResult,
  DeleteSubmissionsOptions,
  InternalSubmitOptions,
  ListSubmissionsOptions,
  SubmissionEnd,
  SubmissionInspection,
  SubmissionStats,
  SubmitMessagesResult,
  WaitForSubmissionOptions,
} from "./types.ts";
import { Waiters } from "./waiters.ts";

/** A submission that was accepted is found again at most this long after a crash. */
const BACKSTOP_MS = 10_000;
/** While a turn runs, the object is looked after this often. */
const HEARTBEAT_MS = 30_000;
/** How often the ledger looks whether a host's recovery has ended. */
const RECOVERY_CHECK_MS = 2_000;
const TERMINAL: readonly TerminalStatus[] = ["completed", "error", "aborted", "skipped"];

export type SubmissionsOptions = LedgerOptions & {
  readonly clock?: Clock;
};

export class Submissions extends LifecycleCapability {
  readonly #host: TurnHost;
  readonly #outbox: Outbox;
  readonly #clock: Clock;
  readonly #waiters: Waiters;
  readonly #intake: Intake;
  readonly #endings: Endings;
  readonly #runner: Runner;
  readonly #wake = new Wake(
    () => this.lifecycle,
    "perdure.submissions",
    () => this.#drive(),
  );
  #opened: { store: SubmissionStore; records: SubmissionRecords } | undefined;

  /** @throws InvalidOptionError for an option that cannot be meant */
  constructor(
    host: TurnHost,
    outbox: Outbox,
    { clock = systemClock, ...options }: SubmissionsOptions = {},
  ) {
    super("perdure.submissions");
    this.#host = host;
    this.#outbox = outbox;
    this.#clock = clock;
    this.#waiters = new Waiters(async (submission) => {
      await this.#inHostContext(() => host.onStatus(submission));
    });
    const parts = this.#parts(readOptions(options));
    this.#intake = new Intake(parts);
    this.#endings = new Endings(parts);
    this.#runner = new Runner(parts);
  }

  override async onStart(): Promise<void> {
    this.#host.start();
    this.#store.migrate();
    if (this.#runner.start()) await this.#wake.noLaterThan(this.#clock.now());
  }

  onJob(context: LifecycleJobContext) {
    return this.#wake.onJob(context);
  }

  onJobError(context: LifecycleJobContext, error: unknown) {
    return this.#wake.onJobError(context, error);
  }

  onRoute(context: LifecycleRouteContext) {
    return this.#wake.onRoute(context);
  }

  /**
   * Accepts a turn. When it resolves, the turn is stored and will reach exactly one end (L1).
   *
   * @throws InvalidSubmissionError for arguments that cannot be stored
   * @throws SubmissionIdentityError when id and key name different submissions
   * @throws IdempotencyConflictError for a known key with different messages, with `onConflict: "throw"` (L3)
   * @throws BusyError when something runs or is in line, with `whenBusy: "reject"`
   * @throws BacklogFullError when as many wait as `maxPending` allows (L9)
   */
  async submit(
    messages: UIMessage[],
    options: InternalSubmitOptions = {},
  ): Promise<SubmitMessagesResult> {
    await this.lifecycle.ready();
    const taken = this.#intake.take(messages, options);
    this.#begin([taken]);
    if (options.whenBusy === "interrupt") await this.#interruptFor([taken]);
    return resultOf(taken);
  }

  /**
   * Accepts many turns, all or none, in one transaction and in their order (L1, L4).
   *
   * @throws what {@link submit} throws, for the first that is refused; nothing is stored then
   */
  async submitMany(
    submissions: readonly { messages: UIMessage[]; options?: InternalSubmitOptions }[],
  ): Promise<SubmitMessagesResult[]> {
    await this.lifecycle.ready();
    const taken = this.#store.transaction(() =>
      submissions.map(({ messages, options = {} }) => this.#intake.take(messages, options)),
    );
    this.#begin(taken);
    const urgent = taken.filter((_, at) => submissions[at]?.options?.whenBusy === "interrupt");
    await this.#interruptFor(urgent);
    return taken.map(resultOf);
  }

  /** The submission as it is now, or null for an unknown id. */
  async inspect(submissionId: string): Promise<SubmissionInspection | null> {
    await this.lifecycle.ready();
    const found = this.#store.find(submissionId);
    if (!found) return null;
    // A first attempt has none before it, which saves the look.
    return inspect(found, found.attempts > 0 ? this.#records.failedAttempts(found.seq) : undefined);
  }

  /**
   * Tries a failed, cancelled or skipped submission again: a new one with the
   * same messages, which takes over its key. The old one keeps its end (L1).
   * Asked for again, it is the same new one (L3); failed as well, that is the one to retry.
   *
   * @returns the new submission; with `accepted: false` the one that was made before, or the old
   *   one where it is open or completed; null for an unknown id
   * @throws BacklogFullError
   */
  async retry(submissionId: string): Promise<SubmitMessagesResult | null> {
    await this.lifecycle.ready();
    const taken = this.#intake.retake(submissionId);
    if (!taken) return null;
    this.#begin([taken]);
    return resultOf(taken);
  }

  /** What is open, counted. Costs no more than there is open. */
  async stats(): Promise<SubmissionStats> {
    await this.lifecycle.ready();
    return this.#store.stats();
  }

  /** How a submission ended, or null while it has not, or for an unknown id. */
  async endOf(submissionId: string): Promise<SubmissionEnd | null> {
    await this.lifecycle.ready();
    const found = this.#store.find(submissionId);
    return found && isTerminal(found.status) ? endOf(found) : null;
  }

  /** Submissions, newest first. */
  async list(options: ListSubmissionsOptions = {}): Promise<SubmissionInspection[]> {
    await this.lifecycle.ready();
    const filter = readFilter(options);
    return this.#records.list({ ...options, ...filter }).map((found) => inspect(found));
  }

  /** Ends a submission that has not ended, and says what it did (L5). */
  async cancel(submissionId: string, reason?: unknown): Promise<CancelSubmissionResult> {
    await this.lifecycle.ready();
    const found = this.#store.find(submissionId);
    if (!found) return { outcome: "not_found", submissionId };
    if (isTerminal(found.status)) {
      return { outcome: "already_terminal", submissionId, submission: inspect(found) };
    }
    const previousStatus = found.status;
    const failure = reasonOf(reason);
    const aborted = this.#endings.settle(found, { status: "aborted", failure });
    if (!aborted) throw new Error(`Submission ${submissionId} changed while it was cancelled`);
    const hadBegun = this.#runner.abort(found, failure?.message);
    this.#goOn(found.seq);
    const messagesApplied =
      hadBegun || (found.attempts > 0 && (await this.#hasLeftMessages(found)));
    return {
      outcome: "cancelled",
      submissionId,
      previousStatus,
      messagesApplied,
      submission: inspect(aborted),
    };
  }

  /** Cancels what a workflow instance waits for: it is gone, and nobody wants the answers (W5). */
  async cancelFor(instance: string, reason: string): Promise<void> {
    await this.lifecycle.ready();
    for (const { submissionId } of this.#store.openFor(instance)) {
      await this.cancel(submissionId, reason);
    }
  }

  /**
   * Resolves at the submission's end, after the app's status hook for it, or
   * with what it is when `timeoutMs` is over, or null for an unknown id. The
   * wait is in memory; after a restart of this object, ask again (L1).
   *
   * @throws Error from inside a turn or the status hook, where the wait could never end
   */
  async wait(
    submissionId: string,
    { timeoutMs }: WaitForSubmissionOptions = {},
  ): Promise<SubmissionInspection | null> {
    await this.lifecycle.ready();
    const found = this.#store.find(submissionId);
    if (!found) return null;
    if (isTerminal(found.status) && !this.#waiters.isAnnouncing(submissionId))
      return inspect(found);
    this.#refuseToWaitForItself();
    const ended = await this.#waiters.wait(submissionId, timeoutMs);
    return ended ?? this.inspect(submissionId);
  }

  /** Forgets one ended submission. Returns whether there was one. */
  async delete(submissionId: string): Promise<boolean> {
    await this.lifecycle.ready();
    return this.#records.deleteOne(submissionId);
  }

  /** Forgets ended submissions, the oldest first. Returns how many. */
  async deleteMany(options: DeleteSubmissionsOptions = {}): Promise<number> {
    await this.lifecycle.ready();
    const { statuses = [...TERMINAL], limit } = readFilter(options);
    const ended = statuses.filter(isTerminal);
    return ended.length === 0
      ? 0
      : this.#records.delete(ended, options.completedBefore?.getTime(), limit);
  }

  /** Ends whatever waits for its turn as `skipped`: the turns it was meant for are gone. */
  skipPending(failure: Failure): void {
    this.#endings.skipPending(failure);
  }

  /** For hosts: the submission that one of these messages came with, open or recent. */
  findByMessage(messageIds: ReadonlySet<string>): Submission | undefined {
    return this.#store.findByMessage(messageIds);
  }

  /** For hosts: records the structured answer of a running turn, once (L7). */
  answer({ seq, attempt }: AttemptRef, output: unknown): boolean {
    return this.#store.answer(seq, attempt, JSON.stringify(output)) !== undefined;
  }

  /** For hosts: the turn has ended. A later end of the same attempt changes nothing (L2). */
  end({ seq, attempt }: AttemptRef, end: TurnEnd): void {
    this.#endings.end({ seq, attempts: attempt, status: "running" }, end);
  }

  /** What the ledger's parts need of each other. */
  #parts(limits: Limits) {
    const open = () => this.#open();
    return {
      host: this.#host,
      outbox: this.#outbox,
      clock: this.#clock,
      limits,
      get store() {
        return open().store;
      },
      get records() {
        return open().records;
      },
      announce: (submission: Submission) => this.#waiters.announce(inspect(submission)),
      nextWake: () => this.#wake.armedFor,
      wakeAt: (time: number) => this.#wake.request(time),
      end: (seen: Seen, end: TurnEnd) => this.#endings.end(seen, end),
      release: ({ seq, dueAt }: Submission) => {
        if (dueAt !== undefined) this.#wake.request(dueAt);
        this.#goOn(seq);
      },
      inHostContext: <T>(work: () => Promise<T>) => this.#inHostContext(work),
    };
  }

  get #store(): SubmissionStore {
    return this.#open().store;
  }

  get #records(): SubmissionRecords {
    return this.#open().records;
  }

  /** Lifecycle gives the storage when it installs the ledger, which is later than its construction. */
  #open() {
    const { storage } = this.lifecycle;
    this.#opened ??= {
      store: new SubmissionStore(storage),
      records: new SubmissionRecords(storage),
    };
    return this.#opened;
  }

  /** One is over: what waited behind it runs, and is looked after while it does (L1). */
  #goOn(seq: number): void {
    this.#runner.forget(seq);
    this.#runner.kick();
    if (this.#runner.isBusy) this.#wake.request(this.#clock.now() + HEARTBEAT_MS);
  }

  /** Cancels what runs, so that these, which are next in line, can. One that was known interrupts nothing. */
  async #interruptFor(urgent: readonly Taken[]): Promise<void> {
    const ids = urgent.flatMap((one) => (one.accepted ? [one.submission.submissionId] : []));
    if (ids.length === 0) return;
    for (const { submissionId } of this.#store.running()) {
      if (ids.includes(submissionId)) continue;
      await this.cancel(submissionId, `Interrupted by submission ${ids[0]}`);
    }
  }

  /** What has just come in is announced, and run when its turn comes. */
  #begin(taken: readonly Taken[]): void {
    for (const { submission, accepted, conflict } of taken) {
      const { submissionId, idempotencyKey } = submission;
      if (conflict)
        this.lifecycle.events.emit("submission:conflict", { submissionId, idempotencyKey });
      if (!accepted) continue;
      this.lifecycle.events.emit("submission:create", { submissionId });
      this.#waiters.announce(inspect(submission));
    }
    if (!taken.some(({ accepted }) => accepted)) return;
    this.#wake.request(this.#clock.now() + BACKSTOP_MS);
    this.#runner.kick();
  }

  async #hasLeftMessages({ messages, submissionId }: Submission): Promise<boolean> {
    try {
      return (await this.#host.trace(messages)).applied !== "none";
    } catch (error) {
      console.error(
        `[perdure] what ${submissionId} left in the conversation cannot be told:`,
        error,
      );
      return true;
    }
  }

  #refuseToWaitForItself(): void {
    const where = this.#waiters.isInsideHook
      ? "onSubmissionStatus: the submission settles only after the hook returns"
      : this.#host.isInsideTurn()
        ? "inside an active turn: the submission runs only after this turn ends"
        : undefined;
    if (where) throw new Error(`waitForSubmission() cannot be called from ${where}.`);
  }

  async #drive(): Promise<number | null> {
    await this.#runner.recoverOrphans();
    this.#runner.kick();
    const { work } = this.#runner;
    if (work) this.lifecycle.trackAlarmWork(work);
    if (this.#runner.isBusy) {
      return this.#clock.now() + (work ? HEARTBEAT_MS : RECOVERY_CHECK_MS);
    }
    const next = this.#store.nextPending();
    if (next) return next.dueAt ?? this.#clock.now() + RECOVERY_CHECK_MS;
    const { nextScheduled } = this.#store;
    if (nextScheduled !== null) return nextScheduled;
    if (this.#endings.prune()) return this.#clock.now();
    return this.#outbox.isBusy ? this.#clock.now() + HEARTBEAT_MS : null;
  }

  #inHostContext<T>(work: () => Promise<T>): Promise<T> {
    return this.lifecycle.runInHostContext(work) as Promise<T>;
  }
}

function reasonOf(reason: unknown): Failure | undefined {
  if (reason === undefined) return undefined;
  const message = reason instanceof Error ? reason.message : String(reason);
  return { name: "SubmissionCancelledError", message };
}
