/** Ask the same question about each item of a list, a few at a time. A failure is returned as a value. */

import type { AgentWorkflowEvent } from "agents/workflows";
import { ThinkWorkflow, type ThinkWorkflowStep } from "perdure/workflow";
import { z } from "zod";
import type { Desk } from "../agents.ts";

export class PromptAllExample extends ThinkWorkflow<Desk, { reviews: string[] }> {
  override async run(event: AgentWorkflowEvent<{ reviews: string[] }>, step: ThinkWorkflowStep) {
    const moods = await step.promptAll("mood", event.payload.reviews, {
      prompt: (review) => `Is this review happy? ${review}`,
      output: z.object({ isHappy: z.boolean() }),
      concurrency: 3,
      onError: "return",
    });
    const known = moods.filter((mood) => mood.status === "fulfilled");
    return { asked: moods.length, happy: known.filter(({ value }) => value.isHappy).length };
  }
}
