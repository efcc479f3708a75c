/**
 * Think with durable submissions: the drop-in base class. It wires the rooms
 * to the agent and answers Think's documented methods from Perdure's ledger.
 */

import { Think } from "@cloudflare/think";
import type { UIMessage } from "ai";
import { Outbox, workflowCourier } from "../../outbox/index.ts";
import {
  acceptPrompt,
  type CancelSubmissionResult,
  type DeleteSubmissionsOptions,
  expirePrompt,
  type LedgerOptions,
  type ListSubmissionsOptions,
  type PromptReceipt,
  type PromptRequest,
  type SubmissionEnd,
  type SubmissionInspection,
  type SubmissionStats,
  Submissions,
  type SubmitMessagesOptions,
  type SubmitMessagesResult,
  type WaitForSubmissionOptions,
} from "../../submissions/index.ts";
import type { ThinkHooks } from "./port.ts";
import { ThinkHost } from "./think-host.ts";

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
  readonly #submissions: Submissions;
  readonly #host: ThinkHost;

  /**
   * @param options limits and retention of the ledger; pass them on from the constructor of your class
   * @throws InvalidOptionError for an option that cannot be meant
   */
  constructor(ctx: DurableObjectState, env: Env, options?: LedgerOptions) {
    super(ctx, env);
    const outbox = new Outbox(workflowCourier(env));
    this.#host = new ThinkHost({
      agent: this as unknown as Think,
      ledger: () => this.#submissions,
      wrapHooks: () => this.#wrapHooks(),
      onStatus: async (submission) => this.onSubmissionStatus(submission),
    });
    this.#submissions = new Submissions(this.#host, outbox, options);
    this.lifecycle.use(outbox).use(this.#submissions);
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
  expirePrompt(submissionId: string, options: { cancel: boolean }): Promise<SubmissionEnd | null> {
    return expirePrompt(this.#submissions, submissionId, options);
  }

  /** Terminates a workflow, and cancels the turns that it waits for (W5). */
  override async terminateWorkflow(workflowId: string): Promise<void> {
    await super.terminateWorkflow(workflowId);
    await this.#submissions.cancelFor(workflowId, "The workflow that waited for it was terminated");
  }

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
