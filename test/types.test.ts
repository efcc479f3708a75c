/** Types are part of the product: what a call infers, and that code for Think compiles unchanged. */

import { env } from "cloudflare:workers";
import type { Think } from "@cloudflare/think";
import type { AgentWorkflowEvent } from "agents/workflows";
import { expectTypeOf, it } from "vitest";
import { z } from "zod";
import { DurableThink } from "../src/hosts/think/index.ts";
import type { SubmissionInspection, SubmitMessagesOptions } from "../src/submissions/index.ts";
import { ThinkWorkflow, type ThinkWorkflowStep } from "../src/workflow/index.ts";
import { ScriptedModel } from "./support/scripted-model.ts";

const draftSchema = z.object({
  title: z.string(),
  severity: z.enum(["low", "critical"]),
  labels: z.array(z.string()),
});

/** As Think's page on workflows has it, with only the base classes changed. */
class TriageAgent extends DurableThink<Cloudflare.Env> {
  override getModel() {
    return new ScriptedModel();
  }

  triageIssue(issueNumber: number): Promise<string> {
    return this.runWorkflow("PROMPT_WORKFLOW", { issueNumber }, { metadata: { issueNumber } });
  }

  async applyLabels(labels: string[]): Promise<number> {
    return labels.length;
  }
}

class TriageWorkflow extends ThinkWorkflow<TriageAgent, { issueNumber: number }> {
  override async run(event: AgentWorkflowEvent<{ issueNumber: number }>, step: ThinkWorkflowStep) {
    const draft = await step.prompt("triage-issue", {
      prompt: `Triage issue #${event.payload.issueNumber}`,
      output: draftSchema,
      timeout: "3 days",
    });
    expectTypeOf(draft).toEqualTypeOf<z.infer<typeof draftSchema>>();
    await step.do("apply-labels", () => this.agent.applyLabels(draft.labels));
    await step.reportComplete(draft);
    return draft.severity;
  }
}

it("a prompt's answer has the type of its schema", () => {
  type Step = Pick<ThinkWorkflowStep, "prompt">;
  const answer = (step: Step) => step.prompt("n", { prompt: "p", output: draftSchema });
  expectTypeOf(answer).returns.resolves.toEqualTypeOf<z.infer<typeof draftSchema>>();
  // @ts-expect-error an output schema is an object
  const scalar = (step: Step) => step.prompt("n", { prompt: "p", output: z.string() });
  expectTypeOf(scalar).toBeFunction();
  expectTypeOf<TriageWorkflow["run"]>().returns.resolves.toEqualTypeOf<"low" | "critical">();
});

it("DurableThink stands in for Think", () => {
  expectTypeOf<TriageAgent>().toExtend<Think<Cloudflare.Env>>();
  expectTypeOf<TriageAgent["submitMessages"]>().toExtend<Think["submitMessages"]>();
  expectTypeOf<TriageAgent["cancelSubmission"]>().toExtend<Think["cancelSubmission"]>();
});

it("an inspection can be read without narrowing, and is narrowed by its status", () => {
  expectTypeOf<SubmissionInspection["error"]>().toEqualTypeOf<string | undefined>();
  type Pending = Extract<SubmissionInspection, { status: "pending" }>;
  expectTypeOf<Pending["completedAt"]>().toEqualTypeOf<undefined>();
  type Completed = Extract<SubmissionInspection, { status: "completed" }>;
  expectTypeOf<Completed["completedAt"]>().toEqualTypeOf<number>();
});

it("results keep their types over RPC", () => {
  const inspect = () => env.ThinkAgent.getByName("types").inspectSubmission("x");
  type Inspected = Awaited<ReturnType<typeof inspect>>;
  expectTypeOf<Inspected>().not.toBeNever();
  expectTypeOf<NonNullable<Inspected>["status"]>().toEqualTypeOf<SubmissionInspection["status"]>();
});

it("options catch mistakes where they are written", () => {
  const options = (given: SubmitMessagesOptions) => given;
  options({ thread: "isolated", expiresIn: "1.5 hours", debounce: { key: "k", delay: 500 } });
  options({ thread: "any name", whenBusy: "steer", idempotencyKeyTtl: "1 day" });
  // @ts-expect-error there is no such unit
  options({ expiresIn: "1 fortnight" });
  // @ts-expect-error there is no such answer to a busy thread
  options({ whenBusy: "panic" });
  // @ts-expect-error a budget says of what
  options({ budget: 1_000 });
});
