/** What a Think agent offers about its submissions: Think's documented methods, answered from the ledger. */

import type { UIMessage } from "ai";
import {
  type CancelSubmissionResult,
  type DeleteSubmissionsOptions,
  InvalidSubmissionError,
  type ListSubmissionsOptions,
  type OutputOfRef,
  type OutputSchema,
  type SubmissionInspection,
  type SubmissionOutput,
  type SubmissionStats,
  type SubmitMessagesOptions,
  type SubmitMessagesResult,
  type WaitForSubmissionOptions,
} from "../../submissions/index.ts";
import { CAPABILITIES } from "./think-rooms.ts";
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
  override async submitMessages(
    messages: UIMessage[],
    options: SubmitMessagesOptions = {},
  ): Promise<SubmitMessagesResult> {
    const { submissions, think } = this[CAPABILITIES];
    if (think.isThinkPrompt(options)) return think.submit(messages, options);
    const known = await think.find(options);
    return known ? { ...known, accepted: false } : submissions.submit(messages, options);
  }

  /** The submission as it is now, or null for an unknown id (L7). */
  override async inspectSubmission<Ref extends string>(
    submissionId: Ref,
  ): Promise<SubmissionInspection<OutputOfRef<Ref>> | null> {
    const { submissions, think } = this[CAPABILITIES];
    // Think's are texts, and no id of theirs says another type.
    const found = (await submissions.inspect(submissionId)) ?? (await think.inspect(submissionId));
    return found as SubmissionInspection<OutputOfRef<Ref>> | null;
  }

  /** Submissions, newest first; behind them up to 100 of each status that Think itself has accepted. */
  override async listSubmissions(
    options: ListSubmissionsOptions = {},
  ): Promise<SubmissionInspection[]> {
    const { submissions, think } = this[CAPABILITIES];
    const { before, limit = 100 } = options ?? {};
    if (before !== undefined && (await think.inspect(before))) return think.list(options);
    const page = await submissions.list(options);
    if (page.length >= limit || (await think.isEmpty())) return page;
    // A page can be short for its size.
    const last = page.at(-1)?.submissionId;
    const rest = last ? await submissions.list({ ...options, before: last, limit: 1 }) : [];
    if (rest.length > 0) return page;
    const { before: _, ...others } = options;
    return [...page, ...(await think.list({ ...others, limit: limit - page.length }))];
  }

  /**
   * Accepts many turns, all or none, in one transaction and in their order (L1, L4).
   *
   * @throws what `submitMessages()` throws, for the first that is refused
   */
  async submitMany(
    submissions: readonly { messages: UIMessage[]; options?: SubmitMessagesOptions }[],
  ): Promise<SubmitMessagesResult[]> {
    const { submissions: ledger, think } = this[CAPABILITIES];
    const isList = Array.isArray(submissions);
    if (!isList || (await think.isEmpty())) return ledger.submitMany(submissions);
    const known = await Promise.all(submissions.map((each) => think.find(each?.options ?? null)));
    const unknown = submissions.filter((_, index) => !known[index]);
    const accepted = unknown.length > 0 ? await ledger.submitMany(unknown) : [];
    return known.map((found) =>
      found ? { ...found, accepted: false } : (accepted.shift() as SubmitMessagesResult),
    );
  }

  /**
   * Tries a failed, cancelled or skipped submission again, as a new one with
   * the same messages and key, which a second call for the same one returns
   * again (L3); null for an unknown id. Its messages move to the end of the conversation, and are not said twice.
   */
  async retrySubmission<Ref extends string>(
    submissionId: Ref,
  ): Promise<SubmitMessagesResult<OutputOfRef<Ref>> | null> {
    const { submissions, think } = this[CAPABILITIES];
    const again = await submissions.retry(submissionId);
    if (again || !(await think.inspect(submissionId))) return again;
    throw new InvalidSubmissionError(
      "submissionId",
      `Submission ${JSON.stringify(submissionId)} was accepted by Think, before this agent extended DurableThink. ` +
        "Its messages cannot be read. Submit them again, with another key.",
    );
  }

  /** How many submissions are open, and since when. */
  async submissionStats(): Promise<SubmissionStats> {
    const { submissions, think } = this[CAPABILITIES];
    const [ours, thinks] = [await submissions.stats(), await think.stats()];
    const since = Math.min(
      ...[ours, thinks].map(({ oldestPendingAt = Infinity }) => oldestPendingAt),
    );
    return {
      pending: ours.pending + thinks.pending,
      running: ours.running + thinks.running,
      ...(since !== Infinity && { oldestPendingAt: since }),
    };
  }

  /** Cancels a submission that has not ended, and says what that did (L5), when `onSubmissionStatus()` has returned for it. */
  override async cancelSubmission(
    submissionId: string,
    reason?: unknown,
  ): Promise<CancelSubmissionResult> {
    const { submissions, think } = this[CAPABILITIES];
    const result = await submissions.cancel(submissionId, reason);
    return result.outcome === "not_found" ? think.cancel(submissionId, reason) : result;
  }

  /**
   * Resolves at the submission's end, or with its state when `timeoutMs` is
   * over, or null for an unknown id. After a restart of the agent, ask again.
   *
   * @throws Error from inside a turn or `onSubmissionStatus`, where it could never end
   */
  override async waitForSubmission<Ref extends string>(
    submissionId: Ref,
    options: WaitForSubmissionOptions = {},
  ): Promise<SubmissionInspection<OutputOfRef<Ref>> | null> {
    const { submissions, think } = this[CAPABILITIES];
    const found =
      (await submissions.wait(submissionId, options)) ?? (await think.wait(submissionId, options));
    return found as SubmissionInspection<OutputOfRef<Ref>> | null;
  }

  /** Forgets an ended submission. Returns whether there was one. */
  override async deleteSubmission(submissionId: string): Promise<boolean> {
    const { submissions, think } = this[CAPABILITIES];
    return (await submissions.delete(submissionId)) || think.delete(submissionId);
  }

  /** Forgets ended submissions, the oldest first; those that Think itself has accepted last. Returns how many. */
  override async deleteSubmissions(options: DeleteSubmissionsOptions = {}): Promise<number> {
    const { submissions, think } = this[CAPABILITIES];
    const count = await submissions.deleteMany(options);
    const left = (options?.limit ?? 100) - count;
    return left > 0 ? count + (await think.deleteMany({ ...options, limit: left })) : count;
  }

  /** The messages of a thread: `"main"` is the agent's own conversation; an isolated turn leaves none. */
  async threadMessages(thread: string): Promise<ThreadMessage[]> {
    await this[CAPABILITIES].submissions.ready(thread);
    return (await this[CAPABILITIES].host.messages(thread)) as ThreadMessage[];
  }

  /**
   * Empties a named thread: what runs in it is cancelled, what waits is
   * `skipped`, its messages are deleted. The main conversation is emptied by `clearMessages()`.
   *
   * @throws InvalidSubmissionError for `"main"` and `"isolated"`
   */
  async clearThread(thread: string): Promise<void> {
    await this[CAPABILITIES].submissions.clearThread(thread, () =>
      this[CAPABILITIES].host.clear(thread),
    );
  }
}
