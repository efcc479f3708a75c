/** The app of the contract on `perdure/object`. */

import { DurableObject } from "cloudflare:workers";
import { Lifecycle } from "agents/lifecycle";
import { type DurableVerbs, durable } from "../../../src/hosts/object/index.ts";
import { ScriptedModel } from "../../../src/testing/index.ts";
import { contractTools } from "./app.ts";

// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: durable() adds the verbs to the class.
export class ObjectHost extends DurableObject<Cloudflare.Env> {
  readonly lifecycle = Lifecycle.install(this);
  readonly durable = durable(this, {
    model: (id) => new ScriptedModel(undefined, id),
    tools: contractTools(),
  });
}
export interface ObjectHost extends DurableVerbs {}
