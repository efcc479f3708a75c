/** What the entry of every host exports besides its class. */

export {
  type ApprovalVerbs,
  capabilitiesOf,
  type InboundVerbs,
  type LimitVerbs,
  type OperationVerbs,
  type OutboxVerbs,
  type ScheduleVerbs,
} from "./verbs.ts";

// Errors, and the types of what the verbs take and return.

export { logProblem, type Problem, type ProblemType } from "../core/problems.ts";
export { InvalidFilterError } from "../engine/page.ts";
export { RootAgentError } from "../engine/wake.ts";
export {
  InvalidDestinationError,
  InvalidEventError,
  OutboxFullError,
  WorkflowExistsError,
} from "../outbox/errors.ts";
export * from "../submissions/index.ts";
export { NotDurableError } from "../workflow/agent/capabilities.ts";
export { FeatureNotInstalledError } from "../workflow/agent/features.ts";
export type { Feature } from "../workflow/agent/kernel.ts";
export { InvalidApprovalError, InvalidWaitError } from "../workflow/waits/errors.ts";
export type {
  Approval,
  ApprovalDecisionResult,
  ApprovalLink,
  ApprovalMessage,
  ApprovalRefusal,
  ApprovalRequestEvent,
  ApprovalStatus,
  ApprovalSummary,
  GrantApprovalOptions,
  LinkApprovalOptions,
  ListApprovalsOptions,
  RejectApprovalOptions,
} from "../workflow/waits/kinds/approval-types.ts";
export type {
  ReplyMessage,
  SubmissionAudience,
  SubmissionMessage,
} from "./agent/clients.ts";
export type { HostName } from "./limitations.ts";
export {
  type DurableToolContext,
  type DurableToolOptions,
  durableTool,
  InvalidToolStepError,
  type ToolStep,
} from "./sdk/durable-tool.ts";
export type { ThreadMessage } from "./sdk/threads.ts";
export { safeToRepeat } from "./sdk/tools.ts";
export { NotSupportedByHostError } from "./support.ts";
