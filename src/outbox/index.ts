/** `perdure/outbox`: at-least-once delivery of events that committed with what they report. */

export type { Clock } from "../core/clock.ts";
export type { Duration } from "../core/duration.ts";
export type { Json } from "../core/json.ts";
export { InvalidOptionError } from "../core/options.ts";
export type { AdapterOverrides } from "./adapters/adapters.ts";
export { type DedupeOptions, dedupe, type Once, type Received } from "./dedupe.ts";
export { agent, method, queue, webhook, workflowEvent } from "./destinations.ts";
export {
  InvalidDestinationError,
  InvalidEventError,
  InvalidFilterError,
  OutboxFullError,
  UndeliverableError,
} from "./errors.ts";
export type { OutboxSettings } from "./options.ts";
export { Outbox, type OutboxOptions } from "./outbox.ts";
export type {
  Adapter,
  AgentDestination,
  DeadLetter,
  DeadLetterFilter,
  DeadLetterPage,
  Delivery,
  DeliveryPolicy,
  DeliveryState,
  Destination,
  Endpoint,
  InstanceOf,
  ListDeadLettersOptions,
  MethodDestination,
  OutboxStats,
  QueueDestination,
  ReferencedDelivery,
  WebhookDestination,
  WorkflowDestination,
} from "./types.ts";
