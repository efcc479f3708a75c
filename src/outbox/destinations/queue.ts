/**
 * Tells a Cloudflare Queue: the message is the delivery, as JSON. What it
 * never gets over:
 *
 * | failure | why for good |
 * |---|---|
 * | the message is too large (10204) | the next attempt has the same |
 *
 * A queue that is full, overloaded, paused or deleted is tried again: people
 * put that right. https://developers.cloudflare.com/queues/reference/error-codes/
 */

import { UndeliverableError } from "../errors.ts";
import type { Adapter, QueueDestination } from "../types.ts";
import { Bindings, bytesOf, problemOfTexts, says } from "./bindings.ts";

/** Of a message: 128 KB of 1,000 bytes. https://developers.cloudflare.com/queues/platform/limits/ */
const LIMIT = 128_000;
/** Below the limit, which counts about 100 bytes of the platform's own. */
const MAX_BYTES = LIMIT - 1_000;
const TOO_LARGE = /\(10204\)|payload too large/i;

/**
 * Makes the adapter for Queues.
 *
 * @param env the object's bindings
 */
export function queueAdapter(env: object): Adapter<QueueDestination> {
  const queues = new Bindings<Queue>(env, {
    what: "Queue producer",
    section: "queues.producers",
    methods: ["send", "sendBatch"],
  });
  return {
    maxBytes: MAX_BYTES,
    timeoutMs: 30_000,
    keyOf: ({ queue }) => `queue ${JSON.stringify(queue)}`,
    problemOf: ({ queue }) => problemOfTexts({ queue }) ?? queues.problemOf("queue", queue),
    async deliver({ queue }, delivery) {
      const binding = queues.get(queue);
      try {
        await binding.send(delivery, { contentType: "json" });
      } catch (error) {
        if (!says(error, TOO_LARGE) && bytesOf(delivery) <= LIMIT) throw error;
        throw new UndeliverableError(
          `Queue ${queue} takes no message as large as delivery ${delivery.id}`,
          { cause: error },
        );
      }
    },
  };
}
