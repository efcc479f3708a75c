/** Types of approvals, as the people who decide see them. */

import type { Json } from "../../core/json.ts";
import type { WaitWorkflow } from "../protocol.ts";

export type ApprovalStatus =
  | "pending"
  | "approved"
  | "rejected"
  /** It was not decided in time: the step's `onTimeout` decides. */
  | "expired"
  /** It was approved, and the workflow's schema does not accept the payload: another approval asks again. */
  | "refused"
  /** The workflow was terminated, or what the approval was part of has ended. */
  | "cancelled";

/** What a workflow's `step.approval()` asks, and what was decided. */
export type Approval = {
  readonly approvalId: string;
  readonly status: ApprovalStatus;
  /** What is asked for, in one line. */
  readonly title: string | null;
  /** What the person is shown; null where the step gives nothing. */
  readonly data: Json;
  /** JSON Schema of the payload that approving takes, for a form; null where it takes none. */
  readonly schema: Json;
  /** Set where the payload of an earlier approval was refused, and this one asks again. */
  readonly refusal?: ApprovalRefusal;
  readonly workflow: WaitWorkflow;
  /** Epoch milliseconds. */
  readonly createdAt: number;
  /** When the step stops waiting, epoch milliseconds. */
  readonly expiresAt: number;
  /** When it was approved, rejected, expired or cancelled, epoch milliseconds. */
  readonly decidedAt?: number;
  /** Who decided, as the caller of the decision named them. */
  readonly by?: string;
  /** Why. */
  readonly reason?: string;
  /** What was approved, where the step asks for it. */
  readonly payload?: Json;
};

/** Why an approval is asked for again. */
export type ApprovalRefusal = {
  /** The approval whose payload was refused. */
  readonly approvalId: string;
  /** What the workflow's schema says of it. */
  readonly problem: string;
};

/** The request of a wait of kind `approval`. */
export type ApprovalRequest = {
  readonly title: string | null;
  readonly data: Json;
  /** JSON Schema of the payload; null where approving takes none. */
  readonly schema: Json;
  /** JSON Schema that the payload is checked by, where `schema` refuses what its step takes. */
  readonly check?: Json;
  /** Whether the step takes a decision without a payload. */
  readonly isOptional?: boolean;
  readonly refusal?: ApprovalRefusal;
};

/** What a decision did: the first one counts, and any later one changes nothing. */
export type ApprovalDecisionResult =
  | { readonly outcome: "decided"; readonly approval: Approval }
  | { readonly outcome: "already_decided"; readonly approval: Approval }
  | { readonly outcome: "not_found"; readonly approvalId: string };

export type ListApprovalsOptions = {
  /**
   * One status, or some.
   * @default "pending"
   */
  readonly status?: ApprovalStatus | readonly ApprovalStatus[];
  /** Only those of this workflow instance. */
  readonly workflowId?: string;
  /**
   * How many at most, 1 to 100. Where they are large there may be fewer: the last page is the one that is empty.
   * @default 50
   */
  readonly limit?: number;
  /** The id of an approval: only those that were asked for before it, to get the next page. */
  readonly before?: string;
};

export type RejectApprovalOptions = {
  /** Who decides, e.g. the id of a user. The agent does not check it. */
  readonly by?: string;
  readonly reason?: string;
};

export type GrantApprovalOptions = RejectApprovalOptions & {
  /** What the approval's `schema` asks for; nothing where it has none. */
  readonly payload?: Json;
};

/** What every client of the agent may know of an approval. */
export type ApprovalSummary = Pick<Approval, "approvalId" | "status" | "title">;

/** What clients are sent when an approval is asked for, decided, expired or cancelled: all of it only if the app says so. */
export type ApprovalMessage = {
  readonly type: "perdure:approval";
  readonly approval: Approval | ApprovalSummary;
};
