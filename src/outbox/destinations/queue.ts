/**
 * Delivers to a Cloudflare Queue: the message is the delivery, as JSON. A message that is too large (error 10204) is a
 * permanent failure. A queue that is full, overloaded, paused or deleted is retried.
 * https://developers.cloudflare.com/queues/reference/error-codes/
 */

import { oneOf, optionsOf } from "../../core/options/option-schemas.ts";
import { POLICY } from "../delivery/policy.ts";
import { messageMatches, UndeliverableError } from "../errors.ts";
import type { Adapter, AdapterContext, WithPolicy } from "./adapter.ts";
import { type BindingKind, bindingOf, bytesOf, NAME, problemOfBinding } from "./bindings.ts";

/** A Cloudflare Queue. */
export type QueueDestination = WithPolicy & {
  readonly kind: "queue";
  /** The producer's binding name in `env`. */
  readonly queue: string;
};

/** A Cloudflare Queue, by its producer's binding. The message is the {@link Delivery}, as JSON. */
export function queue(binding: string, options: WithPolicy = {}): QueueDestination {
  return { kind: "queue", queue: binding, ...options };
}

/** Of a message: 128 KB of 1,000 bytes. https://developers.cloudflare.com/queues/platform/limits/ */
const LIMIT = 128_000;
/** Below the limit, which counts about 100 bytes of the platform's own. */
const MAX_BYTES = LIMIT - 1_000;
const TOO_LARGE = /\(10204\)|payload too large/i;

const QUEUE: BindingKind<Queue> = {
  what: "Queue producer",
  section: "queues.producers",
  methods: ["send", "sendBatch"],
};

export const KINDS = {
  queue: {
    schema: optionsOf<QueueDestination>()({
      kind: oneOf(["queue"]),
      queue: NAME,
      policy: POLICY.optional(),
    }),
    connect({ env }: Pick<AdapterContext, "env">): Adapter<QueueDestination> {
      return {
        maxBytes: MAX_BYTES,
        timeoutMs: 30_000,
        keyOf: ({ queue }) => `queue ${JSON.stringify(queue)}`,
        labelOf: ({ queue }) => queue,
        problemOf: ({ queue }) => problemOfBinding(env, QUEUE, "queue", queue),
        async deliver({ queue }, delivery) {
          const binding = bindingOf(env, QUEUE, queue);
          try {
            await binding.send(delivery, { contentType: "json" });
          } catch (error) {
            if (!messageMatches(error, TOO_LARGE) && bytesOf(delivery) <= LIMIT) throw error;
            const message = `Queue ${queue} takes no message as large as delivery ${delivery.id}`;
            throw new UndeliverableError(message, { cause: error });
          }
        },
      };
    },
  },
};
