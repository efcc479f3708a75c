/** `perdure/think`: the host for agents built on `@cloudflare/think`. */

// Think's types, so that an app needs no second import for them; Perdure's of the same name, below, take their place.
export type * from "@cloudflare/think";
export {
  InvalidTaskError,
  PromptLostError,
  RunCancelledError,
  RunInterruptedError,
  RunTimeoutError,
  UnknownTaskError,
} from "../../scheduler/errors.ts";
export { ScheduleSyntaxError } from "../../scheduler/language/errors.ts";
export type { SubmitMessagesOptions } from "../../submissions/submit-options.ts";
export type {
  CancelSubmissionResult,
  DeleteSubmissionsOptions,
  ListSubmissionsOptions,
  SubmitMessagesResult,
  WaitForSubmissionOptions,
} from "../../submissions/types.ts";
export * from "../public.ts";
export { DurableThink, type DurableThinkOptions } from "./durable-think.ts";
export { defineScheduledTasks } from "./scheduled-tasks.ts";
