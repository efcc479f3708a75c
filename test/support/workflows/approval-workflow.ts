/** A workflow that asks a person what its params say, and returns what was decided. */

import type { AgentWorkflowEvent, AgentWorkflowStep } from "agents/workflows";
import { z } from "zod";
import type { Json } from "../../../src/core/json.ts";
import {
  type ApprovalDecision,
  ApprovalError,
  ApprovalPayloadError,
  ThinkWorkflow,
  type ThinkWorkflowStep,
} from "../../../src/workflow/index.ts";
import type { ThinkAgent } from "../think-agent.ts";
import { watchSteps } from "./watched-steps.ts";

/** With a default, a transform, and a rule that JSON Schema cannot express. */
const refundSchema = z.object({
  amount: z
    .number()
    .int()
    .max(100)
    .refine((amount) => amount !== 13, "13 brings bad luck"),
  note: z
    .string()
    .default("none")
    .transform((note) => note.toUpperCase()),
});

export type ApprovalParams = {
  approvals: {
    name: string;
    key?: string;
    title?: string;
    data?: Json;
    /** `"refund"`, or `"date"`, which has no JSON form. */
    schema?: "refund" | "date";
    timeout?: number;
    onTimeout?: "throw" | "reject" | "approve" | { approve: { amount: number } };
  }[];
  /** Then waits for what `approveWorkflow()` says. */
  classic?: boolean;
};

export type ApprovalOutcome =
  | ApprovalDecision<typeof refundSchema>
  | { error: string; message: string; approvalId: string; issues?: number };

/** How often the step after an approval ran, by instance and approval: an effect. */
export const effects = new Map<string, number>();

/** How often an instance was run, also to find done what it had done: by its id. */
export const runs = new Map<string, number>();

export class ApprovalWorkflow extends ThinkWorkflow<ThinkAgent, ApprovalParams> {
  protected override extendStep(
    step: AgentWorkflowStep,
    event: AgentWorkflowEvent<ApprovalParams>,
  ): ThinkWorkflowStep {
    watchSteps(step, this.workflowId);
    return super.extendStep(step, event);
  }

  override async run(event: AgentWorkflowEvent<ApprovalParams>, step: ThinkWorkflowStep) {
    runs.set(this.workflowId, (runs.get(this.workflowId) ?? 0) + 1);
    const { approvals, classic } = event.payload;
    const outcomes: ApprovalOutcome[] = [];
    for (const { name, schema, key, ...rest } of approvals) {
      const options = { ...rest, ...(key !== undefined && { key }), ...schemaOf(schema) };
      try {
        // The params are JSON, of which no type can say that they belong together.
        outcomes.push((await step.approval(name, options as never)) as ApprovalOutcome);
      } catch (error) {
        if (!(error instanceof ApprovalError)) throw error;
        const { name: errorName, message, approvalId } = error;
        const issues = error instanceof ApprovalPayloadError && { issues: error.issues.length };
        outcomes.push({ error: errorName, message, approvalId, ...issues });
      }
      await step.do(`after ${name} ${key}`, async () => {
        const effect = `${this.workflowId}:${name}`;
        effects.set(effect, (effects.get(effect) ?? 0) + 1);
      });
    }
    const metadata = classic ? await this.waitForApproval(step, { timeout: "1 minute" }) : null;
    return { outcomes, metadata };
  }
}

function schemaOf(schema: "refund" | "date" | undefined): object {
  if (schema === undefined) return {};
  return { schema: schema === "date" ? z.object({ when: z.date() }) : refundSchema };
}
