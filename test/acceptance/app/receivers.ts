/**
 * Records outside of the objects: effects of tools, deliveries and runs of tasks, each by its key. They are in the memory of the
 * isolate that all objects of the test worker share, so a crash of an object leaves them.
 */

import type { Delivery } from "perdure/outbox";
import { findHold } from "./hold.ts";

/** Lists by key. */
class Receiver<Item> {
  readonly #items = new Map<string, Item[]>();

  receive(key: string, item: Item): void {
    this.#items.set(key, [...this.get(key), item]);
  }

  get(key: string): readonly Item[] {
    return this.#items.get(key) ?? [];
  }

  count(key: string): number {
    return this.get(key).length;
  }
}

/** Calls of the tools `charge` and `lookUp`, by account. */
export const charges = new Receiver<string>();
/** Steps of the durable tool `ship` as `name idempotencyKey`, by account. */
export const shipments = new Receiver<string>();
/** Tool results that each call of the model gets, as JSON, by the `id` of the script. */
export const toolResults = new Receiver<string>();
/** Deliveries to the method `receive()` of an object, by submission, or by the key of an event of the app. */
export const deliveries = new Receiver<Delivery>();
/** Idempotency keys of scheduled handlers, by the name of the object and the task. */
export const taskRuns = new Receiver<string>();
/** Effects of arrivals, by key. */
export const effects = new Receiver<string>();
/** Starts of `run()` of a workflow, by instance. A replay is a start. */
export const workflowRuns = new Receiver<string>();
/** Params that a workflow has received, by instance. */
export const receivedParams = new Receiver<unknown>();

/** Refusals that are left, by the key of a delivery or an effect. */
export const refusals = new Map<string, number>();

/** @throws Error while the key has refusals */
export function refuse(key: string): void {
  const left = refusals.get(key) ?? 0;
  if (left <= 0) return;
  refusals.set(key, left - 1);
  throw new Error(`Refused: ${left - 1} refusals left`);
}

type AppEvent = {
  readonly data: {
    readonly submissionId?: string;
    readonly approvalId?: string;
    readonly key?: string;
  };
};

/** The method `receive()` of every object. A delivery whose key is the id of a hold waits there. */
export async function receive(delivery: Delivery): Promise<void> {
  const {
    submissionId,
    approvalId,
    key = submissionId ?? approvalId,
  } = (delivery.event as AppEvent).data;
  if (key === undefined) throw new Error(`A delivery without a key: ${JSON.stringify(delivery)}`);
  refuse(key);
  await findHold(key)?.pass();
  deliveries.receive(key, delivery);
}
