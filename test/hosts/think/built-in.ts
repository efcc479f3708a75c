/** Think's own workflows on Think's own agent: what Perdure's cost is compared with. */

import { Think } from "@cloudflare/think";
import { ThinkWorkflow, type ThinkWorkflowStep } from "@cloudflare/think/workflows";
import type { AgentWorkflowEvent } from "agents/workflows";
import { Meter, metered, ScriptedModel } from "../../../src/testing/index.ts";
import { made } from "../../support/think-agent.ts";
import { answerSchema, type PromptParams } from "../../support/workflows/prompt-workflow.ts";

export class BuiltInAgent extends Think<Cloudflare.Env> {
  readonly meter: Meter;

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    const meter = new Meter();
    super(metered(ctx, meter), env);
    this.meter = meter;
    made.get(ctx.id.name ?? "")?.(this);
  }

  override getModel() {
    return new ScriptedModel();
  }

  async startPlainly(id: string, params: unknown): Promise<string> {
    return this.runWorkflow("BUILT_IN_WORKFLOW", params, { id });
  }
}

export class BuiltInWorkflow extends ThinkWorkflow<BuiltInAgent, PromptParams> {
  override async run(event: AgentWorkflowEvent<PromptParams>, step: ThinkWorkflowStep) {
    for (const { name, prompt } of event.payload.prompts) {
      await step.prompt(name, { prompt, output: answerSchema });
    }
    return Date.now();
  }
}
