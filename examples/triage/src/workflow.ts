/**
 * The triage of one event as a durable workflow: ask the model, wait for an approval if it is critical, write the labels.
 * Labels are written by the delivery's id, so a repeated step changes nothing.
 */

import type { AgentWorkflowEvent } from "agents/workflows";
import { ThinkWorkflow, type ThinkWorkflowStep } from "perdure/workflow";
import type { TriageAgent } from "./agent.ts";
import { eventText, type TriageEvent, triageSchema } from "./triage.ts";

export class TriageWorkflow extends ThinkWorkflow<TriageAgent, TriageEvent> {
  override async run({ payload }: AgentWorkflowEvent<TriageEvent>, step: ThinkWorkflowStep) {
    const triage = await step.prompt("triage", {
      prompt: eventText(payload),
      output: triageSchema,
      timeout: "1 day",
    });
    const { approved } =
      triage.severity === "critical"
        ? await step.approval("critical", { title: triage.title, data: triage, timeout: "7 days" })
        : { approved: true };
    if (approved) {
      await step.do("apply-labels", async () => {
        await this.agent.applyLabels(payload.delivery, triage);
      });
    }
    await step.reportComplete(triage);
    return triage;
  }
}
