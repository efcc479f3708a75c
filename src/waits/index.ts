/** The room of the gates, for the hosts. */

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
export { InvalidApprovalError, InvalidGateError } from "./errors.ts";
export { Gates } from "./gates.ts";
export type {
  Closing,
  GateEnd,
  GateKinds,
  GateReceipt,
  GateRequest,
} from "./types.ts";
