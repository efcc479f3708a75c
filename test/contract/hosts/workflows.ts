/** Workflows of the contract's agents: their params say what they ask, and their output is what came of it. */

import type { AgentWorkflowEvent } from "agents/workflows";
import { z } from "zod";
import { ThinkWorkflow, type ThinkWorkflowStep } from "../../../src/workflow/index.ts";
import type { AgentHost } from "./agent-host.ts";

export type Asked = { readonly prompt: string; readonly thread?: string; readonly title?: true };

export const answerSchema = z.object({ title: z.string() });

export class ContractWorkflow extends ThinkWorkflow<AgentHost, Asked> {
  override async run({ payload }: AgentWorkflowEvent<Asked>, step: ThinkWorkflowStep) {
    const { title, ...asked } = payload;
    if (title) return step.prompt("ask", { ...asked, output: answerSchema });
    return step.prompt("ask", asked);
  }
}
