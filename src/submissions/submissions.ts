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
import { type Failure, transientOf } from "../core/failures.ts";
import { Wake } from "../core/wake.ts";
import type { Outbox } from "../outbox/outbox.ts";
import { asksTheSame, prepare, readFilter } from "./accept.ts";
import { BacklogFullError, IdempotencyConflictError, SubmissionIdentityError } from "./errors.ts";
import { endOf, inspect } from "./inspection.ts";
import { type LedgerOptions, type Limits, readOptions } from "./options.ts";
import { retryDelayMs } from "./retry.ts";
import type { Submission } from "./rows.ts";
import { Runner } from "./runner.ts";
import { isTerminal, type TerminalStatus } from "./states.ts";
import { type NewSubmission, type Seen, type Settlement, SubmissionStore } from "./store.ts";
import type { AttemptRef, TurnEnd, TurnHost } from "./turn.ts";
import type {
  CancelSubmissionResult,
  DeleteSubmissionsOptions,
  InternalSubmitOptions,
  ListSubmissionsOptions,
  SubmissionEnd,
  SubmissionInspection,
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

/** Ends between two looks at what retention lets go, and rows that each of them looks at. */
const PRUNE_EVERY = 64;
const PRUNE_SCAN = 256;

type FailedEnd = Extract<TurnEnd, { outcome: "error" }>;

export type SubmissionsOptions = LedgerOptions & {
  readonly clock?: Clock;
};

export class Submissions extends LifecycleCapability {
  readonly #host: TurnHost;
  readonly #outbox: Outbox;
  readonly #clock: Clock;
  readonly #waiters: Waiters;
  readonly #runner: Runner;
  readonly #wake = new Wake(
    () => this.lifecycle,
    "perdure.submissions",
    () => this.#drive(),
  );
  readonly #limits: Limits;
  #endsSincePrune = 0;
  #opened: SubmissionStore | undefined;

  /** @throws InvalidOptionError for an option that cannot be meant */
  constructor(
    host: TurnHost,
    outbox: Outbox,
    { clock = systemClock, ...options }: SubmissionsOptions = {},
  ) {
    super("perdure.submissions");
    this.#limits = readOptions(options);
    this.#host = host;
    this.#outbox = outbox;
    this.#clock = clock;
    this.#waiters = new Waiters(async (submission) => {
      await this.#inHostContext(() => host.onStatus(submission));
    });
    const store = () => this.#store;
    this.#runner = new Runner({
      host,
      clock,
      get store() {
        return store();
      },
      maxAttempts: this.#limits.maxAttempts,
      wakeAt: (time) => this.#wake.request(time),
      end: (seen, end) => this.#end(seen, end),
      announce: (submission) => this.#waiters.announce(inspect(submission)),
      inHostContext: (work) => this.#inHostContext(work),
    });
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
   * @throws BacklogFullError when as many wait as `maxPending` allows (L9)
   */
  async submit(
    messages: UIMessage[],
    options: InternalSubmitOptions = {},
  ): Promise<SubmitMessagesResult> {
    await this.lifecycle.ready();
    const { maxPayloadBytes, maxPending } = this.#limits;
    const submission = prepare(messages, options, {
      maxPayloadBytes,
      newId: () => crypto.randomUUID(),
    });
    const known = this.#known(options);
    if (known && !isStale(known, options.run)) return this.#repeated(known, submission, options);
    const { pending } = this.#store;
    if (pending >= maxPending) throw new BacklogFullError(pending, maxPending);
    const accepted = this.#store.transaction(() => {
      if (known) this.#store.releaseKey(known.seq);
      return this.#store.accept(submission, this.#clock.now());
    });
    this.#wake.request(this.#clock.now() + BACKSTOP_MS);
    this.lifecycle.events.emit("submission:create", { submissionId: accepted.submissionId });
    this.#waiters.announce(inspect(accepted));
    this.#runner.kick();
    return { ...inspect(accepted), accepted: true };
  }

  /** The submission as it is now, or null for an unknown id. */
  async inspect(submissionId: string): Promise<SubmissionInspection | null> {
    await this.lifecycle.ready();
    const found = this.#store.find(submissionId);
    if (!found) return null;
    // A first attempt has none before it, which saves the look.
    return inspect(found, found.attempts > 0 ? this.#store.failedAttempts(found.seq) : undefined);
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
    const { statuses, limit } = readFilter(options);
    return this.#store.list(statuses, limit).map((found) => inspect(found));
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
    const aborted = this.#settle(found, { status: "aborted", failure });
    if (!aborted) throw new Error(`Submission ${submissionId} changed while it was cancelled`);
    const hadBegun = this.#runner.abort(found, failure?.message);
    this.#runner.forget(found.seq);
    const messagesApplied =
      hadBegun || (previousStatus === "running" && (await this.#hasLeftMessages(found)));
    return {
      outcome: "cancelled",
      submissionId,
      previousStatus,
      messagesApplied,
      submission: inspect(aborted),
    };
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
    return this.#store.deleteOne(submissionId);
  }

  /** Forgets ended submissions, the oldest first. Returns how many. */
  async deleteMany(options: DeleteSubmissionsOptions = {}): Promise<number> {
    await this.lifecycle.ready();
    const { statuses = [...TERMINAL], limit } = readFilter(options);
    const ended = statuses.filter(isTerminal);
    return ended.length === 0
      ? 0
      : this.#store.delete(ended, options.completedBefore?.getTime(), limit);
  }

  /** Ends whatever waits for its turn as `skipped`: the turns it was meant for are gone. */
  skipPending(failure: Failure): void {
    const skipped = this.#store.transaction(() => {
      const rows = this.#store.skipPending(failure, this.#clock.now());
      for (const row of rows) this.#notify(row);
      return rows;
    });
    if (skipped.length === 0) return;
    this.#outbox.flush(this.#wake.armedFor);
    for (const row of skipped) this.#waiters.announce(inspect(row));
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
    this.#end({ seq, attempts: attempt, status: "running" }, end);
  }

  get #store(): SubmissionStore {
    this.#opened ??= new SubmissionStore(this.lifecycle.storage);
    return this.#opened;
  }

  #end(seen: Seen, end: TurnEnd): void {
    if (end.outcome === "recovering" || end.outcome === "reported") return;
    if (end.outcome === "error" && this.#retry(seen, end)) return;
    if (this.#settle(seen, { ...end, status: end.outcome })) this.#runner.forget(seen.seq);
  }

  /** Makes another attempt of a transient failure, later, where one is left (L8). Returns whether it does. */
  #retry(seen: Seen, { cause, failure, hasEffects = false }: FailedEnd): boolean {
    const transient = seen.status === "running" ? transientOf(cause) : undefined;
    const { retry } = (transient && this.#store.get(seen.seq)) ?? {};
    const { backoff, maxAttempts } = this.#limits;
    const turn = {
      transient,
      hasEffects,
      mayRepeatEffects: retry?.afterSideEffects ?? false,
      attempts: seen.attempts,
      maxAttempts: retry?.maxAttempts ?? maxAttempts,
    };
    const delayMs = retryDelayMs(turn, backoff, this.#clock.random());
    if (delayMs === undefined) return false;
    const now = this.#clock.now();
    const dueAt = now + delayMs;
    const pending = this.#store.transaction(() => this.#store.retryAt(seen, dueAt, failure, now));
    if (!pending) return false;
    this.#wake.request(dueAt);
    this.#waiters.announce(inspect(pending));
    this.#runner.forget(seen.seq);
    return true;
  }

  /** The end, and the word to everybody who waits for it, in one transaction (O1). */
  #settle(seen: Seen, settlement: Settlement): Submission | undefined {
    const settled = this.#store.transaction(() => {
      const row = this.#store.settle(seen, settlement, this.#clock.now());
      if (row) this.#notify(row);
      return row;
    });
    if (!settled) return undefined;
    if (settled.notify.length > 0) this.#outbox.flush(this.#wake.armedFor);
    this.#waiters.announce(inspect(settled));
    if (++this.#endsSincePrune >= PRUNE_EVERY) this.#prune();
    return settled;
  }

  /** Lets go of what retention no longer keeps (L9). Returns whether there may be more. */
  #prune(): boolean {
    this.#endsSincePrune = 0;
    const { maxAgeMs, maxCount } = this.#limits;
    return this.#store.prune(this.#clock.now() - maxAgeMs, maxCount, PRUNE_SCAN) > 0;
  }

  #notify(submission: Submission): void {
    const end = endOf(submission);
    for (const [index, destination] of submission.notify.entries()) {
      this.#outbox.put(`${submission.submissionId}:${index}`, destination, end);
    }
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

  #known({ submissionId, idempotencyKey }: InternalSubmitOptions): Submission | undefined {
    const byId = submissionId === undefined ? undefined : this.#store.find(submissionId);
    const byKey = idempotencyKey === undefined ? undefined : this.#store.findByKey(idempotencyKey);
    if (submissionId !== undefined && idempotencyKey !== undefined) {
      const isSame =
        byId?.seq === byKey?.seq || (byId && byId.idempotencyKey === undefined && !byKey);
      if (!isSame) throw new SubmissionIdentityError(submissionId, idempotencyKey);
    }
    return byId ?? byKey;
  }

  #repeated(
    known: Submission,
    repeated: NewSubmission,
    { onConflict = "return", idempotencyKey }: InternalSubmitOptions,
  ): SubmitMessagesResult {
    if (asksTheSame(known, repeated)) return { ...inspect(known), accepted: false };
    const { submissionId } = known;
    this.lifecycle.events.emit("submission:conflict", { submissionId, idempotencyKey });
    if (onConflict === "throw") throw new IdempotencyConflictError(submissionId, idempotencyKey);
    return { ...inspect(known), accepted: false, conflict: true };
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
    if (this.#prune()) return this.#clock.now();
    return this.#outbox.isBusy ? this.#clock.now() + HEARTBEAT_MS : null;
  }

  #inHostContext<T>(work: () => Promise<T>): Promise<T> {
    return this.lifecycle.runInHostContext(work) as Promise<T>;
  }
}

/** Whether an ended submission was a failure that another run of the caller was told of (W1). */
function isStale({ status, run }: Submission, asking: string | undefined): boolean {
  return asking !== undefined && run !== asking && isTerminal(status) && status !== "completed";
}

function reasonOf(reason: unknown): Failure | undefined {
  if (reason === undefined) return undefined;
  const message = reason instanceof Error ? reason.message : String(reason);
  return { name: "SubmissionCancelledError", message };
}
