/** The host for agents built on `@cloudflare/think`: the drop-in base class. */

import {
  type ActiveTurn,
  type ReplyAttachment,
  Think,
  type ThinkSubmissionInspection,
} from "@cloudflare/think";
import type { UIMessage } from "ai";
import type { Turn, TurnEnd } from "../../submissions/host.ts";
import { checkId } from "../../submissions/intake/request.ts";
import type { OutputSchema, SubmitMessagesOptions } from "../../submissions/submit-options.ts";
import { MAIN } from "../../submissions/threads.ts";
import type {
  CancelSubmissionResult,
  DeleteSubmissionsOptions,
  ListSubmissionsOptions,
  OutputOfRef,
  SubmissionInspection,
  Submitted,
  WaitForSubmissionOptions,
} from "../../submissions/types.ts";
import type { HostOptions } from "../../workflow/agent/kernel.ts";
import type { RunWorkflow } from "../../workflow/agent/workflows.ts";
import { AgentHooks, durableBase } from "../agent/agent-hooks.ts";
import { agentKernel, notOverridden } from "../agent/agent-kernel.ts";
import { ChatHostBase } from "../sdk/chat-host-base.ts";
import type { HostParts } from "../sdk/sdk-host.ts";
import { MCP_WAIT, type TurnSource } from "../sdk/turn-source.ts";
import { CAPABILITIES } from "../verbs.ts";
import type { HookedThink, ThinkHooks } from "./hooks.ts";
import { withSchedules } from "./scheduled-tasks.ts";
import { thinkSource } from "./side-turns.ts";
import { inspectionOf, ThinkLedger } from "./think-ledger.ts";
import { ThinkPromptKind, ThinkSubmissions } from "./think-submissions.ts";
import { ThinkTurns } from "./think-turns.ts";
import { TurnIds } from "./turn-ids.ts";

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
  Props extends object = object,
> extends durableBase(Think, AgentHooks)<Env, State, Props> {
  readonly #host: ThinkHost;

  /**
   * Whether a turn waits for MCP servers, whose connections are made again after a restart. Think itself does not.
   * @default { timeout: 15_000 }
   */
  override waitForMcpConnections: boolean | { timeout: number } = MCP_WAIT;

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
    const { threads, waits, workflows } = kernel;
    const prompts = new ThinkPromptKind(threads.submissions, (run) => workflows.ownerOf(run));
    waits.install("prompt", prompts);
    this.#host = kernel.threads;
  }

  /** Sends a message to all connected clients. Followers of submissions get the replies that Think sends. */
  override broadcast(...args: Parameters<Think<Env, State, Props>["broadcast"]>): void {
    // Think may broadcast before the end of its constructor.
    if (#host in this) this.#host.frames.take(args[0]);
    super.broadcast(...args);
  }

  /** Keeps the object in memory until the returned function is called. */
  override keepAlive(): Promise<() => void> {
    const kept = super.keepAlive();
    if (#host in this) this.#host.enters(kept);
    return kept;
  }

  /**
   * Called after each change of a submission's status, in the order of that submission's changes. `submitMessages()`,
   * the turn and `cancelSubmission()` wait for it, 30 seconds at most. What it throws is logged and changes
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
  Props extends object = object,
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

/** The agent as the ledger sees it: Think runs the turns of the agent's own conversation. */
class ThinkHost extends ChatHostBase<ThinkSubmissions> {
  readonly mainTurns: ThinkTurns;
  readonly ids: TurnIds;
  /** Known at the start, with the hooks of the app's class. */
  #sideSource: TurnSource | undefined;

  constructor(
    parts: HostParts,
    private readonly agent: HookedThink,
  ) {
    const source: TurnSource = (request) => {
      if (!this.#sideSource) throw new Error("The agent has not started");
      return this.#sideSource(request);
    };
    super(
      parts,
      { agent, source, turnTask: Think.CHAT_FIBER_NAME },
      (host) => new ThinkSubmissions(new ThinkLedger(agent), host, parts.outbox, parts.limits),
    );
    this.ids = new TurnIds(agent, this.submissions);
    this.mainTurns = new ThinkTurns(agent, this.submissions, this.recovery, this.ids);
  }

  protected wrapHooks(): void {
    const { agent } = this;
    const app: ThinkHooks = {
      beforeTurn: agent.beforeTurn.bind(agent),
      beforeStep: agent.beforeStep.bind(agent),
      beforeToolCall: agent.beforeToolCall.bind(agent),
      afterToolCall: agent.afterToolCall.bind(agent),
      onStepEnd: agent.onStepEnd.bind(agent),
      onChunk: agent.onChunk.bind(agent),
      onChatResponse: agent.onChatResponse.bind(agent),
      onChatError: agent.onChatError.bind(agent),
      classifyChatError: agent.classifyChatError.bind(agent),
      onChatRecovery: agent.onChatRecovery.bind(agent),
      chatRecovery: agent.chatRecovery,
      observability: agent.observability,
    };
    const onSubmissionStatus = agent.onSubmissionStatus.bind(agent);
    this.#sideSource = thinkSource(agent, app);
    Object.assign(agent, this.mainTurns.wrap(app));
    if (!this.hasStatusHook()) return;
    Object.assign(agent, {
      // Think calls it for the submissions that Think runs.
      onSubmissionStatus: (submission: SubmissionInspection | ThinkSubmissionInspection) =>
        onSubmissionStatus(
          "thread" in submission ? submission : inspectionOf(submission, agent.messages),
        ),
    });
  }

  override async run(turn: Turn): Promise<TurnEnd> {
    if (turn.thread === MAIN) await this.submissions.think.caughtUp(turn.signal);
    return super.run(turn);
  }

  /** The turn that the caller runs in, as the app sees it: it has the submission's id. */
  activeTurn(): ActiveTurn | undefined {
    const turn = this.ids.active();
    if (turn) return turn;
    const { submissionId: requestId } = this.scope;
    if (requestId === undefined) return undefined;
    return { requestId, trigger: "submission", continuation: false };
  }

  override submissionOf(requestId: string): string | undefined {
    return this.ids.submissionOf(requestId);
  }

  override isInsideTurn(): boolean {
    return this.activeTurn() !== undefined;
  }

  override messages(thread: string): Promise<UIMessage[]> {
    return thread === MAIN ? this.agent.getMessages() : super.messages(thread);
  }
}
