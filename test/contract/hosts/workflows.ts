/** Workflows of the contract's agents: their params say what they ask, and their output is what came of it. */

import type { WorkflowEvent } from "cloudflare:workers";
import type { AgentWorkflowEvent } from "agents/workflows";
import { z } from "zod";
import { DurableWorkflow, type DurableWorkflowStep } from "../../../src/hosts/object/index.ts";
import { ThinkWorkflow, type ThinkWorkflowStep } from "../../../src/workflow/index.ts";
import type { AgentHost } from "./agent-host.ts";
import type { ObjectHost } from "./object-host.ts";

export type Asked = { readonly prompt: string; readonly thread?: string; readonly title?: true };

export const answerSchema = z.object({ title: z.string() });

export class ContractWorkflow extends ThinkWorkflow<AgentHost, Asked> {
  override async run({ payload }: AgentWorkflowEvent<Asked>, step: ThinkWorkflowStep) {
    const { title, ...asked } = payload;
    if (title) return step.prompt("ask", { ...asked, output: answerSchema });
    return step.prompt("ask", asked);
  }
}

export class ObjectWorkflow extends DurableWorkflow<ObjectHost, Asked> {
  override async run({ payload }: WorkflowEvent<Asked>, step: DurableWorkflowStep) {
    const { title, ...asked } = payload;
    if (title) return step.prompt("ask", { ...asked, output: answerSchema });
    return step.prompt("ask", asked);
  }
}
