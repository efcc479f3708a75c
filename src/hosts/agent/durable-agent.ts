/** The host for an `Agent` of the SDK: turns run by the AI SDK, with the app's model, instructions and tools. */

import { Agent, type Connection } from "agents";
import { Sessions } from "agents/sessions";
import type { LanguageModel, ToolSet } from "ai";
import type { Problem } from "../../core/problems.ts";
import type { Feature, HostOptions, Kernel, RunWorkflow } from "../../kernel/index.ts";
import { notOverridden } from "../../kernel/index.ts";
import type { DeadLetter } from "../../kernel/outbox/index.ts";
import type { SubmissionInspection } from "../../kernel/submissions/index.ts";
import type { Approval } from "../../kernel/waits/index.ts";
import type { ScheduledTasks } from "../../scheduler/index.ts";
import { appSource, type TurnOverrides, type TurnStart } from "../sdk/app-source.ts";
import { SdkHost } from "../sdk/sdk-host.ts";
import { type AgentVerbs, addVerbs, CAPABILITIES } from "../verbs.ts";
import { agentKernel, logFor } from "./agent-kernel.ts";
import { changeWakes, deletedWithWakes, type SubAgents } from "./sub-agents.ts";
import type { SubmissionAudience } from "./submission-clients.ts";

/** Limits and retention, each with a default. */
export type DurableAgentOptions = HostOptions;

/**
 * An `Agent` with durable turns: submissions, threads, workflows that wait for them, approvals and an outbox. The main
 * conversation is the thread `"main"`. Use DurableThink for an agent on `@cloudflare/think`, and DurableChatAgent for a chat.
 *
 * @example
 * export class Support extends DurableAgent<Env> {
 *   override getModel() {
 *     return createOpenAI({ apiKey: this.env.OPENAI_API_KEY })("gpt-4o-mini");
 *   }
 *   override getTools() {
 *     return { lookUp: tool({ inputSchema: z.object({ order: z.string() }), execute: ({ order }) => this.find(order) }) };
 *   }
 * }
 */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: addVerbs() copies the methods to the prototype.
export class DurableAgent<
  Env extends Cloudflare.Env = Cloudflare.Env,
  State = unknown,
  Props extends Record<string, unknown> = Record<string, unknown>,
> extends Agent<Env, State, Props> {
  static {
    addVerbs(DurableAgent);
  }

  /** What this class installs beside submissions, workflows and the outbox, such as `schedules()`. @default none */
  static readonly features: readonly Feature[] = [];

  /** Where the conversations are kept; the app may keep others in it. */
  readonly sessions = new Sessions();
  /** @internal */
  readonly [CAPABILITIES]: Kernel;

  /**
   * Calls of the model in one turn, at most.
   * @default 10
   */
  maxSteps = 10;

  /**
   * @param options limits and retention; pass them on from the constructor of your class
   * @throws InvalidOptionError for an invalid option
   */
  constructor(ctx: DurableObjectState, env: Env, options: DurableAgentOptions = {}) {
    const isBuiltIn = notOverridden(new.target, DurableAgent);
    super(ctx, env);
    this.lifecycle.use(this.sessions);
    const kernel = agentKernel(
      this,
      {
        name: "DurableAgent",
        features: new.target.features,
        own: Agent.prototype,
        isBuiltIn,
        turns: ({ outbox, limits, ...parts }) =>
          new SdkHost({ ...this.#turns(), ...parts }, outbox, limits),
      },
      options,
    );
    this[CAPABILITIES] = kernel;
  }

  #turns() {
    return {
      name: "perdure/agent",
      hasOneModel: false,
      object: this,
      source: appSource({
        model: (id) => this.getModel(id),
        instructions: () => this.getSystemPrompt(),
        tools: () => this.getTools(),
        maxSteps: () => this.maxSteps,
        beforeTurn: (turn) => this.beforeTurn(turn),
        agentName: this.constructor.name,
        agentId: () => this.name,
      }),
      sessions: this.sessions,
      onStatus: (submission: SubmissionInspection) => this.onSubmissionStatus(submission),
    } as const;
  }

  /**
   * The model of the agent's turns. Override it.
   * @param id the model that a submission or a prompt asks for by `models`; undefined for the agent's own
   */
  getModel(_id?: string): LanguageModel | Promise<LanguageModel> {
    const { name } = this.constructor;
    throw new Error(
      `${name} has no model. Override getModel() in it: getModel() { return createOpenAI()("gpt-4o-mini"); }`,
    );
  }

  /** The instructions of the agent's turns. Override it. */
  getSystemPrompt(): string | Promise<string> {
    return "You are a helpful assistant.";
  }

  /** The tools of the agent's turns. Those of connected MCP servers are `this.mcp.getAITools()`. Override it. */
  getTools(): ToolSet | Promise<ToolSet> {
    return {};
  }

  /** Called once per attempt, before the model is asked: returns settings for this turn. Override it. */
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

  /** Deletes the agent's own conversation, and ends its running and pending turns. */
  async clearMessages(): Promise<void> {
    const { submissions, threads } = this[CAPABILITIES];
    await submissions.clearMain(() => threads.clear("main"));
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
export interface DurableAgent<
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
