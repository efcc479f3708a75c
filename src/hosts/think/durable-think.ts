/**
 * Think with durable submissions: the drop-in base class. It wires the rooms
 * to the agent and answers Think's documented methods from Perdure's ledger.
 */

import { Think } from "@cloudflare/think";
import type { UIMessage } from "ai";
import type { Json } from "../../core/json.ts";
import {
  type DeadLetter,
  type DeadLetterFilter,
  type DeadLetterPage,
  type DeliveryState,
  type Endpoint,
  type ListDeadLettersOptions,
  Outbox,
  type OutboxSettings,
  type OutboxStats,
} from "../../outbox/index.ts";
import { type ScheduledRun, type ScheduledTaskInfo, Scheduler } from "../../scheduler/index.ts";
import {
  type AnswerPart,
  acceptPrompt,
  type CancelSubmissionResult,
  type DeleteSubmissionsOptions,
  expirePrompt,
  type LedgerOptions,
  type ListSubmissionsOptions,
  type PromptEnd,
  type PromptReceipt,
  type PromptRequest,
  readPrompt,
  type SubmissionInspection,
  type SubmissionStats,
  Submissions,
  type SubmitMessagesOptions,
  type SubmitMessagesResult,
  type WaitForSubmissionOptions,
} from "../../submissions/index.ts";
import type { ThinkHooks } from "./port.ts";
import { promptsTo, takeOver, tellOnError } from "./scheduled-tasks.ts";
import { ThinkHost } from "./think-host.ts";

/** Limits and retention, each with a default. */
export type DurableThinkOptions = LedgerOptions & {
  /** Of the outbox; the hook is the method `onDeadLetter()`. */
  readonly outbox?: Omit<OutboxSettings, "onDeadLetter">;
};

/**
 * A Think agent whose submitted turns survive crashes, deploys and evictions,
 * and whose workflows can wait for them with `step.prompt()` of
 * `perdure/workflow`. Extend it where you extended `Think`.
 */
export class DurableThink<
  Env extends Cloudflare.Env = Cloudflare.Env,
  State = unknown,
  Props extends Record<string, unknown> = Record<string, unknown>,
