/** The workflows of the bench: prompts by Perdure and by Think, and pairs of the engine's own steps. */

import {
  DurableObject,
  WorkflowEntrypoint,
  type WorkflowEvent,
  type WorkflowStep,
} from "cloudflare:workers";
import { ThinkWorkflow, type ThinkWorkflowStep } from "@cloudflare/think/workflows";
import type { AgentWorkflowEvent } from "agents/workflows";
import { z } from "zod";
import * as perdure from "../../src/workflow/index.ts";
import { countSteps } from "../../test/support/engine-steps.ts";
import type { BuiltInBench } from "./built-in.ts";
import type { Env } from "./env.ts";
import { ends, type Span, steps } from "./marks.ts";

export type PromptsParams = { readonly texts: readonly string[]; readonly thread?: string };
/** @property asksFirst whether the instance is asked for its status before it is sent an event, as a delivery does */
export type PairsParams = { readonly count: number; readonly asksFirst: boolean };

const output = z.object({ title: z.string(), count: z.number().int() });

export class PerdurePrompts extends perdure.ThinkWorkflow<never, PromptsParams> {
  override async run(
    { payload }: AgentWorkflowEvent<PromptsParams>,
    step: perdure.ThinkWorkflowStep,
  ) {
    const thread = payload.thread === undefined ? {} : { thread: payload.thread };
    countSteps(this.workflowId, step);
    await timed(this.workflowId, payload.texts, (name, prompt) =>
      step.prompt(name, { prompt, output, ...thread }),
    );
  }
}

export class BuiltInPrompts extends ThinkWorkflow<BuiltInBench, PromptsParams> {
  override async run({ payload }: AgentWorkflowEvent<PromptsParams>, step: ThinkWorkflowStep) {
    countSteps(this.workflowId, step);
    await timed(this.workflowId, payload.texts, (name, prompt) =>
      step.prompt(name, { prompt, output }),
    );
  }
}

/** The minimum of a prompt: a step that calls an object, and a wait for the event that it sends. */
export class EnginePairs extends WorkflowEntrypoint<Env, PairsParams> {
  override async run(event: Readonly<WorkflowEvent<PairsParams>>, step: WorkflowStep) {
    const { instanceId, payload } = event;
    const names = Array.from({ length: payload.count }, (_, index) => String(index));
    const echo = this.env.Echo.getByName(instanceId);
    await timed(instanceId, names, async (name) => {
      await step.do(`ask ${name}`, () => echo.send(instanceId, `sent-${name}`, payload.asksFirst));
      await step.waitForEvent(`wait ${name}`, { type: `sent-${name}`, timeout: 60_000 });
    });
  }
}

/** As long as the log entries of a prompt. The engine reads its whole log for each event. */
const RECEIPT = "x".repeat(200);
const PAYLOAD = { delivery: "x".repeat(500) };

/** Sends events on request, after it has answered. */
export class Echo extends DurableObject<Env> {
  async send(instance: string, type: string, asksFirst: boolean): Promise<string> {
    this.ctx.waitUntil(this.#sent(instance, type, asksFirst));
    return RECEIPT;
  }

  async #sent(id: string, type: string, asksFirst: boolean): Promise<void> {
    const instance = await this.env.ENGINE_WORKFLOW.get(id);
    if (asksFirst) await instance.status();
    await instance.sendEvent({ type, payload: PAYLOAD });
  }
}

/** Records the duration of each step, and the end of the workflow. */
async function timed(
  id: string,
  texts: readonly string[],
  work: (name: string, text: string) => Promise<unknown>,
): Promise<void> {
  const spans: Span[] = [];
  steps.set(id, spans);
  try {
    for (const [index, text] of texts.entries()) {
      const from = Date.now();
      await work(`step-${index}`, text);
      spans.push({ from, to: Date.now() });
    }
    ends.set(id, "complete");
  } catch (error) {
    ends.set(id, error);
    throw error;
  }
}
