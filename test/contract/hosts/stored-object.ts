/** An object in whose storage every module can have rows, for test/contract/newer-schemas.test.ts. */

import { DurableObject } from "cloudflare:workers";
import { Lifecycle } from "agents/lifecycle";
import { deployments } from "perdure/deploy";
import { inbound, signedLinks } from "perdure/inbound";
import { operations } from "perdure/operator";
import { replies } from "perdure/replies";
import { schedules } from "perdure/scheduler";
import { followers } from "perdure/streams";
import { type DurableVerbs, durable } from "../../../src/hosts/object/index.ts";
import { type Delivery, dedupe, webhook } from "../../../src/outbox/index.ts";
import { defineScheduledTasks } from "../../../src/scheduler/define.ts";
import { ScriptedModel } from "../../../src/testing/index.ts";
import { LINKS } from "../../support/features.ts";
import { contractTasks, contractTools } from "./app.ts";

const SECRET = { secret: "HOOK_SECRET" };
const VERSION = "1";
const ALERTED = "https://alerts.example.com/hook";

// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: durable() adds the verbs to the class.
export class StoredObject extends DurableObject<Cloudflare.Env> {
  readonly lifecycle = Lifecycle.install(this);
  readonly durable = durable(this, {
    features: [
      deployments({ version: VERSION }),
      operations({ alerts: { to: webhook(ALERTED, SECRET), after: "2 seconds" } }),
      followers(),
      replies(),
      inbound(),
      signedLinks(LINKS),
      schedules({
        tasks: () => ({ ...contractTasks(), ...this.#tasks() }),
      }),
    ],
    model: () => new ScriptedModel(),
    tools: contractTools(),
  });

  hear(delivery: Delivery) {
    dedupe(this.ctx.storage)(delivery, () => {});
  }

  /** Whether a delivery with this id is a new one. */
  isNew(id: string): boolean {
    return dedupe(this.ctx.storage)(id, () => {});
  }

  #tasks() {
    const handler = async () => {};
    return defineScheduledTasks({
      minutely: { schedule: "every minute", handler },
      slow: { schedule: "every monday at 09:00 in Europe/Paris", handler },
    });
  }
}
export interface StoredObject extends DurableVerbs {}
