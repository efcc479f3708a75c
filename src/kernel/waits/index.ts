/** What the hosts use of the waits. */

export { InvalidApprovalError, InvalidWaitError, MOST_BYTES } from "./errors.ts";
export { Approvals, approvalKind, approvalRequest, STATUS_OF } from "./kinds/approval.ts";
export type {
  Approval,
  ApprovalDecisionResult,
  ApprovalMessage,
  ApprovalRefusal,
  ApprovalRequest,
  ApprovalStatus,
  ApprovalSummary,
  GrantApprovalOptions,
  ListApprovalsOptions,
  RejectApprovalOptions,
} from "./kinds/approval-types.ts";
export type {
  BATCH_TIMEOUT,
  BatchEnd,
  BatchFailure,
  BatchItem,
  BatchPage,
  BatchReceipt,
  BatchRef,
  BatchRepairs,
  BatchRequest,
} from "./kinds/batch.ts";
export { BatchKind } from "./kinds/batch.ts";
export type { PromptMessage, PromptRequest, ThinkPromptReceipt } from "./kinds/prompt.ts";
export { NOT_FOUND, PromptKind } from "./kinds/prompt.ts";
export type {
  StepCalls,
  StoredKind,
} from "./protocol.ts";
export {
  type Closing,
  STORED_KINDS,
  type Wait,
  type WaitKindName,
  type WaitPart,
  type WaitReceipt,
  type WaitRef,
  type WaitStatus,
  type WaitWorkflow,
} from "./protocol.ts";
export { endRun, hasOpenWait, type StepRow, stepsWithPrefix } from "./steps.ts";
export { type TracedWait, waitsOfWorkflow } from "./traced.ts";
export { GRACE_MS, Waits } from "./waits.ts";
