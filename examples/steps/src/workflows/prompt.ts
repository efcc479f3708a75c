/** Ask the agent for a typed answer, and then for a text about it. */

import type { AgentWorkflowEvent } from "agents/workflows";
import { ThinkWorkflow, type ThinkWorkflowStep } from "perdure/workflow";
import { z } from "zod";
import type { Desk } from "../agents.ts";

const ticket = z.object({ title: z.string(), severity: z.enum(["low", "high"]) });

export class PromptExample extends ThinkWorkflow<Desk, { report: string }> {
  override async run(event: AgentWorkflowEvent<{ report: string }>, step: ThinkWorkflowStep) {
    const { output, usage, attempts } = await step.promptResult("file", {
      prompt: `File a ticket for: ${event.payload.report}`,
      output: ticket,
      repair: 2,
      timeout: "1 hour",
    });
    const reply = await step.prompt("reply", {
      prompt: `Write to the customer about "${output.title}".`,
      thread: "isolated",
    });
    return { severity: output.severity, reply, tokens: usage?.totalTokens, attempts };
  }
}
