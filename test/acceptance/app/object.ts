/** The app on `durable()`, in a plain Durable Object. */

import { DurableObject } from "cloudflare:workers";
import { Lifecycle } from "agents/lifecycle";
import { Sessions } from "agents/sessions";
import { type DurableVerbs, durable } from "perdure/object";
import type { Delivery, DeliveryPolicy } from "perdure/outbox";
import { note, putEvent, putThenThrow, type ReceiverName } from "./events.ts";
import { makeObjectFeatures, OPTIONS } from "./features.ts";
import { remember } from "./messages.ts";
import { HeldModel } from "./model.ts";
import { receive } from "./receivers.ts";
import { makeTools } from "./tools.ts";

// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: durable() adds the verbs to the class.
export class AcceptanceObject extends DurableObject<Cloudflare.Env> {
  readonly sessions = new Sessions();
  readonly lifecycle = Lifecycle.install(this).use(this.sessions);
  readonly durable = durable(this, {
    ...OPTIONS,
    features: makeObjectFeatures(() => this.lifecycle.name),
    model: (id) => new HeldModel(undefined, id),
    tools: makeTools(),
  });
  receive(delivery: Delivery) {
    return receive(delivery);
  }
  receiveAside(delivery: Delivery) {
    return receive(delivery);
  }
  put(key: string, policy?: DeliveryPolicy, receiver?: ReceiverName) {
    return putEvent(
      { outbox: this.durable.outbox, storage: this.ctx.storage },
      key,
      policy,
      receiver,
    );
  }
  putThenThrow(key: string) {
    putThenThrow({ outbox: this.durable.outbox, storage: this.ctx.storage }, key);
  }
  note(key: string) {
    return note(key);
  }
  /** Keeps a text in a session of the app. Returns all texts of that session. */
  remember(text: string) {
    return remember(this.sessions, text);
  }
  /** Stops the object. What it has committed stays. */
  crash() {
    this.ctx.abort("crash of a test");
  }
}
export interface AcceptanceObject extends DurableVerbs {}