> extends Think<Env, State, Props> {
  /** Events of the agent's own: `this.outbox.put(webhook(...), event)` inside any transaction (O1). */
  readonly outbox: Outbox;
  readonly #submissions: Submissions;
  readonly #scheduler: Scheduler;
  readonly #host: ThinkHost;

  /**
   * @param options limits and retention; pass them on from the constructor of your class
   * @throws InvalidOptionError for an option that cannot be meant
   */
  constructor(ctx: DurableObjectState, env: Env, { outbox, ...options }: DurableThinkOptions = {}) {
    super(ctx, env);
    this.outbox = new Outbox({
      ...outbox,
      host: this,
      env,
      onDeadLetter: (letter) => this.onDeadLetter(letter),
    });
    this.#host = new ThinkHost({
      agent: this as unknown as Think,
      ledger: () => this.#submissions,
      wrapHooks: () => this.#wrapHooks(),
      onStatus: async (submission) => this.onSubmissionStatus(submission),
    });
    this.#submissions = new Submissions(this.#host, this.outbox, options);
    this.#scheduler = new Scheduler({
      tasks: takeOver(this, () => this.#scheduler.reconcile()),
      defaultTimezone: () => this.getDefaultTimezone(),
      scope: () => this.getScheduledTasksScope(),
      prompts: promptsTo(this.#submissions),
      onFailure: (error) => tellOnError(this, error),
    });
    this.lifecycle.use(this.outbox).use(this.#submissions).use(this.#scheduler);
  }

  /**
   * Accepts a turn durably and returns before it runs (L1). The same
   * idempotency key is accepted once (L3).
   *
   * @throws InvalidSubmissionError, SubmissionIdentityError, IdempotencyConflictError, BusyError,
   *   BacklogFullError; nothing was stored then. Over RPC an error keeps its `name` and fields, not its class
   */
  override submitMessages(
    messages: UIMessage[],
    options?: SubmitMessagesOptions,
  ): Promise<SubmitMessagesResult> {
    return this.#submissions.submit(messages, options);
  }

  /** The submission as it is now, or null for an unknown id (L7). */
  override inspectSubmission(submissionId: string): Promise<SubmissionInspection | null> {
    return this.#submissions.inspect(submissionId);
  }

  /** Submissions, newest first. */
  override listSubmissions(options?: ListSubmissionsOptions): Promise<SubmissionInspection[]> {
    return this.#submissions.list(options);
  }

  /**
   * Accepts many turns, all or none, in one transaction and in their order (L1, L4).
   *
   * @throws what `submitMessages()` throws, for the first that is refused
   */
  submitMany(
    submissions: readonly { messages: UIMessage[]; options?: SubmitMessagesOptions }[],
  ): Promise<SubmitMessagesResult[]> {
    return this.#submissions.submitMany(submissions);
  }

  /**
   * Tries a failed, cancelled or skipped submission again, as a new one with
   * the same messages and key, which a second call for the same one returns
   * again (L3); null for an unknown id.
   */
  retrySubmission(submissionId: string): Promise<SubmitMessagesResult | null> {
    return this.#submissions.retry(submissionId);
  }

  /** How many submissions are open, and since when. */
  submissionStats(): Promise<SubmissionStats> {
    return this.#submissions.stats();
  }

  /** Cancels a submission that has not ended, and says what that did (L5). */
  override cancelSubmission(
    submissionId: string,
    reason?: unknown,
  ): Promise<CancelSubmissionResult> {
    return this.#submissions.cancel(submissionId, reason);
  }

  /**
   * Resolves at the submission's end, or with its state when `timeoutMs` is
   * over, or null for an unknown id. After a restart of the agent, ask again.
   *
   * @throws Error from inside a turn or `onSubmissionStatus`, where it could never end
   */
  override waitForSubmission(
    submissionId: string,
    options?: WaitForSubmissionOptions,
  ): Promise<SubmissionInspection | null> {
    return this.#submissions.wait(submissionId, options);
  }

  /** Forgets an ended submission. Returns whether there was one. */
  override deleteSubmission(submissionId: string): Promise<boolean> {
    return this.#submissions.delete(submissionId);
  }

  /** Forgets ended submissions, the oldest first. Returns how many. */
  override deleteSubmissions(options?: DeleteSubmissionsOptions): Promise<number> {
    return this.#submissions.deleteMany(options);
  }

  /** The messages of a thread: `"main"` is the agent's own conversation; an isolated turn leaves none. */
  async threadMessages(thread: string): Promise<UIMessage[]> {
    await this.#submissions.ready();
    return this.#host.messages(thread);
  }

  /**
   * Empties a named thread: what runs in it is cancelled, what waits is
   * `skipped`, its messages are deleted. The main conversation is emptied by `clearMessages()`.
   *
   * @throws InvalidSubmissionError for `"main"` and `"isolated"`
   */
  async clearThread(thread: string): Promise<void> {
    await this.#submissions.clearThread(thread, () => this.#host.clear(thread));
  }

  /** For `step.prompt()`: accepts a prompt, or finds the one accepted before (W1). */
  acceptPrompt(request: PromptRequest): Promise<PromptReceipt> {
    return acceptPrompt(this.#submissions, request);
  }

  /** For `step.prompt()`: the end of a prompt whose time is over, if it has one (W2). */
  expirePrompt(submissionId: string, options: { cancel: boolean }): Promise<PromptEnd | null> {
    return expirePrompt(this.#submissions, submissionId, options);
  }

  /** For `step.prompt()`: a part of an answer that was told by a reference, or null where there is none (O4). */
  readPrompt(submissionId: string, part: number): Promise<AnswerPart | null> {
    return readPrompt(this.#submissions, submissionId, part);
  }

  /** Terminates a workflow, and cancels the turns that it waits for (W5). */
  override async terminateWorkflow(workflowId: string): Promise<void> {
    await super.terminateWorkflow(workflowId);
    await this.#submissions.cancelFor(workflowId, "The workflow that waited for it was terminated");
  }

  /** Deliveries that were given up, newest first (O3). */
  listDeadLetters(options?: ListDeadLettersOptions): Promise<DeadLetterPage> {
    return this.outbox.listDeadLetters(options);
  }

  /** How many deliveries were given up. */
  countDeadLetters(filter?: DeadLetterFilter): Promise<number> {
    return this.outbox.countDeadLetters(filter);
  }

  /** Tries a delivery that was given up again. Returns whether there was one. */
  redriveDeadLetter(id: string): Promise<boolean> {
    return this.outbox.redrive(id);
  }

  /** Tries deliveries that were given up again: since a time, for a destination, or all. Returns how many. */
  redriveDeadLetters(filter: DeadLetterFilter): Promise<number> {
    return this.outbox.redriveAll(filter);
  }

  /** Forgets a delivery that was given up for good. Returns whether there was one. */
  deleteDeadLetter(id: string): Promise<boolean> {
    return this.outbox.deleteDeadLetter(id);
  }

  /** Forgets deliveries that were given up before a time for good. Returns how many. */
  deleteDeadLetters(options: { before: Date }): Promise<number> {
    return this.outbox.deleteDeadLetters(options);
  }

  /** The state of a webhook's URL. */
  inspectEndpoint(url: string): Promise<Endpoint> {
    return this.outbox.inspectEndpoint(url);
  }

  /** The URLs of webhooks that are not healthy. */
  listEndpoints(): Promise<Endpoint[]> {
    return this.outbox.listEndpoints();
  }

  /** Sends to a webhook's URL again, beginning with what was given up meanwhile. Returns how many those are. */
  enableEndpoint(url: string): Promise<number> {
    return this.outbox.enableEndpoint(url);
  }

  /** Sends nothing more to a webhook's URL, until it is enabled. */
  disableEndpoint(url: string, reason?: string): Promise<void> {
    return this.outbox.disableEndpoint(url, reason);
  }

  /** The whole event of a delivery that came as a reference (O4); null for an unknown id. */
  readDelivery(id: string): Promise<Json> {
    return this.outbox.read(id);
  }

  /** Where a delivery is; null for an unknown id, or one that was delivered and is not kept. */
  inspectDelivery(id: string): Promise<DeliveryState | null> {
    return this.outbox.inspect(id);
  }

  /** How many deliveries wait, and how many were given up. */
  outboxStats(): Promise<OutboxStats> {
    return this.outbox.stats();
  }

  /** Reads `getScheduledTasks()` again, after what it reads has changed (S4). It happens by itself at each start. */
  override internal_reconcileScheduledTasks(): Promise<void> {
    return this.#scheduler.reconcile();
  }

  /** The declared tasks: when they run next, how their runs ended, what is wrong with them (S4, S5). */
  listScheduledTasks(options?: { occurrences?: number }): Promise<ScheduledTaskInfo[]> {
    return this.#scheduler.list(options);
  }

  /** One task, or null for an id that is not declared (S5). */
  inspectScheduledTask(
    taskId: string,
    options?: { occurrences?: number },
  ): Promise<ScheduledTaskInfo | null> {
    return this.#scheduler.inspect(taskId, options);
  }

  /** Runs of a task, newest first (S5). */
  listScheduledRuns(
    taskId: string,
    options?: { limit?: number; before?: Date },
  ): Promise<ScheduledRun[]> {
    return this.#scheduler.runs(taskId, options);
  }

  /** Keeps a task from firing until it is resumed; the note says why (S5). */
  pauseScheduledTask(taskId: string, note?: string): Promise<void> {
    return this.#scheduler.pause(taskId, note);
  }

  /** Goes on with a paused task at its first occurrence after now (S5). */
  resumeScheduledTask(taskId: string): Promise<void> {
    return this.#scheduler.resume(taskId);
  }

  /** Runs a task now, also while it is paused; the same key again is the same run (S5). */
  triggerScheduledTask(taskId: string, options?: { key?: string }): Promise<ScheduledRun> {
    return this.#scheduler.trigger(taskId, options);
  }

  /** Runs the occurrences of a time that has passed, but for those that have run (S5). */
  backfillScheduledTask(
    taskId: string,
    range: { from: Date; to: Date },
  ): Promise<{ queued: number; alreadyRun: number }> {
    return this.#scheduler.backfill(taskId, range);
  }

  /** Leaves out the next occurrence of a task, and returns when it would have been (S5). */
  skipNextScheduledRun(taskId: string): Promise<Date | null> {
    return this.#scheduler.skipNext(taskId);
  }

  /**
   * Called at least once for each delivery that was given up; what it throws
   * is logged, and changes nothing (O3). Override it.
   */
  protected onDeadLetter(_letter: DeadLetter): void | Promise<void> {}

  /**
   * Called after each change of a submission's status, in their order; what it
   * throws is logged, and changes nothing. Override it.
   */
  protected override onSubmissionStatus(_submission: SubmissionInspection): void | Promise<void> {}

  protected override resetTurnState(): void {
    super.resetTurnState();
    this.#submissions.skipPending({
      name: "TurnResetError",
      message: "Submission was skipped by turn reset.",
    });
  }

  #wrapHooks(): void {
    const app: ThinkHooks = {
      beforeTurn: this.beforeTurn.bind(this),
      beforeStep: this.beforeStep.bind(this),
      beforeToolCall: this.beforeToolCall.bind(this),
      afterToolCall: this.afterToolCall.bind(this),
      onStepEnd: this.onStepEnd.bind(this),
      onChunk: this.onChunk.bind(this),
      onChatResponse: this.onChatResponse.bind(this),
      classifyChatError: this.classifyChatError.bind(this),
      onChatRecovery: this.onChatRecovery.bind(this),
      chatRecovery: this.chatRecovery,
    };
    Object.assign(this, this.#host.wrap(app));
  }
}
