/** `perdure/think`: the host for agents built on `@cloudflare/think`. */

export {
  type Approval,
  type ApprovalDecisionResult,
  type ApprovalMessage,
  type ApprovalStatus,
  type ApprovalSummary,
  type GrantApprovalOptions,
  InvalidApprovalError,
  type ListApprovalsOptions,
  type RejectApprovalOptions,
} from "../../gates/index.ts";
export { safeToRepeat } from "../sdk/recorded-tools.ts";
export { DurableThink } from "./durable-think.ts";
export { defineScheduledTasks } from "./scheduled-tasks.ts";
export type { DurableThinkOptions } from "./think-rooms.ts";
