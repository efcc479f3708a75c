/** The host for agents built on `@cloudflare/think`: the drop-in base class. */

import { type ActiveTurn, type ReplyAttachment, Think } from "@cloudflare/think";
import type { Connection } from "agents";
import type { UIMessage } from "ai";
import type { Problem } from "../../core/problems.ts";
import type { Feature, HostOptions, Kernel, RunWorkflow } from "../../kernel/index.ts";
import { notOverridden } from "../../kernel/index.ts";
import type { DeadLetter } from "../../kernel/outbox/index.ts";
import type {
  CancelSubmissionResult,
  DeleteSubmissionsOptions,
  ListSubmissionsOptions,
  OutputOfRef,
  OutputSchema,
  SubmissionInspection,
  SubmissionOutput,
  SubmitMessagesOptions,
  SubmitMessagesResult,
  WaitForSubmissionOptions,
} from "../../kernel/submissions/index.ts";
import { checkId } from "../../kernel/submissions/internal.ts";
import type { Approval } from "../../kernel/waits/index.ts";
import { agentKernel, logFor } from "../agent/agent-kernel.ts";
import { changeWakes, deletedWithWakes, type SubAgents } from "../agent/sub-agents.ts";
import type { SubmissionAudience } from "../agent/submission-clients.ts";
import { type AgentVerbs, addVerbs, CAPABILITIES } from "../verbs.ts";
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
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: addVerbs() copies the methods to the prototype.
export class DurableThink<
  Env extends Cloudflare.Env = Cloudflare.Env,
  State = unknown,
  Props extends Record<string, unknown> = Record<string, unknown>,
> extends Think<Env, State, Props> {
  static {
    addVerbs(DurableThink);
  }

  /** What this class installs beside submissions, workflows, schedules and the outbox, such as `operations()`. @default none */
  static readonly features: readonly Feature[] = [];

  /** @internal */
  readonly [CAPABILITIES]: Kernel;
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
        turns: ({ outbox, limits, ...parts }) => new ThinkHost({ agent, ...parts }, outbox, limits),
      },
      options,
    );
    kernel.waits.install("prompt", new ThinkPromptKind(kernel.threads.submissions));
    this[CAPABILITIES] = kernel;
    this.#host = kernel.threads;
  }

  /** Sends a message to all connected clients. Followers of submissions get the replies that Think sends. */
  override broadcast(...args: Parameters<Think<Env, State, Props>["broadcast"]>): void {
    // Think may broadcast before the end of its constructor.
    if (#host in this) this.#host.frames.take(args[0]);
    super.broadcast(...args);
  }

  /** Called at least once for each new dead letter. What it throws is logged and changes nothing. Override it. */
  protected onDeadLetter(_letter: DeadLetter): void | Promise<void> {}

  /**
   * Called once for each problem that could go unnoticed: a submission that ended in `error`, a dead letter, an endpoint
   * that starts to fail or recovers, a full outbox or queue of scheduled runs, a delivery that came again with another body.
   * A crash at that moment may repeat the call for a dead letter, and may omit it for another problem. What it throws is
   * logged. Override it to log in another way.
   * @default logs one line of JSON with `console.error()` or `console.warn()`
   * @example
   * protected override onProblem(problem: Problem) {
   *   if (problem.type !== "outbox:endpoint") super.onProblem(problem);
   * }
   */
  protected onProblem(problem: Problem): void | Promise<void> {
    logFor(this, problem);
  }

  /**
   * Called after each change of a submission's status, in the order of that submission's changes. `submitMessages()`,
   * the turn and `cancelSubmission()` wait for it, at most `statusHookTimeout`. What it throws is logged and changes
   * nothing. Do not wait for a turn in it. Override it.
   */
  protected override onSubmissionStatus(_submission: SubmissionInspection): void | Promise<void> {}

  /**
   * Decides whether a connected client is sent the whole approval when it changes: its data, schema, workflow and decision.
   * Other clients are sent `approvalId`, `status` and `title`. Override it.
   * @returns true for the whole approval
   * @default false
   * @example
   * protected override shouldSendApproval(approval: Approval, connection: Connection<{ isAdmin: boolean }>) {
   *   return connection.state?.isAdmin === true;
   * }
   */
  protected shouldSendApproval(_approval: Approval, _connection: Connection): boolean {
    return false;
  }

  /**
   * Decides what a connected client is sent of a submission: `"status"` for each change of its status, `true` for that and
   * the reply of a turn in a named thread, or an isolated one, while it is written. Called at each change, and once per
   * attempt for the reply. Clients get {@link SubmissionMessage} and {@link ReplyMessage}. Override it.
   * @returns false for nothing
   * @default false
   * @example
   * protected override shouldSendSubmission({ metadata }: SubmissionInspection, connection: Connection<{ user: string }>) {
   *   return metadata?.user === connection.state?.user;
   * }
   */
  protected shouldSendSubmission(
    _submission: SubmissionInspection,
    _connection: Connection,
  ): SubmissionAudience {
    return false;
  }

  /**
   * Called after an approval was opened, decided, expired or cancelled, and sent to the connected clients. What it throws is
   * logged and changes nothing. A crash right after the change may omit the call. Override it.
   */
  protected onApproval(_approval: Approval): void | Promise<void> {}

  /** The agent's sub-agents. `delete()` also removes the wakes that the root agent keeps for one, and for all below it. */
  override get dynamicAgents(): SubAgents {
    return deletedWithWakes(super.dynamicAgents, this.selfPath, this[CAPABILITIES].waking);
  }

  /** Deletes the agent and everything that it stored. */
  override async destroy(): Promise<void> {
    // The root agent keeps the wakes of a sub-agent: those come soon, find no agent and lapse.
    if (this.parentPath.length > 0)
      await changeWakes(this[CAPABILITIES].waking, this.selfPath, "expedite");
    await super.destroy();
  }

  /** The turn that the caller runs in. A submission's turn has the submission's `requestId`, and the trigger `"submission"`. */
  override get activeTurn(): ActiveTurn | undefined {
    return this.#host.activeTurn();
  }

  /** Aborts a turn, by the `requestId` of a submission or by Think's own id. @throws InvalidSubmissionError for an invalid id */
  override cancelChat(requestId: string, reason?: string): void {
    checkId("requestId", requestId);
    super.cancelChat(requestId, reason);
    this[CAPABILITIES].submissions.stopTurn(requestId, reason);
  }

  /** The same, for subclasses. */
  protected override abortRequest(requestId: string, reason?: unknown): void {
    super.abortRequest(requestId, reason);
    const text = reason === undefined ? reason : String(reason);
    this[CAPABILITIES].submissions.stopTurn(requestId, text);
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
> extends AgentVerbs {
  submitMessages<Result extends SubmitMessagesResult<string> = SubmitMessagesResult<string>>(
    messages: UIMessage[],
  ): Promise<NoInfer<Result>>;
  submitMessages<
    Schema extends OutputSchema | undefined = undefined,
    Result extends SubmitMessagesResult<SubmissionOutput<Schema>> = SubmitMessagesResult<
      SubmissionOutput<Schema>
    >,
  >(messages: UIMessage[], options?: SubmitMessagesOptions<Schema>): Promise<NoInfer<Result>>;
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
