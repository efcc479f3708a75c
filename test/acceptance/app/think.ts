/** The app on `DurableThink`. */

import type { UIMessage } from "ai";
import type { Delivery, DeliveryPolicy } from "perdure/outbox";
import { DurableThink } from "perdure/think";
import { note, putEvent, putThenThrow, type ReceiverName } from "./events.ts";
import { AGENT_FEATURES, OPTIONS } from "./features.ts";
import { remember } from "./messages.ts";
import { HeldModel } from "./model.ts";
import { receive } from "./receivers.ts";
import { defaultTimezones, scheduledTasks } from "./tasks.ts";
import { makeTools } from "./tools.ts";

export class AcceptanceThink extends DurableThink<Cloudflare.Env> {
  static override readonly features = AGENT_FEATURES;

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env, OPTIONS);
  }

  override getModel() {
    return new HeldModel();
  }
  override resolveModel(model?: unknown) {
    return new HeldModel(undefined, typeof model === "string" ? model : undefined);
  }
  override getTools() {
    return makeTools();
  }
  override getScheduledTasks() {
    return scheduledTasks(this.name) as never;
  }

  override getDefaultTimezone() {
    return defaultTimezones.get(this.name);
  }
  override getScheduledTasksScope() {
    return "all" as const;
  }
  receive(delivery: Delivery) {
    return receive(delivery);
  }
  receiveAside(delivery: Delivery) {
    return receive(delivery);
  }
  put(key: string, policy?: DeliveryPolicy, receiver?: ReceiverName) {
    return putEvent({ outbox: this.outbox, storage: this.ctx.storage }, key, policy, receiver);
  }
  putThenThrow(key: string) {
    putThenThrow({ outbox: this.outbox, storage: this.ctx.storage }, key);
  }
  note(key: string) {
    return note(key);
  }
  /** Submits a turn, and runs another one itself. */
  async submitAndSave(submitted: UIMessage, direct: UIMessage) {
    await this.submitMessages([submitted]);
    await this.saveMessages([direct]);
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
