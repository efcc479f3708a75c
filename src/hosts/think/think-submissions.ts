/** What a Think agent offers about its submissions: Think's documented methods, answered from the ledger. */

import type { UIMessage } from "ai";
import type {
  CancelSubmissionResult,
  DeleteSubmissionsOptions,
  ListSubmissionsOptions,
  OutputOfRef,
  OutputSchema,
  SubmissionInspection,
  SubmissionOutput,
  SubmissionStats,
  SubmitMessagesOptions,
  SubmitMessagesResult,
  WaitForSubmissionOptions,
} from "../../submissions/index.ts";
import { ROOMS } from "./think-rooms.ts";
import { ThinkSchedules } from "./think-schedules.ts";
import type { ThreadMessage } from "./thread-message.ts";

export class ThinkSubmissions<
  Env extends Cloudflare.Env = Cloudflare.Env,
  State = unknown,
  Props extends Record<string, unknown> = Record<string, unknown>,
> extends ThinkSchedules<Env, State, Props> {
  /**
   * Accepts a turn durably and returns before it runs (L1), when `onSubmissionStatus()` has returned for
   * `pending`. The same idempotency key is accepted once (L3).
   *
   * @param options.output a schema: the submission ends with an `output` that matches it. Over RPC pass `jsonSchemaOf(schema)`
   * @example
   * const { submissionId } = await this.submitMessages([message], { output: z.object({ city: z.string() }) });
   * const ended = await this.waitForSubmission(submissionId);
   * if (ended?.status === "completed") console.log(ended.output.city);
   * @throws InvalidSubmissionError, SubmissionIdentityError, IdempotencyConflictError, BusyError,
   *   BacklogFullError; nothing was stored then. Over RPC an error keeps its `name` and fields, not its class
   */
  override submitMessages<
    Result extends SubmitMessagesResult<string> = SubmitMessagesResult<string>,
  >(messages: UIMessage[]): Promise<NoInfer<Result>>;
  // The compiler ignores type parameters when it compares an override with overloads. Without `Result`, an override with
  // Think's own types would not compile, because Think's result has fewer fields.
  override submitMessages<
    Schema extends OutputSchema | undefined = undefined,
    Result extends SubmitMessagesResult<SubmissionOutput<Schema>> = SubmitMessagesResult<
      SubmissionOutput<Schema>
    >,
  >(messages: UIMessage[], options?: SubmitMessagesOptions<Schema>): Promise<NoInfer<Result>>;
  override submitMessages(
    messages: UIMessage[],
    options?: SubmitMessagesOptions,
  ): Promise<SubmitMessagesResult> {
    return this[ROOMS].submissions.submit(messages, options);
  }

  /** The submission as it is now, or null for an unknown id (L7). */
  override inspectSubmission<Ref extends string>(
    submissionId: Ref,
  ): Promise<SubmissionInspection<OutputOfRef<Ref>> | null> {
    return this[ROOMS].submissions.inspect(submissionId);
  }

  /** Submissions, newest first. */
  override listSubmissions(options?: ListSubmissionsOptions): Promise<SubmissionInspection[]> {
    return this[ROOMS].submissions.list(options);
  }

  /**
   * Accepts many turns, all or none, in one transaction and in their order (L1, L4).
   *
   * @throws what `submitMessages()` throws, for the first that is refused
   */
  submitMany(
    submissions: readonly { messages: UIMessage[]; options?: SubmitMessagesOptions }[],
  ): Promise<SubmitMessagesResult[]> {
    return this[ROOMS].submissions.submitMany(submissions);
  }

  /**
   * Tries a failed, cancelled or skipped submission again, as a new one with
   * the same messages and key, which a second call for the same one returns
   * again (L3); null for an unknown id. Its messages move to the end of the conversation, and are not said twice.
   */
  retrySubmission<Ref extends string>(
    submissionId: Ref,
  ): Promise<SubmitMessagesResult<OutputOfRef<Ref>> | null> {
    return this[ROOMS].submissions.retry(submissionId);
  }

  /** How many submissions are open, and since when. */
  submissionStats(): Promise<SubmissionStats> {
    return this[ROOMS].submissions.stats();
  }

  /** Cancels a submission that has not ended, and says what that did (L5), when `onSubmissionStatus()` has returned for it. */
  override cancelSubmission(
    submissionId: string,
    reason?: unknown,
  ): Promise<CancelSubmissionResult> {
    return this[ROOMS].submissions.cancel(submissionId, reason);
  }

  /**
   * Resolves at the submission's end, or with its state when `timeoutMs` is
   * over, or null for an unknown id. After a restart of the agent, ask again.
   *
   * @throws Error from inside a turn or `onSubmissionStatus`, where it could never end
   */
  override waitForSubmission<Ref extends string>(
    submissionId: Ref,
    options?: WaitForSubmissionOptions,
  ): Promise<SubmissionInspection<OutputOfRef<Ref>> | null> {
    return this[ROOMS].submissions.wait(submissionId, options);
  }

  /** Forgets an ended submission. Returns whether there was one. */
  override deleteSubmission(submissionId: string): Promise<boolean> {
    return this[ROOMS].submissions.delete(submissionId);
  }

  /** Forgets ended submissions, the oldest first. Returns how many. */
  override deleteSubmissions(options?: DeleteSubmissionsOptions): Promise<number> {
    return this[ROOMS].submissions.deleteMany(options);
  }

  /** The messages of a thread: `"main"` is the agent's own conversation; an isolated turn leaves none. */
  async threadMessages(thread: string): Promise<ThreadMessage[]> {
    await this[ROOMS].submissions.ready(thread);
    return (await this[ROOMS].host.messages(thread)) as ThreadMessage[];
  }

  /**
   * Empties a named thread: what runs in it is cancelled, what waits is
   * `skipped`, its messages are deleted. The main conversation is emptied by `clearMessages()`.
   *
   * @throws InvalidSubmissionError for `"main"` and `"isolated"`
   */
  async clearThread(thread: string): Promise<void> {
    await this[ROOMS].submissions.clearThread(thread, () => this[ROOMS].host.clear(thread));
  }
}
