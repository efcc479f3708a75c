/** A workflow with one prompt, for each kind of object. */

import type { WorkflowEvent } from "cloudflare:workers";
import * as builtIn from "@cloudflare/think/workflows";
import type { AgentWorkflowEvent } from "agents/workflows";
import { ask } from "perdure/testing";
import {
  DurableWorkflow,
  type DurableWorkflowStep,
  ThinkWorkflow,
  type ThinkWorkflowStep,
} from "perdure/workflow";
import { z } from "zod";
import type { AgentRows, BuiltInThinkRows, ObjectRows } from "./objects.ts";
import { ends } from "./probe.ts";

export type PromptParams = { readonly thread: "isolated" | "main" };

const output = z.object({ title: z.string(), count: z.number().int() });
const QUESTION = { prompt: ask({ answer: { title: "Hello", count: 3 } }), output };

export class AgentPrompt extends ThinkWorkflow<AgentRows, PromptParams> {
  override async run({ payload }: AgentWorkflowEvent<PromptParams>, step: ThinkWorkflowStep) {
    await noted(this.workflowId, step.prompt("ask", { ...QUESTION, ...payload }));
  }
}

export class ObjectPrompt extends DurableWorkflow<ObjectRows, PromptParams> {
  override async run(
    { instanceId, payload }: Readonly<WorkflowEvent<PromptParams>>,
    step: DurableWorkflowStep,
  ) {
    await noted(instanceId, step.prompt("ask", { ...QUESTION, ...payload }));
  }
}

export class BuiltInPrompt extends builtIn.ThinkWorkflow<BuiltInThinkRows> {
  override async run(_event: AgentWorkflowEvent<unknown>, step: builtIn.ThinkWorkflowStep) {
    await noted(this.workflowId, step.prompt("ask", QUESTION));
  }
}

async function noted(id: string, prompt: Promise<unknown>): Promise<void> {
  try {
    await prompt;
    ends.set(id, undefined);
  } catch (error) {
    ends.set(id, error as Error);
    throw error;
  }
}
