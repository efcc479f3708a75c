/** The workflow of the soak: runs its plan, and reports the result to the receiver. */

import type { AgentWorkflowEvent } from "agents/workflows";
import { AgentToolInterruptedError, ThinkWorkflow, type ThinkWorkflowStep } from "perdure/workflow";
import { z } from "zod";
import { CUT_OFF, type Outcome, type Plan, type PlanStep } from "../words.ts";
import { ATTEMPTS, Helper, type SoakApp } from "./agents.ts";
import { calls, toPrompt } from "./model.ts";
import { type Env, tell } from "./tell.ts";

const answer = z.object({ said: z.string() });
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
    const outcome: Outcome = { workflow: id, outcome: done };
    await step.do("report", PATIENT, async () => {
      await tell(this.env, "outcomes", outcome);
      return id;
    });
    return outcome;
  }
}

/** Runs one step. Returns the answer that it got, or its error. */
async function perform(step: ThinkWorkflowStep, planned: PlanStep, name: string): Promise<string> {
  try {
    return `${planned.kind}:${await ANSWERS[planned.kind](step, planned as never, name)}`;
  } catch (error) {
    // The documented end of a child run that a crash interrupted.
    if (error instanceof AgentToolInterruptedError) return CUT_OFF;
    // The engine's own error that stops a run is not an error of the step.
    const errorName = (error as Error).name;
    if (!/^(Think|AgentTool|Approval|Webhook)/.test(errorName)) throw error;
    return `${planned.kind}!${errorName}: ${(error as Error).message}`;
  }
}

type Answers = {
  readonly [Kind in PlanStep["kind"]]: (
    step: ThinkWorkflowStep,
    planned: Extract<PlanStep, { kind: Kind }>,
    name: string,
  ) => Promise<string>;
};

const ANSWERS: Answers = {
  async prompt(step, { thread, delayMs, refusedUntil, effects, tool }, name) {
    const said = { answer: { said: name }, text: name };
    const prompt = toPrompt({ ...said, delayMs, refusedUntil, ...calls(effects, tool) });
    return (await step.prompt(name, { prompt, thread, retry, output: answer })).said;
  },
  async promptAll(step, { items, delayMs }, name) {
    const names = Array.from({ length: items }, (_, item) => `${name}.${item}`);
    const answers = await step.promptAll(name, names, {
      prompt: (item) => toPrompt({ answer: { said: item }, text: item, delayMs }),
      output: answer,
      retry,
      concurrency: 2,
    });
    return answers.map(({ said }) => said).join();
  },
  async approval(step, _, name) {
    const schema = z.object({ amount: z.number() });
    const decision = await step.approval(name, { title: name, schema, timeout: "1 hour" });
    return decision.approved && decision.payload.amount === 1 ? name : "no";
  },
  async webhook(step, _, name) {
    const schema = z.object({ key: z.string() });
    const options = {
      match: { key: name },
      schema,
      timeout: "1 hour",
      lookback: "1 hour",
    } as const;
    return (await step.webhook(name, { from: "standard-webhooks", ...options })).body.key;
  },
  async child(step, { delayMs }, name) {
    const input = toPrompt({ text: name, delayMs });
    return (await step.agentTool(name, Helper, { input, timeout: "1 hour" })).summary ?? "none";
  },
  async sleep(step, { ms }, name) {
    await step.sleep(name, ms);
    return name;
  },
};
