/** An app on `perdure/object`. */

import { DurableObject } from "cloudflare:workers";
import { Lifecycle } from "agents/lifecycle";
import { type DurableVerbs, durable } from "../../../src/hosts/object/index.ts";
import { Meter, metered, ScriptedModel } from "../../../src/testing/index.ts";
import { allWith } from "../../support/features.ts";
import { contractTasks, contractTools } from "./app.ts";

// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: durable() adds the verbs to the class.
export class ObjectHost extends DurableObject<Cloudflare.Env> {
  readonly meter: Meter;
  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    const meter = new Meter();
    super(metered(ctx, meter), env);
    this.meter = meter;
  }
  readonly lifecycle = Lifecycle.install(this);
  readonly durable = durable(this, {
    features: allWith(contractTasks),
    model: () => new ScriptedModel(),
    tools: contractTools(),
  });
  hear(): void {}
}
export interface ObjectHost extends DurableVerbs {}
