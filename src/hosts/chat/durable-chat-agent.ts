/** The host for an `AIChatAgent`: its chat runs the turns of the main conversation, and the AI SDK those of other threads. */

import { AIChatAgent } from "@cloudflare/ai-chat";
import { Agent } from "agents";
import { CHAT_MESSAGE_TYPES } from "agents/chat";
import type { OutputInterface, ToolSet, UIMessage } from "ai";
import type { CheckedSubmission } from "../../submissions/host.ts";
import { MAIN } from "../../submissions/threads.ts";
import type { HostOptions } from "../../workflow/agent/kernel.ts";
import type { RunWorkflow } from "../../workflow/agent/workflows.ts";
import { durableBase, ModelHooks, sourceOf } from "../agent/agent-hooks.ts";
import { agentKernel, notOverridden } from "../agent/agent-kernel.ts";
import { CHAT } from "../limitations.ts";
import { ChatHostBase } from "../sdk/chat-host-base.ts";
import type { HostParts } from "../sdk/sdk-host.ts";
import type { TurnSource } from "../sdk/turn-source.ts";
import { checkChannel, NotSupportedByHostError } from "../support.ts";
import { ChatTurns } from "./chat-turns.ts";
import type { StreamOptions } from "./durable-options.ts";
import type { HookedChat } from "./hooks.ts";

/** How long `clearMessages()` waits for the end of the turn that it has aborted. */
const ABORTED_WITHIN_MS = 5_000;

/** Limits and retention, each with a default. */
export type DurableChatAgentOptions = HostOptions;

/**
 * An `AIChatAgent` with durable turns: submissions, threads, workflows that wait for them, approvals and an outbox.
 * Submissions to the thread `"main"` run in the chat's own queue, by `onChatMessage()`. Pass the options of `streamText()`
 * through `durable()` there.
 *
 * @example
 * export class Support extends DurableChatAgent<Env> {
 *   override async onChatMessage() {
 *     const messages = await convertToModelMessages(this.messages);
 *     return streamText(this.durable({ model, messages, tools })).toUIMessageStreamResponse();
 *   }
 * }
 */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: durableBase() copies the methods to the prototype.
export class DurableChatAgent<
  Env extends Cloudflare.Env = Cloudflare.Env,
  State = unknown,
  Props extends object = object,
