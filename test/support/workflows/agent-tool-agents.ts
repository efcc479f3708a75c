/** A parent whose workflows run child agents as tools, and a child that does what its input tells it to. */

import { Think } from "@cloudflare/think";
import {
  type AgentToolLifecycleResult,
  type AgentToolRunInfo,
  agentTool,
} from "agents/agent-tools";
import { tool } from "ai";
import { z } from "zod";
import type { AgentTools } from "../../../src/features/agent-tools/index.ts";
import { HeldModel } from "../held-model.ts";
import { ThinkAgent } from "../think-agent.ts";

/** The hook calls of the agent with that name, over all restarts. */
export const progressOf = new Map<string, Record<string, unknown>[]>();
export const finishesOf = new Map<string, string[]>();

/** What the hooks of the agent with that name do first. */
export const toolHooks = new Map<
  string,
  {
    /** Before the agent is notified of an end. */
    onFinish?: (agent: ToolParent) => void | Promise<void>;
    /** Before a run is started. */
    onStart?: (agent: ToolParent) => void | Promise<void>;
    maxConcurrent?: number;
  }
>();

function push<T>(map: Map<string, T[]>, name: string, value: T): void {
  map.set(name, [...(map.get(name) ?? []), value]);
}

/** While it is set, no stream of a child ends, so that its agent does not see that its run has ended. */
export const streams = { areSilent: false };

export class ToolChild extends Think<Cloudflare.Env> {
  override getModel() {
    return new HeldModel();
  }

  override getTools() {
    return {
      report: tool({
        description: "Reports progress, or a milestone.",
        inputSchema: z.object({
          message: z.string().optional(),
          fraction: z.number().optional(),
          milestone: z.string().optional(),
          data: z.unknown().optional(),
        }),
        execute: async ({ message, fraction, milestone, data }) => {
          await this.reportProgress({
            ...(message !== undefined && { message }),
            ...(fraction !== undefined && { fraction }),
            ...(milestone !== undefined && { milestone }),
            ...(data !== undefined && { data }),
          });
          return "reported";
        },
      }),
      record: tool({
        description: "Records the structured output.",
        inputSchema: z.object({ output: z.unknown().optional(), times: z.number().optional() }),
        execute: async ({ output, times }) => {
          const kept = times === undefined ? output : { text: "x".repeat(times) };
          await this.ctx.storage.put("output", kept);
          this.#output = kept;
          return "recorded";
        },
      }),
    };
  }

  override async tailAgentToolRun(...args: Parameters<Think["tailAgentToolRun"]>) {
    if (streams.areSilent) return new ReadableStream<never>();
    return super.tailAgentToolRun(...args);
  }

  /** The hook is not async. */
  #output: unknown;

  override async onStart(): Promise<void> {
    this.#output = await this.ctx.storage.get("output");
  }

  protected override getAgentToolOutput(): unknown {
    return this.#output;
  }
}

export class ToolParent extends ThinkAgent {
  override maxConcurrentAgentTools =
    toolHooks.get(this.ctx.id.name ?? "")?.maxConcurrent ?? Number.POSITIVE_INFINITY;

  override getTools() {
    return {
      ...super.getTools(),
      delegate: agentTool(ToolChild, {
        description: "Delegates to the child.",
        inputSchema: z.string(),
      }),
    } as ReturnType<ThinkAgent["getTools"]>;
  }

  override async onWorkflowProgress(_name: string, _id: string, progress: unknown): Promise<void> {
    push(progressOf, this.name, progress as Record<string, unknown>);
  }

  override async onAgentToolStart(): Promise<void> {
    await toolHooks.get(this.name)?.onStart?.(this);
  }

  override async onAgentToolFinish(
    { runId }: AgentToolRunInfo,
    { status }: AgentToolLifecycleResult,
  ): Promise<void> {
    push(finishesOf, this.name, `${runId} ${status}`);
  }

  /** Made by agentTools(). */
  declare finishAgentToolStep: AgentTools["finished"];

  constructor(...args: ConstructorParameters<typeof ThinkAgent>) {
    super(...args);
    const { finishAgentToolStep: finish } = this;
    this.finishAgentToolStep = async (run, result) => {
      await toolHooks.get(this.name)?.onFinish?.(this);
      await finish(run, result);
    };
  }

  /** As agents do. */
  async reportEnd(run: AgentToolRunInfo, result: AgentToolLifecycleResult): Promise<void> {
    await this.finishAgentToolStep(run, result);
  }

  startTools(id: string, params: unknown): Promise<string> {
    return this.runWorkflow("AGENT_TOOL_WORKFLOW", params, { id });
  }

  /** Lets a sub-agent start the workflow, and be its agent. */
  async startToolsInside(child: string, id: string, params: unknown): Promise<string> {
    return (await this.subAgent(ToolParent, child)).startTools(id, params);
  }

  async terminateInside(child: string, id: string): Promise<void> {
    await (await this.subAgent(ToolParent, child)).terminate(id);
  }

  /** The same without a workflow. */
  async runDetached(input: string): Promise<void> {
    await this.runAgentTool(ToolChild, { input, detached: true });
  }

  /** What was written up to now outlives a crash. */
  async stored(): Promise<void> {
    await this.ctx.storage.sync();
  }

  cancelRun(runId: string): Promise<void> {
    return this.cancelAgentTool(runId, "not today");
  }

  clearRuns(): Promise<void> {
    return this.clearAgentToolRuns();
  }

  /** What the child has of a run. */
  async statusOf(runId: string): Promise<string | undefined> {
    const child = await this.subAgent(ToolChild, runId);
    return (await child.inspectAgentToolRun(runId))?.status;
  }

  /** The child crashes, and its agent does not. */
  async killChild(runId: string): Promise<void> {
    this.abortSubAgent(ToolChild, runId);
  }
}

/** Gives up a child that reports and is silent then. */
export class ImpatientToolParent extends ToolParent {
  static override options = { detachedNoProgressBudgetMs: 500 };
}
