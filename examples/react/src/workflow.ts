/** Sends a draft after a person approved it. */

import type { AgentWorkflowEvent } from "agents/workflows";
import { ThinkWorkflow, type ThinkWorkflowStep } from "perdure/workflow";
import type { Desk } from "./agent.ts";

type Draft = { submissionId: string; text: string };

export class SendWorkflow extends ThinkWorkflow<Desk, Draft> {
  override async run({ payload }: AgentWorkflowEvent<Draft>, step: ThinkWorkflowStep) {
    const { submissionId, text } = payload;
    const decision = await step.approval("send", {
      title: "Send this answer?",
      data: { submissionId, text },
      timeout: "3 days",
      onTimeout: "reject",
    });
    // A real workflow sends an e-mail here, in its own step.
    return { isSent: decision.approved };
  }
}
