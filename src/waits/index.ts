/** The room of the waits, for the hosts. */

export { type AgentToolPort, AgentTools } from "./agent-tools/index.ts";
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
} from "./approval-types.ts";
export { Approvals, approvalKind } from "./approvals.ts";
export { InvalidApprovalError, InvalidWaitError } from "./errors.ts";
export type {
  Closing,
  WaitEnd,
  WaitReceipt,
  WaitRequest,
} from "./types.ts";
export { Waits } from "./waits.ts";
