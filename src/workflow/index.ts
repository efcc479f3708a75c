/** `perdure/workflow`: workflows that prompt their agent, and wait for it. */

export { SchemaMismatchError } from "../core/schema.ts";
export type { AgentToolProgress } from "../waits/agent-tools/types.ts";
export type { Rollback } from "./compensation.ts";
export type { PromptResult } from "./prompts/answer.ts";
export {
  ThinkPromptAbortedError,
  ThinkPromptError,
  ThinkPromptNotFoundError,
  ThinkPromptSkippedError,
  ThinkPromptTimeoutError,
  ThinkPromptValidationError,
} from "./prompts/errors.ts";
export type { PromptTarget, ThinkPromptOptions } from "./prompts/options.ts";
export type {
  PromptAllOptions,
  PromptAllResults,
  PromptAllSettled,
} from "./prompts/prompt-all-options.ts";
export type { SleepUntilNextOptions } from "./sleep-until-next.ts";
export { ThinkWorkflow, type ThinkWorkflowStep } from "./think-workflow.ts";
export type { AgentToolClass, AgentToolOptions, AgentToolResult } from "./waits/agent-tool.ts";
export {
  AgentToolAbortedError,
  AgentToolError,
  AgentToolFailedError,
  AgentToolInterruptedError,
  AgentToolTimeoutError,
  AgentToolValidationError,
} from "./waits/agent-tool-errors.ts";
export type { ApprovalDecision, ApprovalOnTimeout, ApprovalOptions } from "./waits/approval.ts";
export {
  ApprovalCancelledError,
  ApprovalError,
  ApprovalPayloadError,
  ApprovalTimeoutError,
} from "./waits/approval-errors.ts";
