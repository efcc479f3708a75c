/** Names destinations. What these return is plain data, which is stored with each entry. */

import type {
  AgentDestination,
  DeliveryPolicy,
  MethodDestination,
  QueueDestination,
  WebhookDestination,
  WorkflowDestination,
} from "./types.ts";

type Own<To> = Omit<To, "kind">;
type OwnPolicy = { readonly policy?: DeliveryPolicy };

/**
 * A Workflow instance that waits for an event. Its `event.payload` is the
 * {@link Delivery}, or a {@link ReferencedDelivery} above a bit less than 1 MiB (O4).
 */
export function workflowEvent(to: Own<WorkflowDestination>): WorkflowDestination {
  return { kind: "workflow", ...to };
}

/**
 * An HTTP endpoint. The request's body is the event as JSON; `webhook-id`,
 * `webhook-timestamp` and `webhook-signature` are those of Standard Webhooks,
 * `webhook-attempt` is the number of the attempt. In `webhook-id`, full stops and
 * what a header cannot carry are percent-encoded.
 * https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 *
 * @param secret the name of the binding that has the secret, never the secret
 *   itself; while it is rotated, the names of the new one and of the old one
 */
export function webhook(
  url: string,
  { secret, ...options }: OwnPolicy & { secret: string | readonly string[] },
): WebhookDestination {
  const secrets = typeof secret === "string" ? [secret] : secret;
  return { kind: "webhook", url, secrets, ...options };
}

/** A Cloudflare Queue, by its producer's binding. The message is the {@link Delivery}, as JSON. */
export function queue(binding: string, options: OwnPolicy = {}): QueueDestination {
  return { kind: "queue", queue: binding, ...options };
}

/** A method of the agent itself, called with the {@link Delivery}. */
export function method(name: string, options: OwnPolicy = {}): MethodDestination {
  return { kind: "method", method: name, ...options };
}

/** A method of another agent or Durable Object, called over RPC with the {@link Delivery}. */
export function agent(to: Own<AgentDestination>): AgentDestination {
  return { kind: "agent", ...to };
}
