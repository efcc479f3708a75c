/** An app on `perdure/agent`. */

import { DurableAgent } from "../../../src/hosts/agent/index.ts";
import { Meter, metered, ScriptedModel } from "../../../src/testing/index.ts";
import { ALL } from "../../support/features.ts";
import { contractTasks, contractTools } from "./app.ts";

export class AgentHost extends DurableAgent<Cloudflare.Env> {
  static override readonly features = ALL;
  readonly meter: Meter;
  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    const meter = new Meter();
    super(metered(ctx, meter), env);
    this.meter = meter;
  }
  override getModel() {
    return new ScriptedModel();
  }
  override getTools() {
    return contractTools();
  }
  override getScheduledTasks() {
    return contractTasks();
  }
  override getScheduledTasksScope() {
    return "all" as const;
  }
  hear(): void {}
}
