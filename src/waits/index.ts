/** What the hosts use of the waits. */

export { InvalidApprovalError, InvalidWaitError } from "./errors.ts";
export { Approvals, approvalKind } from "./kinds/approval.ts";
export type {
  Approval,
  ApprovalDecisionResult,
  ApprovalMessage,
  ApprovalRefusal,
  ApprovalStatus,
  ApprovalSummary,
  GrantApprovalOptions,
  ListApprovalsOptions,
  RejectApprovalOptions,
} from "./kinds/approval-types.ts";
export { BatchKind } from "./kinds/batch.ts";
export { NOT_FOUND, PromptKind } from "./kinds/prompt.ts";
export type {
  StepCalls,
  StoredKind,
} from "./protocol.ts";
export { Waits } from "./waits.ts";
