/** The workflow of the soak: runs its plan, and reports the result to the receiver. */

import type { AgentWorkflowEvent } from "agents/workflows";
import { AgentToolInterruptedError, ThinkWorkflow, type ThinkWorkflowStep } from "perdure/workflow";
import { z } from "zod";
import { ask } from "../../../src/testing/scripted-model.ts";
import { CUT_OFF, type Outcome, type Plan, type PlanStep } from "../words.ts";
import { ATTEMPTS, type Env, Helper, type SoakApp, tell } from "./agents.ts";
import { calls, type SoakScript, soakAsk } from "./model.ts";

const answer = z.object({ n: z.number() });
const retry = { maxAttempts: ATTEMPTS };
/** The receiver always runs, but a request may fail when the machine is killed. */
const PATIENT = { retries: { limit: 50, delay: "1 second", backoff: "constant" } } as const;

export class SoakWorkflow extends ThinkWorkflow<SoakApp, Plan, object, Env> {
  override async run({ payload }: AgentWorkflowEvent<Plan>, step: ThinkWorkflowStep) {
    const { id, steps } = payload;
    const done: string[] = [];
    for (const [index, planned] of steps.entries()) {
      done.push(await perform(step, planned, `${id}-${index}`));
    }
    const outcome: Outcome = { workflow: id, outcome: done.join(" ") };
    await step.do("report", PATIENT, async () => {
      await tell(this.env, "outcomes", outcome);
      return outcome.outcome;
    });
    return outcome;
  }
}

/** Runs one step. Returns a fixed text if it succeeds, or the name of its error. */
async function perform(step: ThinkWorkflowStep, planned: PlanStep, name: string): Promise<string> {
  try {
    return await performed(step, planned, name);
  } catch (error) {
    // The documented end of a child run that a crash interrupted.
    if (error instanceof AgentToolInterruptedError) return CUT_OFF;
    // The engine's own error that stops a run is not an error of the step.
    const errorName = (error as Error).name;
    if (!/^(Think|AgentTool|Approval)/.test(errorName)) throw error;
    return `${planned.kind}!${errorName}: ${(error as Error).message}`;
  }
}

async function performed(
  step: ThinkWorkflowStep,
  planned: PlanStep,
  name: string,
): Promise<string> {
  switch (planned.kind) {
    case "prompt": {
      const { thread, delayMs, refusedUntil, effects } = planned;
      const asked = { answer: { n: 7 }, text: name, delayMs, refusedUntil };
      const script: SoakScript = { ...asked, ...calls(effects, "effect") };
      const prompt = soakAsk(script);
      const { n } = await step.prompt(name, { prompt, thread, retry, output: answer });
      return `prompt:${n}`;
    }
    case "promptAll": {
      const items = Array.from({ length: planned.items }, (_, item) => item);
      const answers = await step.promptAll(name, items, {
        prompt: (n) => ask({ answer: { n }, text: `${name}-${n}`, delayMs: planned.delayMs }),
        output: answer,
        retry,
        concurrency: 2,
      });
      return `promptAll:${answers.map(({ n }) => n).join(",")}`;
    }
    case "approval": {
      const schema = z.object({ amount: z.number() });
      const decision = await step.approval(name, { title: name, schema, timeout: "1 hour" });
      return decision.approved ? `approval:${decision.payload.amount}` : "approval:no";
    }
    case "child": {
      const input = ask({ text: "researched", delayMs: planned.delayMs });
      const { summary } = await step.agentTool(name, Helper, { input, timeout: "1 hour" });
      return `child:${summary}`;
    }
    case "sleep":
      await step.sleep(name, planned.ms);
      return "sleep";
  }
}
