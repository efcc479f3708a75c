/** `perdure/workflow`: workflows that prompt their agent. */

export {
  ThinkPromptAbortedError,
  ThinkPromptError,
  ThinkPromptSkippedError,
  ThinkPromptTimeoutError,
  ThinkPromptValidationError,
} from "./errors.ts";
export type { ThinkPromptOptions } from "./prompt.ts";
export { ThinkWorkflow, type ThinkWorkflowStep } from "./think-workflow.ts";
