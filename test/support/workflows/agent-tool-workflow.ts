/** A workflow that runs child agents as its params say, and returns what came of it. */

import type { AgentWorkflowEvent, AgentWorkflowStep } from "agents/workflows";
import { z } from "zod";
import {
  AgentToolError,
  type AgentToolResult,
  ThinkWorkflow,
  type ThinkWorkflowStep,
} from "../../../src/workflow/index.ts";
import { ToolChild, type ToolParent } from "./agent-tool-agents.ts";
import { watchSteps } from "./watched-steps.ts";

const answerSchema = z.object({ title: z.string(), count: z.number().int().default(7) });

export type ToolParams = {
  tools: {
    name: string;
    input: unknown;
    key?: string;
    timeout?: number;
    hasSchema?: boolean;
    /** A class by its name, in place of `ToolChild`. */
    child?: string;
  }[];
  /** Side by side, and not one after the other. */
  isParallel?: boolean;
};

export type ToolOutcome =
  | { result: AgentToolResult<unknown>; at: number }
  | { length: number }
  | {
      error: string;
      message: string;
      runId: string;
      status: string;
      retryable: boolean;
      reason?: string;
      childStillRunning?: boolean;
      at: number;
    };

export class AgentToolWorkflow extends ThinkWorkflow<ToolParent, ToolParams> {
  protected override extendStep(
    step: AgentWorkflowStep,
    event: AgentWorkflowEvent<ToolParams>,
  ): ThinkWorkflowStep {
    watchSteps(step, this.workflowId);
    return super.extendStep(step, event);
  }

  override async run(event: AgentWorkflowEvent<ToolParams>, step: ThinkWorkflowStep) {
    const { tools, isParallel } = event.payload;
    if (isParallel) return Promise.all(tools.map((tool) => this.#outcome(step, tool)));
    const outcomes: ToolOutcome[] = [];
    for (const tool of tools) outcomes.push(await this.#outcome(step, tool));
    return outcomes;
  }

  async #outcome(
    step: ThinkWorkflowStep,
    { name, hasSchema, child, ...options }: ToolParams["tools"][number],
  ): Promise<ToolOutcome> {
    try {
      const output = hasSchema ? { output: answerSchema } : {};
      const result = await step.agentTool(name, child ?? ToolChild, { ...options, ...output });
      const text = (result.output as { text?: string } | undefined)?.text;
      // As its result a step holds 1 MiB at most.
      if (text !== undefined) return { length: text.length };
      return { result, at: Date.now() };
    } catch (error) {
      if (!(error instanceof AgentToolError)) throw error;
      const { name: errorName, message, ...fields } = error;
      return { ...fields, error: errorName, message, at: Date.now() } as ToolOutcome;
    }
  }
}
