/** Types of approvals, as the people who decide see them. */

import type { Json } from "../../../core/json.ts";
import type { Duration } from "../../../core/options/options.ts";
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

/** The question of a workflow's `step.approval()`, and the decision. */
export type Approval = {
  readonly approvalId: string;
  readonly status: ApprovalStatus;
  /** The question in one line. */
  readonly title: string | null;
  /** Data that the person is shown; null if the step gives none. */
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
  /** The payload of the approval, if the step asks for one. */
  readonly payload?: Json;
};

/** Why an approval is asked for again. */
export type ApprovalRefusal = {
  /** The approval whose payload was refused. */
  readonly approvalId: string;
  /** The problem that the workflow's schema finds. */
  readonly problem: string;
};

/** The links in the notification of a request: options of `approvals.link()`. `false` for none. */
export type ApprovalLink = false | LinkApprovalOptions;

/** The event that the destinations of `notify` receive when an approval is requested. */
export type ApprovalRequestEvent = {
  readonly type: "approval.requested";
  /** When it was requested, ISO 8601. */
  readonly timestamp: string;
  readonly data: Pick<
    Approval,
    "approvalId" | "title" | "data" | "refusal" | "workflow" | "expiresAt"
  > & {
    /** Signed URLs that decide it once; left out with `link: false`. */
    readonly links?: { readonly grant: string; readonly reject: string };
  };
};

/** The request of a wait of kind `approval`. */
export type ApprovalRequest = {
  /** Destinations notified when it is requested. */
  readonly notify?: Json[];
  readonly link?: false | { by?: string; expiresIn: number; payload?: Json };
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

/** The result of a decision: the first one counts, and any later one changes nothing. */
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
   * How many at most, 1 to 100. Where they are large there may be fewer.
   * @default 50
   */
  readonly limit?: number;
  /** Of the page before. */
  readonly cursor?: string;
};

export type RejectApprovalOptions = {
  /** Who decides, e.g. the id of a user. The agent does not check it. */
  readonly by?: string;
  readonly reason?: string;
};

export type GrantApprovalOptions = RejectApprovalOptions & {
  /** A value that matches the approval's `schema`; left out without a schema. */
  readonly payload?: Json;
};

export type LinkApprovalOptions = {
  /**
   * How long the link works, e.g. `"2 days"`, at most 365 days.
   * @default "7 days"
   */
  readonly expiresIn?: Duration;
  /**
   * Who decides by it, as the decision's `by`: at most 200 characters.
   * @default "link"
   */
  readonly by?: string;
  /** What the approval's schema asks for; at most 1,000 bytes as JSON. */
  readonly payload?: Json;
};

/** The part of an approval that every client of the agent may have. */
export type ApprovalSummary = Pick<Approval, "approvalId" | "status" | "title">;

/** What clients are sent when an approval is asked for, decided, expired or cancelled: all of it only if the app says so. */
export type ApprovalMessage = {
  readonly type: "perdure:approval";
  readonly approval: Approval | ApprovalSummary;
};
