/** The app on `DurableAgent`. */

import { DurableAgent } from "perdure/agent";
import type { Delivery } from "perdure/outbox";
import { AGENT_FEATURES } from "./features.ts";
import { HeldModel } from "./model.ts";
import { receive } from "./receivers.ts";
import { scheduledTasks } from "./tasks.ts";
import { makeTools } from "./tools.ts";

export class AcceptanceAgent extends DurableAgent<Cloudflare.Env> {
  static override readonly features = AGENT_FEATURES;

  override getModel(id?: string) {
    return new HeldModel(undefined, id);
  }
  override getTools() {
    return makeTools();
  }
  override getScheduledTasks() {
    return scheduledTasks(this.name);
  }
  override getScheduledTasksScope() {
    return "all" as const;
  }
  receive(delivery: Delivery) {
    return receive(delivery);
  }
  /** Stops the object. What it has committed stays. */
  crash() {
    this.ctx.abort("crash of a test");
  }
}
