/** What the entry of every host exports besides its class. */

export { RootAgentError } from "../core/lifecycle/wake.ts";
export { logProblem, type Problem, type ProblemType } from "../core/problems.ts";
export { type Feature, FeatureNotInstalledError, NotDurableError } from "../kernel/index.ts";
export {
  InvalidDestinationError,
  InvalidEventError,
  InvalidFilterError,
  OutboxFullError,
  WorkflowExistsError,
} from "../kernel/outbox/index.ts";
export * from "../kernel/submissions/index.ts";
export {
  type Approval,
  type ApprovalDecisionResult,
  type ApprovalLink,
  type ApprovalMessage,
  type ApprovalRefusal,
  type ApprovalRequestEvent,
  type ApprovalStatus,
  type ApprovalSummary,
  type GrantApprovalOptions,
  InvalidApprovalError,
  InvalidWaitError,
  type LinkApprovalOptions,
  type ListApprovalsOptions,
  type RejectApprovalOptions,
} from "../kernel/waits/index.ts";
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
export {
  type ApprovalVerbs,
  capabilitiesOf,
  type InboundVerbs,
  type LimitVerbs,
  type OperationVerbs,
  type OutboxVerbs,
  type ScheduleVerbs,
} from "./verbs.ts";
