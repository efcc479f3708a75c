/** The app on `DurableThink`. */

import type { Delivery } from "perdure/outbox";
import { DurableThink } from "perdure/think";
import { AGENT_FEATURES } from "./features.ts";
import { HeldModel } from "./model.ts";
import { receive } from "./receivers.ts";
import { scheduledTasks } from "./tasks.ts";
import { makeTools } from "./tools.ts";

export class AcceptanceThink extends DurableThink<Cloudflare.Env> {
  static override readonly features = AGENT_FEATURES;

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
