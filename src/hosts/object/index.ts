/** `perdure/object`: the host for a plain Durable Object with a Lifecycle. */

export { defineScheduledTasks } from "../../scheduler/define.ts";
export {
  DurableWorkflow,
  type DurableWorkflowStep,
} from "../../workflow/durable-workflow.ts";
export * from "../public.ts";
export type { TurnOverrides, TurnStart } from "../sdk/app-source.ts";
export { Durable, type DurableVerbs, durable, type LifecycleDurableObject } from "./durable.ts";
export type { DurableOptions } from "./options.ts";
