/** Events and effects of the app itself, beside its turns. */

import type { OutboxVerbs } from "perdure/agent";
import { type DeliveryPolicy, method } from "perdure/outbox";
import { effects, refuse } from "./receivers.ts";

type Owner = { readonly storage: DurableObjectStorage; readonly outbox: OutboxVerbs };

/** Methods of the object that are destinations of their own. */
export type ReceiverName = "receive" | "receiveAside";

/** Sends an event to a method of the same object. */
export function putEvent(
  { outbox }: Owner,
  key: string,
  policy: DeliveryPolicy = {},
  name: ReceiverName = "receive",
): string {
  return outbox.put(method(name, { policy }), { data: { key } });
}

/** Puts an event in a transaction that is rolled back. */
export function putThenThrow(owner: Owner, key: string): void {
  owner.storage.transactionSync(() => {
    putEvent(owner, key);
    throw new Error("The transaction is rolled back");
  });
}

/** An effect that a handler of arrivals calls for. Refused while `refusals` has the key. */
export function note(key: string): string {
  refuse(key);
  effects.receive(key, "note");
  return `noted ${key}`;
}
