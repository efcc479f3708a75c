/**
 * The triage of one event as a durable workflow: ask the model, wait for an approval if it is critical, write the labels.
 * It stores nothing. Every effect is a call of the agent with the delivery's id, so a repeated step changes nothing.
 */

import type { AgentWorkflowEvent } from "agents/workflows";
import { ThinkWorkflow, type ThinkWorkflowStep } from "perdure/workflow";
import type { TriageAgent } from "./agent.ts";
import { eventText, type Triage, type TriageEvent, triageSchema } from "./triage.ts";

export class TriageWorkflow extends ThinkWorkflow<TriageAgent, TriageEvent> {
  override async run(
    event: AgentWorkflowEvent<TriageEvent>,
    step: ThinkWorkflowStep,
  ): Promise<Triage> {
    const { delivery } = event.payload;

    const triage = await step.prompt("triage", {
      prompt: eventText(event.payload),
      output: triageSchema,
      timeout: "1 day",
    });

    if (triage.severity === "critical") {
      await step.do("request-approval", async () => {
        await this.agent.requestApproval(delivery, triage);
      });
      await this.waitForApproval(step, { timeout: "7 days" });
    }

    await step.do("apply-labels", async () => {
      await this.agent.applyLabels(delivery, triage);
    });

    await step.reportComplete(triage);
    return triage;
  }
}
