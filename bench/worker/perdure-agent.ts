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

  /** By agents' own `runWorkflow()`, as the built-in: `npm run cost` counts a durable start apart. */
  async startPrompts(id: string, params: unknown): Promise<string> {
    return Think.prototype.runWorkflow.call(this, "PERDURE_WORKFLOW", params, { id });
  }

  /** Adds so many that wait, which takes no time. */
  async fill(count: number): Promise<void> {
    fillPending(this.ctx.storage, count, Date.now());
  }

  /** What waits is skipped, and what runs is aborted. */
  async stop(): Promise<void> {
    this.resetTurnState();
  }
}
