/** Wait for a person, who approves with a payload. */

import type { AgentWorkflowEvent } from "agents/workflows";
import { ThinkWorkflow, type ThinkWorkflowStep } from "perdure/workflow";
import { z } from "zod";
import type { Desk } from "../agents.ts";

export class ApprovalExample extends ThinkWorkflow<Desk, { amount: number }> {
  override async run(event: AgentWorkflowEvent<{ amount: number }>, step: ThinkWorkflowStep) {
    const { amount } = event.payload;
    const decision = await step.approval("refund", {
      title: `Refund ${amount} EUR?`,
      data: { amount },
      schema: z.object({ amount: z.number().max(amount) }),
      timeout: "3 days",
      onTimeout: "reject",
    });
    if (!decision.approved) return { refunded: 0, because: decision.reason ?? "no decision" };
    return { refunded: decision.payload.amount, by: decision.by };
  }
}
