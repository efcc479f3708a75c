/** Workflows of the app. Their params choose the step, and their output is its result. */

import type { WorkflowEvent } from "cloudflare:workers";
import { AgentWorkflow, type AgentWorkflowEvent, type AgentWorkflowStep } from "agents/workflows";
import { method } from "perdure/outbox";
import type { Duration } from "perdure/testing";
import {
  DurableWorkflow,
  type DurableWorkflowStep,
  type ThinkPromptOptions,
  ThinkWorkflow,
  type ThinkWorkflowStep,
} from "perdure/workflow";
import { z } from "zod";
import type { AcceptanceAgent } from "./agent.ts";
import type { AcceptanceObject } from "./object.ts";
import { receivedParams, workflowRuns } from "./receivers.ts";

export type Plan =
  | {
      /** `lost`: a prompt without an await. */
      readonly step: "text" | "answer" | "lost";
      readonly prompt: string;
      readonly models?: readonly string[];
      readonly thread?: string;
      readonly repair?: number;
      /** Return the length of the title in place of the answer. */
      readonly measures?: boolean;
      readonly options?: Owner & Pick<ThinkPromptOptions, "agent">;
    }
  | { readonly step: "approval"; readonly timeout?: Duration; readonly notifies?: boolean }
  | { readonly step: "webhook"; readonly source: string }
  /** An approval against an arrival, and then a pause at an event. */
  | { readonly step: "race"; readonly source: string; readonly isApprovalFirst: boolean }
  /** An approval and an arrival that nobody awaits, then the end: a return, or an error. */
  | { readonly step: "orphans"; readonly source: string; readonly error?: string }
  | { readonly step: "agentTool"; readonly className: string; readonly input: string }
  /** An effect of `step.do()`, and then a prompt. */
  | { readonly step: "effect"; readonly prompt: string }
  | { readonly step: "none"; readonly error?: string }
  /** `params` are kept in {@link receivedParams}. */
  | { readonly step: "params"; readonly params: unknown }
  | {
      readonly step: "all";
      readonly items: readonly string[];
      readonly models?: readonly string[];
      readonly onError?: "return";
      readonly thread?: string;
      readonly options?: Owner;
    };

/** Options that every step with prompts takes. */
export type Owner = Pick<ThinkPromptOptions, "metadata" | "priority" | "rate" | "concurrency">;

const title = z.object({ title: z.string() });
const amount = z.object({ amount: z.number() });

export class AcceptanceWorkflow extends ThinkWorkflow<AcceptanceAgent, Plan> {
  override async run(
    { payload, instanceId }: AgentWorkflowEvent<Plan>,
    step: ThinkWorkflowStep,
  ): Promise<unknown> {
    return play(instanceId, payload, step);
  }
}

export class AcceptanceObjectWorkflow extends DurableWorkflow<AcceptanceObject, Plan> {
  override async run(
    { payload, instanceId }: WorkflowEvent<Plan>,
    step: DurableWorkflowStep,
  ): Promise<unknown> {
    return play(instanceId, payload, step);
  }
}

type Report = {
  readonly report: "progress" | "complete" | "error";
  /** Wait for an event of the type `end` after the report. */
  readonly stays?: boolean;
};

/** A workflow of the SDK, which reports before anything else. */
export class SdkWorkflow extends AgentWorkflow<AcceptanceAgent, Report> {
  override async run(
    { payload, instanceId }: AgentWorkflowEvent<Report>,
    step: AgentWorkflowStep,
  ): Promise<void> {
    if (payload.report === "progress") await this.reportProgress({ percent: 0.5 });
    if (payload.report === "complete") await step.reportComplete("done");
    if (payload.report === "error") await step.reportError("no stock");
    workflowRuns.receive(instanceId, payload.report);
    if (payload.stays) await step.waitForEvent("end", { type: "end" });
  }
}

type Steps = Pick<
  ThinkWorkflowStep,
  "prompt" | "promptAll" | "approval" | "webhook" | "agentTool" | "race" | "do" | "waitForEvent"
>;

async function play(instanceId: string, plan: Plan, step: Steps): Promise<unknown> {
  workflowRuns.receive(instanceId, plan.step);
  switch (plan.step) {
    case "approval":
      return step.approval("decide", {
        title: "Pay?",
        schema: amount,
        timeout: plan.timeout ?? "3 days",
        ...(plan.notifies && {
          notify: method("receive"),
          link: { by: "ann", payload: { amount: 7 } },
        }),
      });
    case "webhook":
      return step.webhook("paid", { from: plan.source, timeout: "3 days" });
    case "race": {
      const decided = () => step.approval("decide", { schema: amount });
      const paid = () => step.webhook("paid", { from: plan.source });
      const { winner } = await (plan.isApprovalFirst
        ? step.race("first", { decided: decided(), paid: paid() })
        : step.race("first", { paid: paid(), decided: decided() }));
      workflowRuns.receive(instanceId, winner);
      await step.waitForEvent("continue", { type: "continue", timeout: "1 hour" });
      return winner;
    }
    case "effect":
      await step.do("charge", async () => workflowRuns.receive(`${instanceId} charged`, "1"));
      return step.prompt("ask", { prompt: plan.prompt });
    case "orphans": {
      const isRestarted = workflowRuns.count(instanceId) > 1;
      const decide = () => step.approval("decide", { schema: amount });
      // A restarted run asks for neither.
      const open = isRestarted ? [] : [decide(), step.webhook("paid", { from: plan.source })];
      void Promise.allSettled(open);
      await step.waitForEvent("continue", { type: "continue", timeout: "1 hour" });
      if (plan.error !== undefined) throw new Error(plan.error);
      return "returned";
    }
    case "agentTool":
      return step
        .agentTool("child", plan.className, { input: plan.input })
        .catch((error: Error) => error.message);
    case "params":
      receivedParams.receive(instanceId, plan.params);
      return "received";
    case "all": {
      const { step: _, items, options, ...prompts } = plan;
      return step.promptAll("each", items, { prompt: (item) => item, ...prompts, ...options });
    }
    case "none":
      if (plan.error !== undefined) throw new Error(plan.error);
      return "returned";
    case "lost":
      void step.prompt("ask", { prompt: plan.prompt });
      return "returned";
    case "text": {
      const { step: _, measures: __, options, ...prompt } = plan;
      return step.prompt("ask", { ...prompt, ...options });
    }
    case "answer": {
      const { step: _, measures, options, ...prompt } = plan;
      const answer = await step.prompt("ask", { ...prompt, ...options, output: title });
      return measures ? answer.title.length : answer;
    }
  }
}
