/** The app on `durable()`, in a plain Durable Object. */

import { DurableObject } from "cloudflare:workers";
import { Lifecycle } from "agents/lifecycle";
import { type DurableVerbs, durable } from "perdure/object";
import type { Delivery } from "perdure/outbox";
import { makeObjectFeatures } from "./features.ts";
import { HeldModel } from "./model.ts";
import { receive } from "./receivers.ts";
import { makeTools } from "./tools.ts";

// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: durable() adds the verbs to the class.
export class AcceptanceObject extends DurableObject<Cloudflare.Env> {
  readonly lifecycle = Lifecycle.install(this);
  readonly durable = durable(this, {
    features: makeObjectFeatures(() => this.lifecycle.name),
    model: (id) => new HeldModel(undefined, id),
    tools: makeTools(),
  });
  receive(delivery: Delivery) {
    return receive(delivery);
  }
  /** Stops the object. What it has committed stays. */
  crash() {
    this.ctx.abort("crash of a test");
  }
}
export interface AcceptanceObject extends DurableVerbs {}