> extends durableBase(AIChatAgent, ModelHooks)<Env, State, Props> {
  readonly #host: ChatHost;

  /**
   * Calls of the model in a turn of another thread, at most, and in any turn that has to give a structured answer.
   * @default 10
   */
  maxSteps = 10;

  /**
   * @param options limits and retention; pass them on from the constructor of your class
   * @throws InvalidOptionError for an invalid option
   */
  constructor(ctx: DurableObjectState, env: Env, options: DurableChatAgentOptions = {}) {
    const isBuiltIn = notOverridden(new.target, DurableChatAgent);
    super(ctx, env);
    const kernel = agentKernel(
      this,
      {
        name: "DurableChatAgent",
        features: new.target.features,
        own: Agent.prototype,
        isBuiltIn,
        turns: (parts) =>
          new ChatHost(parts, {
            agent: this as unknown as HookedChat,
            source: sourceOf(this),
            hasModel: !isBuiltIn("getModel"),
          }),
      },
      options,
    );
    this.#host = kernel.threads;
  }

  /**
   * The options of `streamText()` for the turn that calls it. In the turn of a submission they record the calls of tools, count
   * tokens, let other submissions join, and ask for a structured answer. In any other turn they are returned as they are.
   * Call it in `onChatMessage()`.
   * @param options of `streamText()`, each with its usual meaning
   * @example
   * const result = streamText(this.durable({ model, messages, tools, stopWhen: stepCountIs(10) }));
   */
  durable<
    Tools extends ToolSet = ToolSet,
    Runtime extends Record<string, unknown> = Record<string, unknown>,
    Output extends OutputInterface = OutputInterface<string, string, never>,
  >(
    options: StreamOptions<Tools, Runtime, Output>,
    // Inside of streamText(), its type parameters are not known yet: without tools, they would be inferred as never.
  ): NoInfer<StreamOptions<Tools, Runtime, Output>> {
    const durable = this.#host.mainTurns.durable(options as unknown as StreamOptions);
    return durable as unknown as StreamOptions<Tools, Runtime, Output>;
  }

  /** Sends a message to all connected clients. Followers of submissions get the replies that the chat sends. */
  override broadcast(...args: Parameters<AIChatAgent<Env, State>["broadcast"]>): void {
    // The chat may broadcast before the end of its constructor.
    if (#host in this) this.#host.frames.take(args[0]);
    super.broadcast(...args);
  }

  /** Keeps the object in memory until the returned function is called. */
  override keepAlive(): Promise<() => void> {
    const kept = super.keepAlive();
    if (#host in this) this.#host.enters(kept);
    return kept;
  }

  /** Deletes the agent's own conversation, and ends its running and pending turns, also those that a crash has interrupted. */
  async clearMessages(): Promise<void> {
    this.resetTurnState();
    await this.#host.recovery.caughtUp();
    // A turn that was aborted stores what it has of its reply.
    await this.waitUntilStable({ timeout: ABORTED_WITHIN_MS });
    await this.sessions.session().clearMessages();
    this.broadcast(JSON.stringify({ type: CHAT_MESSAGE_TYPES.CHAT_CLEAR }));
  }

  protected override resetTurnState(): void {
    super.resetTurnState();
    this.#host.recovery.reset();
  }
}

/** All verbs. Those are repeated here whose types in `Agent` differ. */
export interface DurableChatAgent<
  Env extends Cloudflare.Env = Cloudflare.Env,
  State = unknown,
  Props extends object = object,
> extends ModelHooks {
  runWorkflow<P = unknown>(
    workflowName: Parameters<Agent<Env, State, Props>["runWorkflow"]>[0],
    params: P,
    options?: RunWorkflow,
  ): Promise<string>;
  terminateWorkflow(workflowId: string, options?: { rollback?: boolean }): Promise<void>;
}

type ChatHostOptions = {
  readonly agent: HookedChat;
  /** The model, instructions and tools of side turns. */
  readonly source: TurnSource;
  /** Whether the app's class has a model for side turns. */
  readonly hasModel: boolean;
};

/** The agent as the ledger sees it: its own queue runs the turns of the main conversation. */
class ChatHost extends ChatHostBase {
  readonly mainTurns: ChatTurns;

  constructor(
    parts: HostParts,
    private readonly options: ChatHostOptions,
  ) {
    super(parts, { ...options, turnTask: AIChatAgent.CHAT_FIBER_NAME });
    this.mainTurns = new ChatTurns(options.agent, this.submissions, this.recovery);
  }

  override check(submission: CheckedSubmission): void {
    const name = "perdure/chat";
    checkChannel(name, submission);
    if (this.options.hasModel) return;
    const { models = [] } = submission.answer ?? {};
    if (submission.thread !== MAIN)
      throw new NotSupportedByHostError(name, "other threads without getModel()", CHAT);
    if (models.length > 0)
      throw new NotSupportedByHostError(name, "models without getModel()", CHAT);
  }

  protected wrapHooks(): void {
    const { agent } = this.options;
    const hooks = this.mainTurns.wrap({
      onChatMessage: agent.onChatMessage.bind(agent),
      onChatResponse: agent.onChatResponse.bind(agent),
      onChatRecovery: agent.onChatRecovery.bind(agent),
      chatRecovery: agent.chatRecovery,
    });
    Object.assign(agent, hooks);
  }

  override submissionOf(requestId: string): string | undefined {
    return this.mainTurns.turnOf(requestId)?.submissionId;
  }

  override isInsideTurn(): boolean {
    return this.mainTurns.isInsideTurn || super.isInsideTurn();
  }

  override messages(thread: string): Promise<UIMessage[]> {
    if (thread !== MAIN) return super.messages(thread);
    return this.options.agent.sessions.session().getHistory() as Promise<UIMessage[]>;
  }
}
