/** Workflows with one step, chosen by their params. Their output is its result. */

import type { WorkflowEvent } from "cloudflare:workers";
import type { AgentWorkflowEvent } from "agents/workflows";
import { z } from "zod";
import { versions } from "../../../src/features/deploy/index.ts";
import {
  DurableWorkflow,
  type DurableWorkflowStep,
  ThinkWorkflow,
  type ThinkWorkflowStep,
} from "../../../src/workflow/index.ts";
import { countSteps } from "../../support/engine-steps.ts";
import type { AgentHost } from "./agent-host.ts";
import type { ObjectHost } from "./object-host.ts";

type Asked =
  | { readonly step: "text"; readonly prompt: string }
  | { readonly step: "approval" }
  | { readonly step: "webhook" }
  | { readonly step: "none" };

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

type Steps = Pick<ThinkWorkflowStep, "prompt" | "approval" | "webhook">;

async function play(asked: Asked, step: Steps): Promise<unknown> {
  if (asked.step === "approval") {
    const schema = z.object({ amount: z.number() });
    return step.approval("decide", { title: "Pay?", schema });
  }
  if (asked.step === "webhook") return step.webhook("paid", { from: "stripe", timeout: "3 days" });
  if (asked.step === "none") return "returned";
  const { step: _, ...options } = asked;
  return step.prompt("ask", options);
}
