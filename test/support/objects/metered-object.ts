/** A plain Durable Object with the lifecycle of `agents`, whose statements, writes and alarms are counted. */

import { DurableObject } from "cloudflare:workers";
import { Lifecycle } from "agents/lifecycle";
import { Meter, metered } from "../../../src/testing/index.ts";

export abstract class MeteredObject extends DurableObject<Cloudflare.Env> {
  readonly meter: Meter;
  readonly lifecycle = Lifecycle.install(this);

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    const meter = new Meter();
    super(metered(ctx, meter), env);
    this.meter = meter;
  }
}
