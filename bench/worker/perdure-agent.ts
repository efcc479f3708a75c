/** A DurableThink with the model of the bench, and a meter. */

import { Think } from "@cloudflare/think";
import { DurableThink } from "../../src/hosts/think/index.ts";
import type { Meter } from "../../src/testing/meter.ts";
import { fillPending } from "../../test/support/ledger-scale.ts";
import { AgentVerbs } from "./agent-verbs.ts";
import { meterOf } from "./cost.ts";
import type { Env } from "./env.ts";
import { TimedModel } from "./timed-model.ts";

export class PerdureAgent extends DurableThink<Env> {
  readonly meter: Meter | undefined;

  constructor(ctx: DurableObjectState, env: Env) {
    const meter = meterOf(ctx);
    super(ctx, env, { maxPending: Number.POSITIVE_INFINITY });
    this.meter = meter;
  }

  override getModel() {
    return new TimedModel();
  }

  get verbs(): AgentVerbs {
    return new AgentVerbs(this);
  }

  /** By the `runWorkflow()` of `agents`, as Think. `npm run cost` counts a durable start separately. */
  async startPrompts(id: string, params: unknown): Promise<string> {
    return Think.prototype.runWorkflow.call(this, "PERDURE_WORKFLOW", params, { id });
  }

  /** Adds pending submissions, which is fast. */
  async fill(count: number): Promise<void> {
    fillPending(this.ctx.storage, count, Date.now());
  }

  /** The object starts again at its next call. */
  async die(): Promise<void> {
    this.ctx.abort("bench");
  }

  /** Skips pending submissions, and aborts running ones. */
  async stop(): Promise<void> {
    this.resetTurnState();
  }
}
