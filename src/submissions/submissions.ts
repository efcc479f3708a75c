/**
 * The ledger of accepted turns: what was accepted is stored, reaches exactly
 * one end, and keeps it (L1-L9). This file has the public verbs; the engine
 * keeps it going, the store writes, a host knows the conversation.
 */

import type { UIMessage } from "ai";
import { Capability } from "../core/capability.ts";
import { systemClock } from "../core/clock.ts";
import type { Failure } from "../core/failures.ts";
import { checkHook } from "../core/options.ts";
import type { Wake } from "../core/wake.ts";
import type { Outbox } from "../outbox/outbox.ts";
import type { Destination, InstanceOf } from "../outbox/types.ts";
import { CANCELLED, cancellationOf, UnknownCursorError } from "./errors.ts";
import {
  type AttemptRef,
  isIsolated,
  MAIN,
  type SettledCall,
  type ToolCalls,
  type TurnEnd,
  type TurnHost,
  type TurnLedger,
} from "./host.ts";
import { inspect, inspectPage, shortEndOf } from "./inspection.ts";
import { checkId, ofItem } from "./intake/checks.ts";
import { checkNamedThread, checkWait, readDeletion, readList } from "./intake/filters.ts";
import { Intake, resultOf } from "./intake/intake.ts";
import { internalOptions } from "./intake/output.ts";
import { checkMany, checkPublic } from "./intake/request.ts";
import { readOptions, type SubmissionsOptions } from "./options.ts";
import { Batches } from "./prompt-batches.ts";
import { isTerminal } from "./states.ts";
import type { Submission } from "./store/rows.ts";
import { type AttemptPlan, attemptPlanOf } from "./turns/attempt-plan.ts";
import { begin, type Entry } from "./turns/entries.ts";
import { afterSideEffects } from "./turns/retry.ts";
import { ToolReplay } from "./turns/tool-replay.ts";
import { Engine } from "./turns/turn-engine.ts";
import type {
  AnswerPart,
  CancelSubmissionResult,
  DeleteSubmissionsOptions,
  InternalSubmitOptions,
  ListSubmissionsOptions,
  OutputOfRef,
  OutputSchema,
  PromptEnd,
  SubmissionInspection,
  SubmissionOutput,
  SubmissionStats,
  SubmitMessagesOptions,
  SubmitMessagesResult,
  TokenUsage,
  WaitForSubmissionOptions,
} from "./types.ts";

export class Submissions extends Capability implements TurnLedger {
  readonly #host: TurnHost;
  readonly #engine: Engine;
  readonly #intake: Intake;
  /** For hosts: the batches of `step.promptAll()`. */
  readonly batches: Batches;

