/** `perdure/workflow`: workflows that prompt their agent, and wait for it. */

export { SchemaMismatchError } from "../core/schema/schema.ts";
export type { AgentToolProgress } from "./agent-tool.ts";
export { DurableWorkflow, type DurableWorkflowStep } from "./durable-workflow.ts";
export {
  AgentToolAbortedError,
  AgentToolError,
  AgentToolFailedError,
  AgentToolInterruptedError,
  AgentToolTimeoutError,
  AgentToolValidationError,
  ApprovalCancelledError,
  ApprovalError,
  ApprovalPayloadError,
  ApprovalTimeoutError,
  ThinkPromptAbortedError,
  ThinkPromptError,
  ThinkPromptNotFoundError,
  ThinkPromptSkippedError,
  ThinkPromptTimeoutError,
  ThinkPromptValidationError,
  WebhookBodyError,
  WebhookCancelledError,
  WebhookError,
  WebhookTimeoutError,
} from "./errors.ts";
export type {
  PromptAllOptions,
  PromptAllResults,
  PromptAllSettled,
  PromptResult,
  PromptTarget,
  ThinkPromptOptions,
} from "./prompt-options.ts";
export type { Rollback } from "./step-call.ts";
export type * from "./steps.generated.ts";
export { ThinkWorkflow, type ThinkWorkflowStep } from "./think-workflow.ts";
