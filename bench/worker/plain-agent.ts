/** An Agent of the SDK with durable turns, without the conversation of Think. */

import { Agent } from "agents";
import { DurableAgent } from "perdure/agent";
import type { Meter } from "perdure/testing";
import { type Cost, costOf, counting, meterOf } from "./cost.ts";
import type { Env } from "./env.ts";
import { sleep } from "./marks.ts";
import { TimedModel } from "./timed-model.ts";

export class PlainAgent extends DurableAgent<Env> {
  readonly meter: Meter | undefined;

  constructor(ctx: DurableObjectState, env: Env) {
    const meter = meterOf(ctx);
    super(ctx, env);
    this.meter = meter;
  }

  override getModel() {
    return new TimedModel();
  }

  /** By the `runWorkflow()` of `agents`, as Think. `npm run cost` counts a durable start separately. */
  async startPrompts(id: string, params: unknown): Promise<string> {
    const options = { id, agentBinding: "PlainAgent" };
    return Agent.prototype.runWorkflow.call(this, "PERDURE_WORKFLOW", params, options);
  }

  async reset(): Promise<void> {
    counting(this.meter).reset();
  }

  async cost(): Promise<Cost> {
    await sleep(300);
    return costOf(counting(this.meter));
  }
}
