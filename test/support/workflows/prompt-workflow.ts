/** A workflow that prompts as its params say, and returns what came of it. */

import type { AgentWorkflowEvent, AgentWorkflowStep } from "agents/workflows";
import { z } from "zod";
import { type LongText, longText } from "../../../src/testing/index.ts";
import {
  ThinkPromptError,
  ThinkWorkflow,
  type ThinkWorkflowStep,
} from "../../../src/workflow/index.ts";
import type { ThinkAgent } from "../think-agent.ts";
import { watchSteps } from "./watched-steps.ts";

export const answerSchema = z.object({ title: z.string(), count: z.number().int() });

export type PromptParams = {
  prompts: {
    name: string;
    prompt: string;
    key?: string;
    thread?: string;
    timeout?: number;
    cancelOnTimeout?: boolean;
    /** `"date"`: a schema without a JSON form. */
    schema?: "date";
    /** What the title of the answer has to be, and in place of which the outcome says whether it is. */
    title?: LongText;
  }[];
};

export type PromptOutcome =
  | { answer: z.infer<typeof answerSchema>; at: number }
  | { isWhole: boolean }
  | { error: string; message: string; submissionId: string };

export class PromptWorkflow extends ThinkWorkflow<ThinkAgent, PromptParams> {
  protected override extendStep(
    step: AgentWorkflowStep,
    event: AgentWorkflowEvent<PromptParams>,
  ): ThinkWorkflowStep {
    watchSteps(step, this.workflowId);
    return super.extendStep(step, event);
  }

  override async run(event: AgentWorkflowEvent<PromptParams>, step: ThinkWorkflowStep) {
    const outcomes: PromptOutcome[] = [];
    for (const { name, schema, title, ...options } of event.payload.prompts) {
      const output = schema === "date" ? answerSchema.extend({ when: z.date() }) : answerSchema;
      try {
        const answer = await step.prompt(name, { ...options, output });
        if (title) outcomes.push({ isWhole: answer.title === longText(title) });
        else outcomes.push({ answer, at: Date.now() });
      } catch (error) {
        if (!(error instanceof ThinkPromptError)) throw error;
        const { name: errorName, message, submissionId } = error;
        outcomes.push({ error: errorName, message, submissionId });
      }
    }
    return outcomes;
  }
}
