/** The public verbs of the ledger. `turns` has what hosts call while turns run; the store writes. */

import type { UIMessage } from "ai";
import { systemClock } from "../core/clock.ts";
import type { Failure } from "../core/failures.ts";
import { hook, readOptions } from "../core/options/option-schemas.ts";
import { inSpan } from "../core/spans.ts";
import { Capability } from "../engine/work-loop.ts";
import type { InstanceOf } from "../outbox/destinations/workflow-event.ts";
import type { Outbox } from "../outbox/outbox.ts";
import { cancellationOf, UnknownCursorError } from "./errors.ts";
import type { TurnHost } from "./host.ts";
import { inspect, inspectPage } from "./inspection.ts";
import { type Asked, resultOf, type Taken, take } from "./intake/intake.ts";
import {
  checkId,
  checkItems,
  checkNamedThread,
  checkWait,
  limitsOf,
  ofItem,
  readDeletion,
  readInternal,
  readList,
} from "./intake/request.ts";
import type { Limiter } from "./limiter.ts";
import { type Limits, readLimits, type SubmissionsOptions } from "./options.ts";
import { isTerminal } from "./states.ts";
import { Statuses } from "./statuses.ts";
import type { Submission } from "./store/rows.ts";
import { SubmissionStore } from "./store/store.ts";
import type {
  OutputSchema,
  OwnerOptions,
  SubmitItem,
  SubmitMessagesOptions,
} from "./submit-options.ts";
import { isIsolated, MAIN, publicThreadOf } from "./threads.ts";
import { type IntakeResult, TURN_RESET, TurnEngine } from "./turns/turn-engine.ts";
import type {
  CancelSubmissionResult,
  DeleteSubmissionsOptions,
  ListSubmissionsOptions,
  OutputOfRef,
  SubmissionInspection,
  SubmissionOutput,
  SubmissionStats,
  SubmitMessagesResult,
  WaitForSubmissionOptions,
} from "./types.ts";

const ON_PROBLEM = hook().optional();

export class Submissions extends Capability {
  readonly limits: Limits;
  /** Completed by the kernel of the object, before any call. */
  readonly limiter = {} as Limiter;
  readonly statuses: Statuses;
  #turns: TurnEngine | undefined;

  /** @throws InvalidOptionError */
  constructor(
    readonly host: TurnHost,
    readonly outbox: Outbox,
    { clock = systemClock, onProblem, ...options }: SubmissionsOptions = {},
  ) {
    super("perdure.submissions", clock, () => this.turns.watch());
    readOptions(ON_PROBLEM, onProblem, "onProblem");
    this.limits = readLimits(options);
    this.statuses = new Statuses(this.loop, host, this.limiter, this.limits, onProblem);
  }

