/** A plain Durable Object whose options fail in the way that its tests ask for. */

import { DurableObject } from "cloudflare:workers";
import { Lifecycle } from "agents/lifecycle";
import { type DurableVerbs, durable } from "../../../src/hosts/object/index.ts";
import { ScriptedModel } from "../../../src/testing/index.ts";

/** What fails, by the start of the object's name. */
export type Failing =
  | "none"
  | "model-throws"
  | "model-garbage"
  | "tools-hang"
  | "before-turn-throws";

// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: durable() adds the verbs to the class.
export class AttackedObject extends DurableObject<Cloudflare.Env> {
  readonly lifecycle = Lifecycle.install(this);
  readonly durable = durable(this, {
    stallTimeout: "1 second",
    model: () => {
      if (this.fails("model-throws")) throw new Error("no key for the model");
      return this.fails("model-garbage") ? ({ not: "a model" } as never) : new ScriptedModel();
    },
    tools: () => (this.fails("tools-hang") ? new Promise<never>(() => {}) : {}),
    beforeTurn: () => {
      if (this.fails("before-turn-throws")) throw new Error("no turns today");
    },
  });
  private fails(failing: Failing) {
    return this.lifecycle.name.startsWith(failing);
  }
}
export interface AttackedObject extends DurableVerbs {}
