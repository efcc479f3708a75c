/** `perdure/outbox`: at-least-once delivery of events that committed with what they report. */

export type { Clock } from "../core/clock.ts";
export type { Duration } from "../core/duration.ts";
export type { Instant } from "../core/instant.ts";
export type { Json } from "../core/json.ts";
export { NewerSchemaError } from "../core/migrations.ts";
export { InvalidOptionError } from "../core/options.ts";
export { logProblem, type OnProblem, type Problem, type ProblemType } from "../core/problems.ts";
export type { AdapterOverrides } from "./destinations/destinations.ts";
export { agent, method, queue, webhook, workflow, workflowEvent } from "./destinations.ts";
export {
  InvalidDestinationError,
  InvalidEventError,
  InvalidFilterError,
  OutboxFullError,
  UndeliverableError,
  WorkflowExistsError,
} from "./errors.ts";
export type { OutboxSettings } from "./options.ts";
export { Outbox, type OutboxOptions } from "./outbox.ts";
export { type DedupeOptions, dedupe, type Once, type Received } from "./receiver/dedupe.ts";
export type {
  Adapter,
  AgentDestination,
  CreateInstance,
  DeadLetter,
  DeadLetterFilter,
  DeadLetterPage,
  Delivery,
  DeliveryInfo,
  DeliveryPage,
  DeliveryPolicy,
  DeliveryState,
  Destination,
  Endpoint,
  IfExists,
  InstanceOf,
  ListDeadLettersOptions,
  ListDeliveriesOptions,
  MethodDestination,
  OutboxStats,
  QueueDestination,
  ReferencedDelivery,
  StartWorkflow,
  WebhookDestination,
  WorkflowDestination,
  WorkflowStart,
  WorkflowStartDestination,
  WorkflowStartEvent,
  WorkflowStartOptions,
} from "./types.ts";
