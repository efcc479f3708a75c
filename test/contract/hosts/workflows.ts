/** Workflows of the contract's agents: the params say which step they run, and their output is what came of it. */

import type { WorkflowEvent } from "cloudflare:workers";
import type { AgentWorkflowEvent } from "agents/workflows";
import { z } from "zod";
import { versions } from "../../../src/deploy/index.ts";
import {
  DurableWorkflow,
  type DurableWorkflowStep,
  ThinkWorkflow,
  type ThinkWorkflowStep,
} from "../../../src/workflow/index.ts";
import { countSteps } from "../../support/engine-steps.ts";
import type { AgentHost } from "./agent-host.ts";
import type { ObjectHost } from "./object-host.ts";

export type Asked =
  | {
      readonly step: "text" | "answer" | "lost";
      readonly prompt: string;
      readonly models?: readonly string[];
    }
  | { readonly step: "approval" }
  | { readonly step: "webhook" }
  | { readonly step: "agentTool" }
  | { readonly step: "none"; readonly error?: string }
  | { readonly step: "all"; readonly items: readonly string[] };

const answerSchema = z.object({ title: z.string() });

export class ContractWorkflow extends ThinkWorkflow<AgentHost, Asked> {
  override async run({ payload }: AgentWorkflowEvent<Asked>, step: ThinkWorkflowStep) {
    countSteps(this.workflowId, step);
    return play(payload, step);
  }
}

export class ObjectWorkflow extends DurableWorkflow<ObjectHost, Asked> {
  override async run({ payload, instanceId }: WorkflowEvent<Asked>, step: DurableWorkflowStep) {
    countSteps(instanceId, step);
    return play(payload, step);
  }
}

export class ObjectVersioned extends versions({ "1": ObjectWorkflow }) {}

type Steps = Pick<ThinkWorkflowStep, "prompt" | "promptAll" | "approval" | "webhook" | "agentTool">;

async function play(asked: Asked, step: Steps): Promise<unknown> {
  if (asked.step === "approval") {
    const schema = z.object({ amount: z.number() });
    return step.approval("decide", { title: "Pay?", schema });
  }
  if (asked.step === "webhook") return step.webhook("paid", { from: "stripe", timeout: "3 days" });
  if (asked.step === "agentTool") {
    try {
      return await step.agentTool("child", "AgentHost", { input: "do it" });
    } catch (error) {
      return error instanceof Error ? error.message : error;
    }
  }
  if (asked.step === "all") {
    return step.promptAll("each", asked.items, { prompt: (item) => item, key: (_, i) => `${i}` });
  }
  if (asked.step === "none") {
    if (asked.error !== undefined) throw new Error(asked.error);
    return "returned";
  }
  const { step: kind, ...options } = asked;
  if (kind === "lost") {
    void step.prompt("ask", options);
    return "returned";
  }
  if (kind === "text") return step.prompt("ask", options);
  return step.prompt("ask", { ...options, output: answerSchema });
}
