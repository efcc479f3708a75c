/** `perdure/outbox`: at-least-once delivery of events that commit with the state that they report. */

export type { Clock } from "../core/clock.ts";
export type { Json } from "../core/json.ts";
export type { Instant } from "../core/options/instant.ts";
export type { Duration } from "../core/options/options.ts";
export { InvalidOptionError } from "../core/options/options.ts";
export { logProblem, type OnProblem, type Problem, type ProblemType } from "../core/problems.ts";
export { NewerSchemaError } from "../engine/migrations.ts";
export { InvalidFilterError, type Page } from "../engine/page.ts";
export { RootAgentError } from "../engine/wake.ts";
export type { DeliveryPolicy } from "./delivery/policy.ts";
export type {
  Adapter,
  AdapterContext,
  AnyDestination,
  AttemptContext,
  Delivery,
  DestinationKind,
  FieldProblem,
  ReferencedDelivery,
} from "./destinations/adapter.ts";
export { type AgentDestination, agent } from "./destinations/agent.ts";
export type { Destination, OtlpDestination } from "./destinations/index.ts";
export { type MethodDestination, method } from "./destinations/method.ts";
export { type QueueDestination, queue } from "./destinations/queue.ts";
export { type WebhookDestination, webhook } from "./destinations/webhook.ts";
export {
  type InstanceOf,
  type WorkflowDestination,
  workflowEvent,
} from "./destinations/workflow-event.ts";
export {
  type CreateInstance,
  type IfExists,
  type StartWorkflow,
  type WorkflowStart,
  type WorkflowStartDestination,
  type WorkflowStartEvent,
  type WorkflowStartOptions,
  workflow,
} from "./destinations/workflow-start.ts";
export {
  InvalidDestinationError,
  InvalidEventError,
  OutboxFullError,
  RefusedError,
  UndeliverableError,
  WorkflowExistsError,
} from "./errors.ts";
export type { OutboxSettings } from "./options.ts";
export { Outbox, type OutboxOptions } from "./outbox.ts";
export { type DedupeOptions, dedupe, type Once, type Received } from "./receiver/dedupe.ts";
export type {
  DeadLetter,
  DeadLetterFilter,
  DeliveryInfo,
  DeliveryState,
  Endpoint,
  ListDeadLettersOptions,
  ListDeliveriesOptions,
  OutboxStats,
} from "./types.ts";
