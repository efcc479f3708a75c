/** An app on `perdure/think`. */

import { DurableThink } from "../../../src/hosts/think/index.ts";
import { Meter, metered, ScriptedModel } from "../../../src/testing/index.ts";
import { ALL } from "../../support/features.ts";
import { contractTasks, contractTools } from "./app.ts";

export class ThinkHost extends DurableThink<Cloudflare.Env> {
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
  override resolveModel(model?: unknown) {
    return new ScriptedModel(undefined, typeof model === "string" ? model : undefined);
  }
  override getTools() {
    return contractTools();
  }
  override getScheduledTasks() {
    return contractTasks() as never;
  }
  override getScheduledTasksScope() {
    return "all" as const;
  }
  hear(): void {}
}
