/** `perdure/think`: the host for agents built on `@cloudflare/think`. */

// Think's types, so that an app needs no second import for them; Perdure's of the same name, below, take their place.
export type * from "@cloudflare/think";
export { logProblem, type Problem, type ProblemType } from "../../core/problems.ts";
export {
  type Acceptance,
  type AcceptRequest,
  type Arrival,
  InboundBusyError,
  type InboundFilter,
  type InboundPage,
  type InboundSettings,
  type InspectedDelivery,
  InvalidCallError,
  InvalidDeliveryError,
  InvalidInboundFilterError,
  type ListInboundOptions,
  type LoggedCall,
  type LoggedDelivery,
  type LoggedWait,
  ReplayError,
  type ReplayFilter,
  type ReplayPage,
  type ReplayResult,
  type WaitMatch,
} from "../../inbound/index.ts";
export { InvalidOperationError } from "../../operator/errors.ts";
export {
  InvalidDestinationError,
  InvalidEventError,
  InvalidFilterError,
  OutboxFullError,
  WorkflowExistsError,
} from "../../outbox/index.ts";
export {
  InvalidTaskError,
  PromptLostError,
  RunCancelledError,
  RunInterruptedError,
  RunTimeoutError,
  ScheduleSyntaxError,
  UnknownTaskError,
} from "../../scheduler/index.ts";
export type {
  CancelSubmissionResult,
  DeleteSubmissionsOptions,
  ListSubmissionsOptions,
  SubmitMessagesOptions,
  SubmitMessagesResult,
  WaitForSubmissionOptions,
} from "../../submissions/public.ts";
export * from "../../submissions/public.ts";
export {
  type Approval,
  type ApprovalDecisionResult,
  type ApprovalMessage,
  type ApprovalRefusal,
  type ApprovalStatus,
  type ApprovalSummary,
  type GrantApprovalOptions,
  InvalidApprovalError,
  InvalidWaitError,
  type ListApprovalsOptions,
  type RejectApprovalOptions,
} from "../../waits/index.ts";
export type { ApprovalLinkOptions, LinkSettings } from "../agent/links.ts";
export type {
  ReplyMessage,
  SubmissionAudience,
  SubmissionMessage,
} from "../agent/submission-clients.ts";
export type { ThreadMessage } from "../sdk/threads.ts";
export { safeToRepeat } from "../sdk/tools.ts";
export { DurableThink, type DurableThinkOptions } from "./durable-think.ts";
export { defineScheduledTasks } from "./scheduled-tasks.ts";