  /** @throws InvalidOptionError */
  constructor(
    host: TurnHost,
    outbox: Outbox,
    { clock = systemClock, onProblem, ...options }: SubmissionsOptions = {},
  ) {
    super("perdure.submissions");
    checkHook("onProblem", onProblem);
    this.#host = host;
    this.#engine = new Engine({
      host,
      outbox,
      clock,
      limits: readOptions(options),
      onProblem,
      lifecycle: () => this.lifecycle,
      cancelFor: (of) => this.cancelFor(of, "The workflow that waited for it was terminated"),
    });
    this.#intake = new Intake(this.#engine);
    this.batches = new Batches(this.#engine, {
      ready: () => this.lifecycle.ready(),
      intake: this.#intake,
      begin: (all) => this.#begin(all),
    });
  }

  override async onStart(): Promise<void> {
    await super.onStart();
    await this.#engine.start();
  }

  protected override get wake(): Wake {
    return this.#engine.wake;
  }

  /**
   * Accepts a turn. When it resolves, the turn is stored and will reach exactly one end (L1), and the app was told.
   *
   * @throws InvalidSubmissionError for arguments that cannot be stored
   * @throws SubmissionIdentityError when id and key name different submissions
   * @throws IdempotencyConflictError for a known key with different messages, with `onConflict: "throw"` (L3)
   * @throws BusyError when something runs or is in line, with `whenBusy: "reject"`
   * @throws BacklogFullError when as many wait as `maxPending` allows (L9)
   */
  async submit<Schema extends OutputSchema | undefined = undefined>(
    messages: UIMessage[],
    options: SubmitMessagesOptions<Schema> = {},
  ): Promise<SubmitMessagesResult<SubmissionOutput<Schema>>> {
    checkPublic(options);
    const result = await this.#told(await this.accept(messages, internalOptions(options)));
    return result as SubmitMessagesResult<SubmissionOutput<Schema>>;
  }

  /** For hosts and other modules of Perdure: {@link submit} with options of their own, and without waiting for the hook. */
  async accept(
    messages: UIMessage[],
    options: InternalSubmitOptions = {},
  ): Promise<SubmitMessagesResult> {
    await this.lifecycle.ready();
    const taken = this.#intake.take(messages, options);
    await this.#begin([{ taken, options }]);
    return resultOf(taken);
  }

  /**
   * Accepts many turns, all or none, in one transaction and in their order (L1, L4).
   *
   * @throws what {@link submit} throws, for the first that is refused, with its index in the message; nothing is stored then
   */
  async submitMany(
    submissions: readonly { messages: UIMessage[]; options?: SubmitMessagesOptions }[],
  ): Promise<SubmitMessagesResult[]> {
    checkMany(submissions);
    await this.lifecycle.ready();
    const all = this.#engine.store.transaction(() =>
      submissions.map(({ messages, options: given }, index) =>
        ofItem("submitMany()", index, () => {
          const options = internalOptions(given);
          return { taken: this.#intake.take(messages, options), options };
        }),
      ),
    );
    await this.#begin(all);
    return Promise.all(all.map(({ taken }) => this.#told(resultOf(taken))));
  }

  /** The submission as it is now, or null for an unknown id. */
  async inspect<Ref extends string>(
    submissionId: Ref,
  ): Promise<SubmissionInspection<OutputOfRef<Ref>> | null> {
    await this.lifecycle.ready();
    const found = this.#find(submissionId);
    return found ? (this.#inspected(found) as SubmissionInspection<OutputOfRef<Ref>>) : null;
  }

  /**
   * Tries a failed, cancelled or skipped submission again: a new one with the
   * same messages, which takes over its key. Messages that are in the conversation already move to
   * its end, without what was replied to them. The old submission keeps its end (L1).
   * Asked for again, it is the same new one (L3); failed as well, that is the one to retry.
   *
   * @returns the new submission; with `accepted: false` the one that was made before, or the old
   *   one where it is open or completed; null for an unknown id
   * @throws BacklogFullError
   */
  async retry<Ref extends string>(
    submissionId: Ref,
  ): Promise<SubmitMessagesResult<OutputOfRef<Ref>> | null> {
    await this.lifecycle.ready();
    const old = this.#find(submissionId);
    if (!old) return null;
    const taken = this.#intake.resubmit(old);
    await this.#begin([{ taken, options: {} }]);
    return (await this.#told(resultOf(taken))) as SubmitMessagesResult<OutputOfRef<Ref>>;
  }

  /** What is open, counted. Costs no more than there is open. */
  async stats(): Promise<SubmissionStats> {
    await this.lifecycle.ready();
    return this.#store.open.stats();
  }

  /** How a submission ended, a large answer as a reference (O4); null while it has not, or for an unknown id. */
  async endOf(submissionId: string): Promise<PromptEnd | null> {
    await this.lifecycle.ready();
    const found = this.#find(submissionId);
    return found && isTerminal(found.status) ? shortEndOf(found) : null;
  }

  /** Who is told of the end of a submission; undefined for an unknown one. */
  async notified(submissionId: string): Promise<readonly Destination[] | undefined> {
    await this.lifecycle.ready();
    return this.#store.find(submissionId)?.notify;
  }

  /** A part of the answer of a completed submission, from 0 on; null where there is none (O4). */
  async answerPart(submissionId: string, part: number): Promise<AnswerPart | null> {
    await this.lifecycle.ready();
    const found = this.#find(submissionId);
    return (found?.status === "completed" && found.output?.part(part)) || null;
  }

  /**
   * Submissions, newest first.
   *
   * @throws InvalidSubmissionError for what cannot be asked by
   * @throws UnknownCursorError when the submission that `before` names is not there any more
   * @throws ListScanLimitError when none of the 100,000 submissions that it reads matches, and there are older ones
   */
  async list(options: ListSubmissionsOptions = {}): Promise<SubmissionInspection[]> {
    await this.lifecycle.ready();
    const page = inspectPage(this.#records.list({ ...options, ...readList(options) }));
    const { before } = options;
    if (page.length === 0 && before !== undefined && !this.#store.find(before))
      throw new UnknownCursorError(before);
    return page;
  }

  /** Ends a submission that has not ended, and says what it did (L5), when the app's status hook has returned for it. */
  async cancel(submissionId: string, reason?: unknown): Promise<CancelSubmissionResult> {
    await this.lifecycle.ready();
    const result = await this.#cancel(submissionId, reason);
    if (result.outcome === "cancelled") await this.#engine.told(result.submissionId);
    return result;
  }

  async #cancel(id: string, reason: unknown): Promise<CancelSubmissionResult> {
    const found = this.#find(id);
    if (!found) return { outcome: "not_found", submissionId: id };
    const { submissionId } = found;
    if (isTerminal(found.status)) {
      return { outcome: "already_terminal", submissionId, submission: inspect(found) };
    }
    const { submission, hadBegun } = this.#engine.cancel(found, cancellationOf(reason));
    const isSaid = hadBegun || (found.attempts > 0 && (await this.#engine.hasLeftMessages(found)));
    return {
      outcome: "cancelled",
      submissionId,
      previousStatus: found.status,
      messagesApplied: isSaid && !isIsolated(found.thread),
      submission: inspect(submission),
    };
  }

  /** For hosts: aborts the turn that a submission runs in, where it runs. Its host reports how it ended. */
  stopTurn(submissionId: string, reason?: string): void {
    this.#engine.stopTurn(submissionId, reason);
  }

  /** Cancels what a workflow instance waits for: it is gone, and nobody wants the answers (W5). */
  async cancelFor(of: InstanceOf, reason: string): Promise<void> {
    await this.lifecycle.ready();
    for (const submissionId of this.#store.open.forWorkflow(of)) {
      await this.#cancel(submissionId, reason);
    }
    this.batches.cancelFor(of, { name: CANCELLED, message: reason });
  }

  /**
   * Resolves at the submission's end, after the app's status hook for it, or
   * with what it is when `timeoutMs` is over, or null for an unknown id. The
   * wait is in memory; after a restart of this object, ask again (L1).
   *
   * @throws Error from inside a turn or the status hook, where the wait could never end
   * @throws InvalidSubmissionError for an unknown option, or a `timeoutMs` that is no number from 0
   */
  async wait<Ref extends string>(
    submissionId: Ref,
    options: WaitForSubmissionOptions = {},
  ): Promise<SubmissionInspection<OutputOfRef<Ref>> | null> {
    checkWait(options);
    const found = await this.#wait(submissionId, options.timeoutMs, false);
    return found as SubmissionInspection<OutputOfRef<Ref>> | null;
  }

  /** For hosts: waits beside the turn that it may be called from. */
  waitBeside(submissionId: string): Promise<SubmissionInspection | null> {
    return this.#wait(submissionId, undefined, true);
  }

  async #wait(
    id: string,
    timeoutMs: number | undefined,
    isBeside: boolean,
  ): Promise<SubmissionInspection | null> {
    await this.lifecycle.ready();
    const found = this.#find(id);
    if (!found) return null;
    const { waiters } = this.#engine;
    if (isTerminal(found.status) && !waiters.isAnnouncing(found.submissionId))
      return this.#inspected(found);
    if (!isBeside) waiters.refuseToWaitForItself(this.#host.isInsideTurn());
    const ended = await waiters.wait(found.submissionId, timeoutMs);
    // With the attempts before the last one; deleted meanwhile, as it was at its end.
    return (await this.inspect(found.submissionId)) ?? ended ?? null;
  }

  /** Forgets one ended submission. Returns whether there was one. */
  async delete(submissionId: string): Promise<boolean> {
    await this.lifecycle.ready();
    const found = this.#find(submissionId);
    return found !== undefined && this.#records.deleteOne(found.submissionId);
  }

  /** Forgets ended submissions, the oldest first. Returns how many. */
  async deleteMany(options: DeleteSubmissionsOptions = {}): Promise<number> {
    await this.lifecycle.ready();
    const { ended, limit, completedBefore } = readDeletion(options);
    return ended.length === 0 ? 0 : this.#records.delete(ended, completedBefore, limit);
  }

  /** For hosts: the main conversation is reset, and all that is open in it ends. May be called before the start. */
  reset(failure: Failure): void {
    this.#engine.reset(MAIN, failure);
  }

  /** For hosts: the ledger's time, epoch milliseconds. */
  now(): number {
    return this.#engine.clock.now();
  }

  /** For hosts: how many messages of a named thread are kept. */
  get maxThreadMessages(): number {
    return this.#engine.limits.maxThreadMessages;
  }

  /** For hosts: resolves when the object has started. @throws InvalidSubmissionError for a name that no thread can have */
  async ready(thread: string = MAIN): Promise<void> {
    checkId("thread", thread);
    await this.lifecycle.ready();
  }

  /**
   * For hosts: a named thread is emptied. What runs in it is cancelled, what
   * waits in it is `skipped`, and then `empty` deletes its messages.
   *
   * @throws InvalidSubmissionError for a thread that has no name of its own
   */
  async clearThread(thread: string, empty: () => Promise<void>): Promise<void> {
    checkNamedThread(thread);
    await this.lifecycle.ready();
    const failure = { name: "ThreadClearedError", message: `The thread ${thread} was cleared.` };
    this.#engine.clear(thread, failure);
    await empty();
  }

  /** For hosts: whether a submission holds this key. */
  hasKey(idempotencyKey: string): boolean {
    return this.#store.findByKey(idempotencyKey) !== undefined;
  }

  /** For hosts: the submission that one of these messages came with, open or recent. */
  findByMessage(messageIds: ReadonlySet<string>): Submission | undefined {
    return this.#store.findByMessage(messageIds);
  }

  /** For hosts: what the latest attempt of a submission asks. */
  attemptPlanOf(submission: Submission): AttemptPlan | undefined {
    return attemptPlanOf(submission.answer, this.#store.attempts.priors(submission));
  }

  /** For hosts. @inheritDoc */
  nextStep(ref: AttemptRef, canJoin = true): UIMessage[] {
    return this.#engine.nextStep(ref, canJoin);
  }

  /** For hosts. @inheritDoc */
  part(ref: AttemptRef, messages: readonly UIMessage[]): void {
    this.#engine.part(ref, messages);
  }

  /** For hosts. @inheritDoc */
  recordUsage(ref: AttemptRef, usage: TokenUsage | undefined): void {
    this.#engine.heard(ref);
    this.#engine.spending.add(ref, usage);
  }

  /** For hosts. @inheritDoc */
  toolCalls(ref: AttemptRef, settled?: () => readonly SettledCall[]): ToolCalls {
    return new ToolReplay(this.#engine, ref, settled);
  }

  /** For hosts: whether their own recovery may continue an interrupted turn, with these calls in its conversation (L6). */
  mayContinue({ seq, retry }: Submission, settled: readonly SettledCall[]): boolean {
    if (afterSideEffects(retry) !== "fail") return true;
    return this.#store.toolCalls.missing(seq, settled).length === 0;
  }

  /** For hosts. @inheritDoc */
  heartbeat(ref: AttemptRef): void {
    this.#engine.heard(ref);
  }

  /** For hosts. @inheritDoc */
  busy(thread: string): void {
    this.#engine.heardIn(thread);
  }

  /** For hosts. @inheritDoc */
  answer(ref: AttemptRef, output: unknown): boolean {
    return this.#store.answers.record(ref, JSON.stringify(output));
  }

  /** For hosts: the turn has ended. A later end of the same attempt changes nothing (L2). */
  end({ seq, attempt }: AttemptRef, end: TurnEnd): void {
    this.#engine.end({ seq, attempts: attempt, status: "running" }, end);
  }

  /** With the attempts before the one that it is at, or was; a first one has none, which saves the look. */
  #inspected(found: Submission): SubmissionInspection {
    const hasEarlier = found.attempts > (found.status === "pending" ? 0 : 1);
    return inspect(found, hasEarlier ? this.#records.failedAttempts(found.seq) : undefined);
  }

  /**
   * Finds a submission by its id, or by the id that its host gave its turn.
   *
   * @throws InvalidSubmissionError for an id that no submission can have
   */
  #find(id: string): Submission | undefined {
    checkId("submissionId", id);
    return this.#store.find(id) ?? this.#engine.findByTurn(id);
  }

  /** The same, when the app has been told of what was accepted. */
  async #told(result: SubmitMessagesResult): Promise<SubmitMessagesResult> {
    if (result.accepted) await this.#engine.told(result.submissionId);
    return result;
  }

  get #store() {
    return this.#engine.store;
  }

  get #records() {
    return this.#engine.records;
  }

  #begin(all: readonly Entry[]): Promise<void> {
    return begin(this.#engine, this.lifecycle.events, all);
  }
}
