/** The host for agents built on `@cloudflare/think`: the drop-in base class. */

import { type ActiveTurn, type ReplyAttachment, Think } from "@cloudflare/think";
import type { UIMessage } from "ai";
import type { HostOptions, RunWorkflow } from "../../kernel/index.ts";
import { notOverridden } from "../../kernel/index.ts";
import type {
  CancelSubmissionResult,
  DeleteSubmissionsOptions,
  ListSubmissionsOptions,
  OutputOfRef,
  OutputSchema,
  SubmissionInspection,
  SubmitMessagesOptions,
  Submitted,
  WaitForSubmissionOptions,
} from "../../kernel/submissions/index.ts";
import { checkId } from "../../kernel/submissions/internal.ts";
import { AgentHooks, durableBase } from "../agent/agent-hooks.ts";
import { agentKernel } from "../agent/agent-kernel.ts";
import { CAPABILITIES } from "../verbs.ts";
import type { HookedThink } from "./hooks.ts";
import { withSchedules } from "./scheduled-tasks.ts";
import { ThinkHost } from "./think-host.ts";
import { ThinkPromptKind } from "./think-submissions.ts";

/** Limits and retention, each with a default. */
export type DurableThinkOptions = HostOptions;

/**
 * A Think agent whose submitted turns survive crashes, deploys and evictions, and whose workflows can wait for them with
 * `step.prompt()` and `step.promptAll()` of `perdure/workflow`. Extend it where you extended `Think`.
 */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: durableBase() copies the methods to the prototype.
export class DurableThink<
  Env extends Cloudflare.Env = Cloudflare.Env,
  State = unknown,
  Props extends Record<string, unknown> = Record<string, unknown>,
> extends durableBase(Think, AgentHooks)<Env, State, Props> {
  readonly #host: ThinkHost;

  /**
   * @param options limits and retention; pass them on from the constructor of your class
   * @throws InvalidOptionError for an invalid option
   */
  constructor(ctx: DurableObjectState, env: Env, options: DurableThinkOptions = {}) {
    const isBuiltIn = notOverridden(new.target, DurableThink);
    super(ctx, env);
    const agent = this as unknown as HookedThink;
    const kernel = agentKernel(
      this,
      {
        name: "DurableThink",
        features: withSchedules(new.target.features, agent),
        own: Think.prototype,
        isBuiltIn,
        turns: (parts) => new ThinkHost(parts, agent),
      },
      options,
    );
    kernel.waits.install("prompt", new ThinkPromptKind(kernel.threads.submissions));
    this.#host = kernel.threads;
  }

  /** Sends a message to all connected clients. Followers of submissions get the replies that Think sends. */
  override broadcast(...args: Parameters<Think<Env, State, Props>["broadcast"]>): void {
    // Think may broadcast before the end of its constructor.
    if (#host in this) this.#host.frames.take(args[0]);
    super.broadcast(...args);
  }

  /**
   * Called after each change of a submission's status, in the order of that submission's changes. `submitMessages()`,
   * the turn and `cancelSubmission()` wait for it, at most `statusHookTimeout`. What it throws is logged and changes
   * nothing. Do not wait for a turn in it. Override it.
   */
  protected override onSubmissionStatus(_submission: SubmissionInspection): void | Promise<void> {}

  /** The turn that the caller runs in. A submission's turn has the submission's `requestId`, and the trigger `"submission"`. */
  override get activeTurn(): ActiveTurn | undefined {
    return this.#host.activeTurn();
  }

  /** Aborts a turn, by the `requestId` of a submission or by Think's own id. @throws InvalidSubmissionError for an invalid id */
  override cancelChat(requestId: string, reason?: string): void {
    checkId("requestId", requestId);
    super.cancelChat(requestId, reason);
    this[CAPABILITIES].submissions.turns.stopTurn(requestId, reason);
  }

  /** The same, for subclasses. */
  protected override abortRequest(requestId: string, reason?: unknown): void {
    super.abortRequest(requestId, reason);
    const text = reason === undefined ? reason : String(reason);
    this[CAPABILITIES].submissions.turns.stopTurn(requestId, text);
  }

  /** The attachments of a turn's reply, by the same ids; of the latest turn by default. @throws as {@link cancelChat} */
  override replyAttachments(requestId?: string): ReplyAttachment[] {
    if (requestId !== undefined) checkId("requestId", requestId);
    const turn = requestId === undefined ? undefined : this.#host.ids.turnOf(requestId);
    return super.replyAttachments(turn ?? requestId);
  }

  /** Deletes the agent's own conversation, and ends its running and pending turns, also those that a crash has interrupted. */
  override async clearMessages(): Promise<void> {
    this.resetTurnState();
    await this.#host.recovery.caughtUp();
    await super.clearMessages();
  }

  protected override resetTurnState(): void {
    super.resetTurnState();
    this.#host.recovery.reset();
  }
}

/** All verbs. Those are repeated here whose types in `Think` differ. */
export interface DurableThink<
  Env extends Cloudflare.Env = Cloudflare.Env,
  State = unknown,
  Props extends Record<string, unknown> = Record<string, unknown>,
> extends AgentHooks {
  submitMessages<Schema extends undefined = undefined>(
    messages: UIMessage[],
  ): Promise<Submitted<Schema>>;
  submitMessages<Schema extends OutputSchema | undefined = undefined>(
    messages: UIMessage[],
    options?: SubmitMessagesOptions<Schema>,
  ): Promise<NoInfer<Submitted<Schema>>>;
  inspectSubmission<Ref extends string>(
    submissionId: Ref,
  ): Promise<SubmissionInspection<OutputOfRef<Ref>> | null>;
  /** Submissions, newest first; after them up to 100 of each status that Think itself has accepted. */
  listSubmissions(options?: ListSubmissionsOptions): Promise<SubmissionInspection[]>;
  cancelSubmission(submissionId: string, reason?: unknown): Promise<CancelSubmissionResult>;
  waitForSubmission<Ref extends string>(
    submissionId: Ref,
    options?: WaitForSubmissionOptions,
  ): Promise<SubmissionInspection<OutputOfRef<Ref>> | null>;
  /**
   * Deletes ended submissions, the oldest first; those that Think itself has accepted come last.
   * Returns how many were deleted.
   */
  deleteSubmissions(options?: DeleteSubmissionsOptions): Promise<number>;
  runWorkflow<P = unknown>(
    workflowName: Parameters<Think<Env, State, Props>["runWorkflow"]>[0],
    params: P,
    options?: RunWorkflow,
  ): Promise<string>;
  terminateWorkflow(workflowId: string, options?: { rollback?: boolean }): Promise<void>;
}
