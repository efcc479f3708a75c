/** A workflow that asks about many items as its params say, and returns what came of it. */

import type { AgentWorkflowEvent, AgentWorkflowStep } from "agents/workflows";
import { type LongText, longText } from "../../../src/testing/index.ts";
import {
  type PromptAllSettled,
  ThinkPromptError,
  ThinkWorkflow,
  type ThinkWorkflowStep,
} from "../../../src/workflow/index.ts";
import type { ThinkAgent } from "../think-agent.ts";
import { answerSchema } from "./prompt-workflow.ts";
import { watchSteps } from "./watched-steps.ts";

export type PromptAllParams = {
  name?: string;
  /** The prompts; a key is before the `=`, where `hasKeys`. */
  items: string[];
  hasKeys?: boolean;
  /** Each prompt is a list of messages. */
  asMessages?: boolean;
  options?: {
    concurrency?: number;
    onError?: "throw" | "return";
    timeout?: number;
    thread?: string;
  };
  /** Say of each value whether its title is this text, in place of the value. */
  title?: LongText;
};

export type PromptAllOutcome =
  | { values: unknown[] }
  | { settled: PromptAllSettled<unknown>[] }
  | { error: string; message: string; index?: number; key?: string; submissionId: string };

export class PromptAllWorkflow extends ThinkWorkflow<ThinkAgent, PromptAllParams> {
  protected override extendStep(
    step: AgentWorkflowStep,
    event: AgentWorkflowEvent<PromptAllParams>,
  ): ThinkWorkflowStep {
    watchSteps(step, this.workflowId);
    return super.extendStep(step, event);
  }

  override async run(
    { payload }: AgentWorkflowEvent<PromptAllParams>,
    step: ThinkWorkflowStep,
  ): Promise<PromptAllOutcome> {
    const {
      name = "all",
      items,
      hasKeys,
      asMessages,
      title,
      options: { onError, ...options } = {},
    } = payload;
    const common = {
      ...options,
      prompt: (item: string) => {
        const text = hasKeys ? item.slice(item.indexOf("=") + 1) : item;
        return asMessages
          ? [{ role: "user" as const, parts: [{ type: "text" as const, text }] }]
          : text;
      },
      output: answerSchema,
      ...(hasKeys && { key: (item: string) => item.slice(0, item.indexOf("=")) }),
    };
    try {
      if (onError === "return") {
        return { settled: await step.promptAll(name, items, { ...common, onError }) };
      }
      const values = await step.promptAll(name, items, {
        ...common,
        ...(onError !== undefined && { onError }),
      });
      return { values: title ? values.map((value) => value.title === longText(title)) : values };
    } catch (error) {
      if (!(error instanceof ThinkPromptError)) throw error;
      const { name: errorName, message, submissionId, index, key } = error;
      return {
        error: errorName,
        message,
        submissionId,
        ...(index !== undefined && { index }),
        ...(key !== undefined && { key }),
      };
    }
  }
}