  /** For hosts, and for the waits. Made at the first use: the object's storage is there once the capability is installed. */
  get turns(): TurnEngine {
    this.#turns ??= new TurnEngine(
      new SubmissionStore(this.lifecycle.storage, this.limits),
      this.loop,
      this.host,
      this.outbox,
      this.limits,
      this.statuses,
      this.limiter,
    );
    return this.#turns;
  }

  get store(): SubmissionStore {
    return this.turns.store;
  }

  override async onStart(): Promise<void> {
    await super.onStart();
    await this.turns.start();
  }

  protected override drive(): Promise<number | null> {
    return this.turns.drive();
  }

  /**
   * Accepts a turn. When it resolves, the turn is stored and reaches exactly one end, and the status hook has returned.
   * @throws InvalidSubmissionError, SubmissionIdentityError, IdempotencyConflictError, BusyError, BacklogFullError
   */
  async submit<Schema extends OutputSchema | undefined = undefined>(
    messages: UIMessage[],
    options: SubmitMessagesOptions<Schema> = {},
  ): Promise<SubmitMessagesResult<SubmissionOutput<Schema>>> {
    const [result] = await this.submitAll([{ messages, options }]);
    await this.#whenNotified(result as SubmitMessagesResult);
    return result as SubmitMessagesResult<SubmissionOutput<Schema>>;
  }

  /** Accepts many turns in their order, all or none. An error names the index of the first that is refused. */
  async submitMany(submissions: readonly SubmitItem[]): Promise<SubmitMessagesResult[]> {
    const all = await this.submitAll(submissions, { verb: "submitMany()" });
    await Promise.all(all.map((result) => this.#whenNotified(result)));
    return all;
  }

  /**
   * {@link submit} and {@link submitMany}, without waiting for the hook. Checks its arguments.
   *
   * @param how.verb names the items in errors
   * @param how.commit writes with the submissions, in their transaction
   */
  async submitAll(
    items: readonly SubmitItem[],
    {
      verb,
      commit,
    }: {
      readonly verb?: string | undefined;
      readonly commit?: ((results: SubmitMessagesResult[]) => void) | undefined;
    } = {},
  ): Promise<SubmitMessagesResult[]> {
    checkItems(items, verb);
    const resultsOf = (all: Taken[]) => all.map((taken) => resultOf(taken as IntakeResult));
    const write = commit && ((all: Taken[]) => commit(resultsOf(all)));
    return resultsOf(await this.accept(items, write, verb));
  }

  /**
   * The one way into the ledger: accepts items in their order, all or none, in a span of the platform, and runs them.
   *
   * @param commit writes with the submissions, in their transaction
   * @param verb names the items in errors
   * @returns for each item undefined where the submission that has ended is unknown, or has no repair left
   */
  async accept(
    items: readonly Asked[],
    commit?: (all: Taken[]) => void,
    verb?: string,
  ): Promise<Taken[]> {
    await this.lifecycle.ready();
    await this.wake.reach();
    const find = (id: string) => this.#find(id);
    const many = items.length > 1 ? { "perdure.submissions": items.length } : {};
    return inSpan("perdure.submit", many, async (span) => {
      const work = () => {
        const all = items.map((item, at) => ofItem(verb, at, () => take(this, item, find)));
        commit?.(all);
        return all;
      };
      const isOne = items.length === 1 && !commit;
      const all = isOne ? work() : this.store.transaction(work);
      const taken = all.filter((one) => one !== undefined);
      const [first] = taken;
      if (items.length === 1 && first) {
        span.set({
          "perdure.submission.id": first.submission.submissionId,
          "perdure.thread": publicThreadOf(first.submission.thread),
          "perdure.submission.accepted": first.accepted,
        });
      }
      await this.turns.onAccepted(taken);
      return all;
    });
  }

  /**
   * Checks options of later submissions.
   *
   * @throws InvalidSubmissionError, FeatureNotInstalledError
   */
  checkOwner(owner: OwnerOptions): void {
    limitsOf(this.limiter, readInternal(owner));
  }

  /** Submissions that another ledger of the host has. */
  listElsewhere?(options: ListSubmissionsOptions): Promise<SubmissionInspection[]>;

  /** The submission as it is now, or null for an unknown id. */
  async inspect<Ref extends string>(
    submissionId: Ref,
  ): Promise<SubmissionInspection<OutputOfRef<Ref>> | null> {
    await this.lifecycle.ready();
    const found = this.#find(submissionId);
    return found ? (this.#inspected(found) as SubmissionInspection<OutputOfRef<Ref>>) : null;
  }

  /**
   * Submits a failed, cancelled or skipped submission again: as a new one with the same messages, which takes over its key.
   * @returns the new submission; with `accepted: false` the one that was made before, or the old one where it is open or
   *   completed; null for an unknown id
   * @throws BacklogFullError
   */
  async retry<Ref extends string>(
    submissionId: Ref,
  ): Promise<SubmitMessagesResult<OutputOfRef<Ref>> | null> {
    const [taken] = await this.accept([{ submissionId }]);
    if (!taken) return null;
    const result = resultOf(taken);
    await this.#whenNotified(result);
    return result as SubmitMessagesResult<OutputOfRef<Ref>>;
  }

  async stats(): Promise<SubmissionStats> {
    await this.lifecycle.ready();
    return this.store.open.stats();
  }

  /** Submissions, newest first. @throws InvalidSubmissionError, UnknownCursorError, ListScanLimitError */
  async list(options: ListSubmissionsOptions = {}): Promise<SubmissionInspection[]> {
    await this.lifecycle.ready();
    const page = inspectPage(this.store.history.list(readList(options)));
    const { before } = options;
    if (page.length > 0 || before === undefined || this.store.find(before)) return page;
    throw new UnknownCursorError(before);
  }

  /** Cancels an open submission. Resolves when the status hook has returned for it. */
  async cancel(submissionId: string, reason?: unknown): Promise<CancelSubmissionResult> {
    await this.lifecycle.ready();
    const result = await this.#cancel(submissionId, reason);
    if (result.outcome === "cancelled") await this.statuses.hooks.whenNotified(result.submissionId);
    return result;
  }

  async #cancel(id: string, reason: unknown): Promise<CancelSubmissionResult> {
    const found = this.#find(id);
    if (!found) return { outcome: "not_found", submissionId: id };
    const { submissionId } = found;
    if (isTerminal(found.status)) {
      return { outcome: "already_terminal", submissionId, submission: inspect(found) };
    }
    const { submission, hadBegun } = this.turns.cancel(found, cancellationOf(reason));
    const isSaid = hadBegun || (await this.#hasLeftMessages(found));
    return {
      outcome: "cancelled",
      submissionId,
      previousStatus: found.status,
      messagesApplied: isSaid && !isIsolated(found.thread),
      submission: inspect(submission),
    };
  }

  /** Whether any of its messages are in the conversation, or may be: where the host cannot tell. */
  async #hasLeftMessages(submission: Submission): Promise<boolean> {
    if (submission.attempts === 0) return false;
    try {
      return (await this.host.inspectConversation(submission)).applied !== "none";
    } catch (error) {
      console.error("[perdure] a cancelled turn's conversation could not be read:", error);
      return true;
    }
  }

  /** Cancels everything that a workflow instance waits for. */
  async cancelFor(of: InstanceOf, reason: string): Promise<void> {
    await this.lifecycle.ready();
    this.turns.cancelFor(of, reason);
  }

  /**
   * Resolves at the submission's end, after the app's status hook; with its state after `timeoutMs`; with null if unknown.
   *
   * @throws Error from inside a turn or the status hook, where the wait could never end
   */
  async wait<Ref extends string>(
    submissionId: Ref,
    options: WaitForSubmissionOptions = {},
  ): Promise<SubmissionInspection<OutputOfRef<Ref>> | null> {
    checkWait(options);
    await this.lifecycle.ready();
    const found = this.#find(submissionId);
    if (!found) return null;
    type Ended = SubmissionInspection<OutputOfRef<Ref>>;
    const { hooks } = this.statuses;
    if (isTerminal(found.status) && !hooks.isAnnouncing(found.submissionId))
      return this.#inspected(found) as Ended;
    hooks.checkMayWait(this.host.isInsideTurn());
    const ended = await hooks.wait(found.submissionId, options.timeoutMs);
    // The row has the failed attempts. If it was deleted meanwhile, the end is returned without them.
    return ((await this.inspect(found.submissionId)) ?? ended ?? null) as Ended | null;
  }

  /** Deletes an ended submission. Returns whether it did. */
  async delete(submissionId: string): Promise<boolean> {
    await this.lifecycle.ready();
    const found = this.#find(submissionId);
    return found !== undefined && this.store.history.deleteOne(found.submissionId);
  }

  /** Deletes ended submissions, the oldest first. Returns how many. */
  async deleteMany(options: DeleteSubmissionsOptions = {}): Promise<number> {
    await this.lifecycle.ready();
    const { ended, limit, completedBefore } = readDeletion(options);
    return ended.length === 0 ? 0 : this.store.history.delete(ended, completedBefore, limit);
  }

  /** For hosts: clears a named thread. Its running turn is cancelled, pending ones are `skipped`, then `empty` deletes messages. */
  async clearThread(thread: string, empty: () => Promise<void>): Promise<void> {
    checkNamedThread(thread);
    const message = `The thread ${thread} was cleared.`;
    await this.#clear(thread, { name: "ThreadClearedError", message }, empty);
  }

  /** For hosts that keep the main conversation as a thread: clears that conversation. */
  clearMain(empty: () => Promise<void>): Promise<void> {
    return this.#clear(MAIN, TURN_RESET, empty);
  }

  async #clear(thread: string, failure: Failure, empty: () => Promise<void>): Promise<void> {
    await this.lifecycle.ready();
    this.turns.clear(thread, failure);
    await empty();
  }

  #inspected(found: Submission): SubmissionInspection {
    const hasEarlier = found.attempts > (found.status === "pending" ? 0 : 1);
    return inspect(found, hasEarlier ? this.store.attempts.failed(found.seq) : undefined);
  }

  /** Finds a submission by its id, or by the id that its host gave its turn. */
  #find(id: string): Submission | undefined {
    checkId("submissionId", id);
    const found = this.store.find(id);
    if (found) return found;
    const ofTurn = this.host.submissionOf(id) ?? this.store.history.ofTurn(id);
    return ofTurn === undefined ? undefined : this.store.find(ofTurn);
  }

  /** Waits until the status hook has returned for what was accepted. */
  async #whenNotified({ accepted, submissionId }: SubmitMessagesResult): Promise<void> {
    if (accepted) await this.statuses.hooks.whenNotified(submissionId);
  }
}
