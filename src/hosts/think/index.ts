/** `perdure/think`: the host for agents built on `@cloudflare/think`. */

// Think's types, so that an app needs no second import for them; Perdure's of the same name, below, take their place.
export type * from "@cloudflare/think";
export type {
  CancelSubmissionResult,
  DeleteSubmissionsOptions,
  ListSubmissionsOptions,
  SubmitMessagesOptions,
  SubmitMessagesResult,
  WaitForSubmissionOptions,
} from "../../kernel/submissions/index.ts";
export {
  InvalidTaskError,
  PromptLostError,
  RunCancelledError,
  RunInterruptedError,
  RunTimeoutError,
  ScheduleSyntaxError,
  UnknownTaskError,
} from "../../scheduler/index.ts";
export * from "../public.ts";
export { DurableThink, type DurableThinkOptions } from "./durable-think.ts";
export { defineScheduledTasks } from "./scheduled-tasks.ts";
