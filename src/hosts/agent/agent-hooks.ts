/**
 * The hooks of an agent of the SDK, which an app overrides. Written once: a host's class extends {@link durableBase}, and its type theirs.
 */

import type { Agent, Connection } from "agents";
import type { WorkflowCallback } from "agents/workflows";
import type { LanguageModel, ToolSet } from "ai";
import { logProblem, type Problem } from "../../core/problems.ts";
import type { DeadLetter } from "../../outbox/types.ts";
import type { ScheduledTasks } from "../../scheduler/types.ts";
import type { SubmissionInspection } from "../../submissions/types.ts";
import type { Feature } from "../../workflow/agent/kernel.ts";
import type { Approval } from "../../workflow/waits/kinds/approval-types.ts";
import {
  appSource,
  type McpConnections,
  type McpWait,
  type TurnOverrides,
  type TurnSource,
  type TurnStart,
  waitForMcp,
} from "../sdk/turn-source.ts";
import { AgentVerbs, CAPABILITIES } from "../verbs.ts";
import type { SubmissionAudience } from "./clients.ts";
import { changeWakes, deletedWithWakes, type SubAgents } from "./sub-agents.ts";

/** What each of an app's classes may install. */
export interface WithFeatures {
  /**
   * What this class installs beside submissions, workflows and the outbox, such as `operations()`. A DurableThink has
   * `schedules()` in any case.
   * @default none
   */
  readonly features: readonly Feature[];
}

/**
 * A class of the SDK with Perdure's verbs and hooks. Its sub-agents and `destroy()` also remove the wakes that the root agent keeps
 * for a sub-agent.
 */
export function durableBase<Base extends object>(
  base: Base,
  hooks: typeof AgentHooks,
): Base & WithFeatures {
  class DurableBase extends (base as unknown as typeof Agent) {
    static readonly features: readonly Feature[] = [];

    override get dynamicAgents(): SubAgents {
      return deletedWithWakes(super.dynamicAgents, this.selfPath, outboxOf(this));
    }

    override async onWorkflowCallback(callback: WorkflowCallback): Promise<void> {
      (this as unknown as AgentVerbs)[CAPABILITIES].workflows.calledBack(callback);
      await super.onWorkflowCallback(callback);
    }

    override async destroy(): Promise<void> {
      // The root agent keeps the wakes of a sub-agent: those come soon, find no agent and lapse.
      if (this.parentPath.length > 0) await changeWakes(outboxOf(this), this.selfPath, "expedite");
      await super.destroy();
    }
  }
  const { prototype } = DurableBase;
  for (
    let from = hooks.prototype as object;
    from !== Object.prototype;
    from = Object.getPrototypeOf(from) as object
  ) {
    for (const [name, member] of Object.entries(Object.getOwnPropertyDescriptors(from)))
      if (!Object.hasOwn(prototype, name)) Object.defineProperty(prototype, name, member);
  }
  return DurableBase as unknown as Base & WithFeatures;
}

/** Any capability of Perdure changes the wakes of all. */
function outboxOf(agent: object) {
  return (agent as AgentVerbs)[CAPABILITIES].outbox;
}

/** The hooks of every agent. */
export abstract class AgentHooks extends AgentVerbs {
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
    const ids = { agent: this.constructor.name, name: (this as unknown as Agent).name };
    logProblem({ ...problem, ids: { ...ids, ...problem.ids } });
  }

  /**
   * Called after each change of a submission's status, in the order of that submission's changes. `submitMessages()`,
   * the turn and `cancelSubmission()` wait for it, 30 seconds at most. What it throws is logged and changes
   * nothing. Do not wait for a turn in it. Override it.
   */
  protected onSubmissionStatus(_submission: SubmissionInspection): void | Promise<void> {}

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
}

/**
 * Hooks that Think has itself. The model, instructions and tools of a DurableChatAgent are for the turns of other threads than
 * `"main"`.
 */
export abstract class ModelHooks extends AgentHooks {
  /**
   * The model of the agent's turns. Override it. A DurableChatAgent calls it for turns of other threads than `"main"`.
   * @param id the model that a submission or a prompt asks for by `models`; undefined for the agent's own
   */
  getModel(_id?: string): LanguageModel | Promise<LanguageModel> {
    const { name } = this.constructor;
    throw new Error(
      `${name} has no model. Override getModel() in it: getModel() { return createOpenAI()("gpt-4o-mini"); }`,
    );
  }

  /** The instructions of the same turns. Override it. */
  getSystemPrompt(): string | Promise<string> {
    return "You are a helpful assistant.";
  }

  /** The tools of the same turns. Those of connected MCP servers are `this.mcp.getAITools()`. Override it. */
  getTools(): ToolSet | Promise<ToolSet> {
    return {};
  }

  /** Called once per attempt of the same turns, before the model is asked: returns settings for this turn. Override it. */
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
}

/** The turns of an agent with these hooks. */
export function sourceOf(
  agent: Pick<ModelHooks, "getModel" | "getSystemPrompt" | "getTools" | "beforeTurn"> & {
    readonly name: string;
    readonly maxSteps: number;
    readonly mcp: McpConnections;
    readonly waitForMcpConnections: McpWait;
  },
): TurnSource {
  return appSource({
    model: (id) => agent.getModel(id),
    instructions: () => agent.getSystemPrompt(),
    tools: async () => {
      await waitForMcp(agent.mcp, agent.waitForMcpConnections);
      return agent.getTools();
    },
    maxSteps: () => agent.maxSteps,
    beforeTurn: (turn) => agent.beforeTurn(turn),
    agentName: agent.constructor.name,
    agentId: () => agent.name,
  });
}
