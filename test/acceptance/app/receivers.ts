/**
 * Records outside of the objects: effects of tools, deliveries and runs of tasks, each by its key. They are in the memory of the
 * isolate that all objects of the test worker share, so a crash of an object leaves them.
 */

import type { Delivery } from "perdure/outbox";

/** Lists by key. */
export class Receiver<Item> {
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

/** Calls of the tool `charge`, by account. */
export const charges = new Receiver<string>();
/** Steps of the durable tool `ship` as `name idempotencyKey`, by account. */
export const shipments = new Receiver<string>();
/** Deliveries to the method `receive()` of an object, by the submission or the event's key. */
export const deliveries = new Receiver<Delivery>();
/** Idempotency keys of the scheduled handler `note`, by the object's name. */
export const taskRuns = new Receiver<string>();

/** Keys of deliveries that are refused, with the number of refusals left. */
export const refusals = new Map<string, number>();

type AppEvent = { readonly data: { readonly submissionId?: string; readonly key?: string } };

/** The method `receive()` of every object. The key of an event of the app is in its data. */
export function receive(delivery: Delivery): void {
  const { submissionId, key = submissionId } = (delivery.event as AppEvent).data;
  if (key === undefined) throw new Error(`A delivery without a key: ${JSON.stringify(delivery)}`);
  const left = refusals.get(key) ?? 0;
  refusals.set(key, left - 1);
  if (left > 0) throw new Error(`Refused: ${left} refusals left`);
  deliveries.receive(key, delivery);
}

/** Starts of `run()` of a workflow, by instance. A replay is a start. */
export const workflowRuns = new Receiver<string>();
