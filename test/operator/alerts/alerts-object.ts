/** A plain Durable Object that sends alerts to itself, or where its test says. */

import { listeners, type ModuleEvent } from "../../../src/engine/events.ts";
import { replies } from "../../../src/features/replies/index.ts";
import { type DurableVerbs, durable } from "../../../src/hosts/object/index.ts";
import type { AlertOptions } from "../../../src/operator/alerts/options.ts";
import { operations } from "../../../src/operator/operations.ts";
import type { AlertEvent } from "../../../src/operator/protocol.ts";
import { type Delivery, method, UndeliverableError } from "../../../src/outbox/index.ts";
import { ScriptedModel } from "../../../src/testing/index.ts";
import type { Feature } from "../../../src/workflow/agent/kernel.ts";
import { MeteredObject } from "../../support/objects/metered-object.ts";

/** By the object's name. Null: it declares no alerts. */
export const declared = new Map<string, Partial<AlertOptions> | null>();
/** Features that an object installs beside those for alerts, by the object's name. */
export const added = new Map<string, readonly Feature[]>();
/** What objects were sent, by their names and the delivery's id. */
const heard = new Map<string, Map<string, AlertEvent>>();

export function note(name: string, { id, event }: Delivery<AlertEvent>): void {
  heard.set(name, (heard.get(name) ?? new Map()).set(id, event));
}

/** Objects whose receiver is repaired. */
export const repaired = new Set<string>();

export const heardBy = (name: string) => [...(heard.get(name)?.values() ?? [])];

// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: durable() adds the verbs to the class.
export class AlertsObject extends MeteredObject {
  readonly durable = durable(this, {
    features: [
      operations(optionsOf(this.ctx.id.name ?? "")),
      replies({ apis: { slack: "http://127.0.0.1:9" } }),
      ...(added.get(this.ctx.id.name ?? "") ?? []),
    ],
    outbox: { allowPrivateAddresses: true },
    model: () => new ScriptedModel(),
  });

  hear(delivery: Delivery<AlertEvent>): void {
    note(this.ctx.id.name ?? "", delivery);
  }

  /** Its deliveries are dead letters at once, until {@link repaired} has the object's name. */
  refuse(): void {
    if (!repaired.has(this.ctx.id.name ?? "")) throw new UndeliverableError("It is not wanted");
  }

  /** What a module of the agent tells its listener. */
  tell(event: ModuleEvent): void {
    listeners.get(this.ctx.storage)?.(event);
  }

  /** Causes a finding. Returns the id of the dead letter. */
  fail(id: string = crypto.randomUUID()): string {
    return this.durable.outbox.put(method("refuse"), { order: 7 }, { id });
  }
}

export interface AlertsObject extends DurableVerbs {}

function optionsOf(name: string): { alerts?: AlertOptions } {
  const alerts = declared.get(name);
  return alerts === null ? {} : { alerts: { to: method("hear"), after: 1, ...alerts } };
}
