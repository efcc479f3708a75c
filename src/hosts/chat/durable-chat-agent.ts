/** The host for an `AIChatAgent`: its chat runs the turns of the main conversation, and the AI SDK those of other threads. */

import { AIChatAgent } from "@cloudflare/ai-chat";
import { Agent, type Connection } from "agents";
import { CHAT_MESSAGE_TYPES } from "agents/chat";
import type { LanguageModel, OutputInterface, ToolSet } from "ai";
import type { Problem } from "../../core/problems.ts";
import type { Feature, HostOptions, Kernel, RunWorkflow } from "../../kernel/index.ts";
import { notOverridden } from "../../kernel/index.ts";
import type { DeadLetter } from "../../kernel/outbox/index.ts";
import type { SubmissionInspection } from "../../kernel/submissions/index.ts";
import type { Approval } from "../../kernel/waits/index.ts";
import type { ScheduledTasks } from "../../scheduler/index.ts";
import { agentKernel, logFor } from "../agent/agent-kernel.ts";
import { changeWakes, deletedWithWakes, type SubAgents } from "../agent/sub-agents.ts";
import type { SubmissionAudience } from "../agent/submission-clients.ts";
import { appSource, type TurnOverrides, type TurnStart } from "../sdk/app-source.ts";
import { type AgentVerbs, addVerbs, CAPABILITIES } from "../verbs.ts";
import { ChatHost } from "./chat-host.ts";
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
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: addVerbs() copies the methods to the prototype.
export class DurableChatAgent<
  Env extends Cloudflare.Env = Cloudflare.Env,
  State = unknown,
  Props extends Record<string, unknown> = Record<string, unknown>,
> extends AIChatAgent<Env, State, Props> {
  static {
    addVerbs(DurableChatAgent);
  }

  /** What this class installs beside submissions, workflows and the outbox, such as `schedules()`. @default none */
  static readonly features: readonly Feature[] = [];

  /** @internal */
  readonly [CAPABILITIES]: Kernel;
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
        turns: ({ outbox, limits, ...parts }) => {
          const turns = this.#turns(!isBuiltIn("getModel"));
          return new ChatHost({ ...turns, ...parts }, outbox, limits);
        },
      },
      options,
    );
    this[CAPABILITIES] = kernel;
    this.#host = kernel.threads;
  }

  #turns(hasModel: boolean) {
    return {
      agent: this as unknown as HookedChat,
      hasModel,
      source: appSource({
        model: (id) => this.getModel(id),
        instructions: () => this.getSystemPrompt(),
        tools: () => this.getTools(),
        maxSteps: () => this.maxSteps,
        beforeTurn: (turn) => this.beforeTurn(turn),
        agentName: this.constructor.name,
        agentId: () => this.name,
      }),
    };
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

  /**
   * The model of turns in other threads. Override it to use them; `onChatMessage()` may use it, too.
   * @param id the model that a submission or a prompt asks for by `models`; undefined for the agent's own
   */
  getModel(_id?: string): LanguageModel | Promise<LanguageModel> {
    const { name } = this.constructor;
    throw new Error(
      `${name} has no model. Override getModel() in it: getModel() { return createOpenAI()("gpt-4o-mini"); }`,
    );
  }

  /** The instructions of turns in other threads. Override it. */
  getSystemPrompt(): string | Promise<string> {
    return "You are a helpful assistant.";
  }

  /** The tools of turns in other threads. Those of connected MCP servers are `this.mcp.getAITools()`. Override it. */
  getTools(): ToolSet | Promise<ToolSet> {
    return {};
  }

  /** Called once per attempt of a turn in another thread: returns settings for this turn. Override it. */
  beforeTurn(_turn: TurnStart): TurnOverrides | undefined | void | Promise<TurnOverrides | void> {}

  /** The tasks that recur, for a class that installs `schedules()` of `perdure/scheduler`. Override it. */
  getScheduledTasks(): ScheduledTasks | Promise<ScheduledTasks> {
    return {};
  }

  /** The time zone of schedules that name none. Override it. @default none: a clock time without a zone is an invalid task */
  getDefaultTimezone(): string | undefined | Promise<string | undefined> {
    return undefined;
  }

  /** Whether sub-agents of this class run scheduled tasks of their own. Override it. @default "root" */
  getScheduledTasksScope(): "root" | "all" | Promise<"root" | "all"> {
    return "root";
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

  /** Called at least once for each new dead letter. What it throws is logged and changes nothing. Override it. */
  protected onDeadLetter(_letter: DeadLetter): void | Promise<void> {}

  /**
   * Called once for each problem that could go unnoticed, see {@link Problem}. What it throws is logged. Override it to log in
   * another way.
   * @default logs one line of JSON with `console.error()` or `console.warn()`
   */
  protected onProblem(problem: Problem): void | Promise<void> {
    logFor(this, problem);
  }

  /**
   * Called after each change of a submission's status. `submitMessages()`, the turn and `cancelSubmission()` wait for it, at most
   * `statusHookTimeout`. What it throws is logged and changes nothing. Do not wait for a turn in it. Override it.
   */
  protected onSubmissionStatus(_submission: SubmissionInspection): void | Promise<void> {}

  /**
   * Decides whether a connected client is sent the whole approval when it changes; others get its id, status and title. Override it.
   * @default false
   */
  protected shouldSendApproval(_approval: Approval, _connection: Connection): boolean {
    return false;
  }

  /**
   * Decides what a connected client is sent of a submission: `"status"` for its status, `true` for that and its reply while it is
   * written. Override it.
   * @default false
   */
  protected shouldSendSubmission(
    _submission: SubmissionInspection,
    _connection: Connection,
  ): SubmissionAudience {
    return false;
  }

  /** Called after an approval was opened, decided, expired or cancelled. What it throws is logged. Override it. */
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
}

/** All verbs. Those are repeated here whose types in `Agent` differ. */
export interface DurableChatAgent<
  Env extends Cloudflare.Env = Cloudflare.Env,
  State = unknown,
  Props extends Record<string, unknown> = Record<string, unknown>,
> extends AgentVerbs {
  runWorkflow<P = unknown>(
    workflowName: Parameters<Agent<Env, State, Props>["runWorkflow"]>[0],
    params: P,
    options?: RunWorkflow,
  ): Promise<string>;
  terminateWorkflow(workflowId: string, options?: { rollback?: boolean }): Promise<void>;
}
