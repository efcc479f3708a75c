/** The object whose storage test/contract/stored/stored-schemas.test.ts writes and opens: every module has rows in it. */

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

export const SECRET = { secret: "HOOK_SECRET" };
/** Of the app that writes a database. A later one keeps it. */
export const VERSION = "1";
export const ALERTED = "https://alerts.example.com/hook";

/** What the tasks of the object with this name wait for, before they return. */
export const held = new Map<string, Promise<void>>();
/** The idempotency keys of the runs that have ended, by the object's name. */
export const ran = new Map<string, string[]>();

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
    const handler = async ({ idempotencyKey }: { idempotencyKey: string }) => {
      const { name } = this.lifecycle;
      await held.get(name);
      ran.set(name, [...(ran.get(name) ?? []), idempotencyKey]);
    };
    return defineScheduledTasks({
      minutely: { schedule: "every minute", handler },
      slow: { schedule: "every monday at 09:00 in Europe/Paris", handler },
    });
  }
}
export interface StoredObject extends DurableVerbs {}
