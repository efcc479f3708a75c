/** An agent that sends alerts to itself, also as a sub-agent. */

import { DurableAgent } from "../../../src/hosts/agent/index.ts";
import { operations } from "../../../src/operator/operations.ts";
import type { AlertEvent } from "../../../src/operator/protocol.ts";
import { type Delivery, method, UndeliverableError } from "../../../src/outbox/index.ts";
import { ScriptedModel } from "../../../src/testing/index.ts";
import type { Feature } from "../../../src/workflow/agent/kernel.ts";
import { note } from "./alerts-object.ts";

export const ALERTS: readonly Feature[] = [
  operations({ alerts: { to: method("hear"), after: 1 } }),
];

/** Features of agents that start now. */
export const installed = { features: ALERTS };

export class AlertsAgent extends DurableAgent<Cloudflare.Env> {
  static override get features() {
    return installed.features;
  }

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
