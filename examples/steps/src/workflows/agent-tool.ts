/** Let another agent do part of the work, in its own conversation. */

import type { AgentWorkflowEvent } from "agents/workflows";
import { ThinkWorkflow, type ThinkWorkflowStep } from "perdure/workflow";
import { type Desk, Researcher } from "../agents.ts";

export class AgentToolExample extends ThinkWorkflow<Desk, { topic: string }> {
  override async run(event: AgentWorkflowEvent<{ topic: string }>, step: ThinkWorkflowStep) {
    const { summary } = await step.agentTool("research", Researcher, {
      input: { topic: event.payload.topic },
      timeout: "30 minutes",
    });
    return { summary };
  }
}
