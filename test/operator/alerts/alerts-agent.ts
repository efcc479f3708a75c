/** An agent that sends alerts to itself, also as a sub-agent. */

import { DurableAgent } from "../../../src/hosts/agent/index.ts";
import { type Delivery, method, UndeliverableError } from "../../../src/kernel/outbox/index.ts";
import { operations } from "../../../src/operator/operations.ts";
import type { AlertEvent } from "../../../src/operator/protocol.ts";
import { ScriptedModel } from "../../../src/testing/index.ts";
import { note } from "./alerts-object.ts";

export class AlertsAgent extends DurableAgent<Cloudflare.Env> {
  static override readonly features = [operations({ alerts: { to: method("hear"), after: 1 } })];

  override getModel() {
    return new ScriptedModel();
  }

  hear(delivery: Delivery<AlertEvent>): void {
    note(this.name, delivery);
  }

  refuse(): void {
    throw new UndeliverableError("It is not wanted");
  }

  async fail(): Promise<void> {
    this.outbox.put(method("refuse"), { order: 7 });
  }
}
