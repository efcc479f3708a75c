/** A workflow that runs code as its params say, and returns what came of it. */

import type { AgentWorkflowEvent } from "agents/workflows";
import { z } from "zod";
import {
  CodemodeError,
  type CodemodeOptions,
  CodemodeRejectedError,
  runCode,
} from "../../../../src/features/codemode/index.ts";
import { ThinkWorkflow, type ThinkWorkflowStep } from "../../../../src/workflow/index.ts";
import { type CodemodeAgent, effects } from "./codemode-agent.ts";

const orderSchema = z.object({ done: z.string(), order: z.string() });

export type CodeParams = {
  codes: (Omit<CodemodeOptions, "output"> & {
    name: string;
    isOrder?: boolean;
    rollback?: unknown;
  })[];
  /** Asked before the code, and undone on the agent. */
  prompt?: { text: string; isBroken?: boolean };
  /** Waits for this event type after the last of them. */
  waitFor?: string;
  /** Fails at the end. */
  fail?: string;
};

export type CodeOutcome =
  | { executionId: string; output: unknown; logs?: readonly string[] }
  | { error: string; message: string; executionId?: string; calls: unknown; rejection?: unknown };

export class CodemodeWorkflow extends ThinkWorkflow<CodemodeAgent, CodeParams> {
  override async run({ payload }: AgentWorkflowEvent<CodeParams>, step: ThinkWorkflowStep) {
    const { codes, prompt, waitFor, fail } = payload;
    effects.set(`run:${this.workflowId}`, (effects.get(`run:${this.workflowId}`) ?? 0) + 1);
    if (prompt) {
      await step.prompt("ask", {
        prompt: prompt.text,
        output: orderSchema,
        rollback: prompt.isBroken
          ? ("undo it" as never)
          : async ({ output }) => {
              await this.agent.noteUndone(`${output.done}:${output.order}`);
            },
      });
    }
    const outcomes: CodeOutcome[] = [];
    for (const { name, isOrder, ...options } of codes) {
      try {
        outcomes.push(
          await runCode(step, name, {
            ...(options as CodemodeOptions),
            ...(isOrder && { output: orderSchema }),
          } as CodemodeOptions),
        );
      } catch (error) {
        if (!(error instanceof CodemodeError)) throw error;
        const { name: errorName, message, executionId, calls } = error;
        outcomes.push({
          error: errorName,
          message,
          calls,
          ...(executionId !== undefined && { executionId }),
          ...(error instanceof CodemodeRejectedError && { rejection: error.rejection }),
        });
      }
    }
    effects.set(`waits:${this.workflowId}`, 1);
    if (waitFor) await step.waitForEvent("pause", { type: waitFor, timeout: "1 hour" });
    if (fail) throw new Error(fail);
    return outcomes as never;
  }
}
