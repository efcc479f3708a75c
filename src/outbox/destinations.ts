/** Names destinations. What these return is plain data, which is stored with each entry. */

import { checkBytes, lostInJson } from "../core/json.ts";
import { problemOfNames } from "../core/options.ts";
import { InvalidDestinationError, InvalidEventError } from "./errors.ts";
import type {
  AgentDestination,
  DeliveryPolicy,
  Destination,
  MethodDestination,
  QueueDestination,
  WebhookDestination,
  WorkflowDestination,
  WorkflowStart,
  WorkflowStartOptions,
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

/** Of a workflow's params as JSON. The platform's limit is 1 MiB, of which an agent adds who it is. */
const MAX_PARAMS_BYTES = 1_048_576 - 16_384;
const START_OPTIONS = [
  "id",
  "params",
  "retention",
  "metadata",
  "agentBinding",
  "ifExists",
  "policy",
] as const satisfies readonly (keyof WorkflowStartOptions)[];

/**
 * A new instance of a Workflow, for `outbox.put()`: it is started once, when the caller's transaction has committed.
 * An agent of Perdure tracks the instance, as `runWorkflow()` does.
 *
 * @param binding the Workflow's binding name in `env`
 * @throws InvalidDestinationError for an unknown option
 * @throws InvalidEventError for params or metadata that JSON cannot hold, or that are too large
 * @example
 * this.ctx.storage.transactionSync(() => {
 *   this.sql`INSERT INTO orders (id) VALUES (${id})`;
 *   this.outbox.put(workflow("ORDER_WORKFLOW", { id, params: { order: id } }));
 * });
 */
export function workflow<Params = unknown>(
  binding: string,
  options: WorkflowStartOptions<Params> = {},
): WorkflowStart {
  const unknown = problemOfNames("workflow()", options, START_OPTIONS);
  if (unknown) throw new InvalidDestinationError(unknown.message);
  const { id = crypto.randomUUID(), ifExists, policy, ...event } = options;
  for (const [name, value] of Object.entries(event)) checkJson(name, value);
  return {
    id: `start:${binding}:${id}`,
    destination: {
      kind: "workflow-start",
      workflow: binding,
      instance: id,
      ...(ifExists !== undefined && { ifExists }),
      ...(policy !== undefined && { policy }),
    },
    event,
  };
}

export function isStart(to: Destination | WorkflowStart): to is WorkflowStart {
  return typeof to === "object" && to !== null && "destination" in to;
}

/** @throws InvalidEventError for what a workflow would not receive as it is */
function checkJson(name: string, value: unknown): void {
  const lost = lostInJson(value);
  if (lost) {
    throw new InvalidEventError(
      `${name}${lost}, which JSON cannot hold. Pass texts, finite numbers, booleans, null, arrays and plain objects.`,
    );
  }
  const refuse = (message: string) => new InvalidEventError(message);
  checkBytes(name, JSON.stringify(value) ?? "", { maxBytes: MAX_PARAMS_BYTES, refuse });
}
