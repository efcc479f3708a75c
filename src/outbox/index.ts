/** `perdure/outbox`: at-least-once delivery of events that committed with what they report. */

export { Outbox, type OutboxOptions } from "./outbox.ts";
export {
  type Courier,
  type DeadLetter,
  type Destination,
  type Entry,
  UndeliverableError,
  type WorkflowDestination,
} from "./types.ts";
export { workflowCourier } from "./workflow-event.ts";
