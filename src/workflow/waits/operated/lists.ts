/** What workflows wait for, for operators, as lists. */

import type { Called, List, Query } from "../../../engine/operated/list.ts";
import type { Approvals } from "../kinds/approval.ts";
import type { Approval, ListApprovalsOptions } from "../kinds/approval-types.ts";
import type { Action } from "./catalog.ts";

type Stub = { readonly approvals: Called<Pick<Approvals, "list" | "inspect">> };
type Filter = Pick<ListApprovalsOptions, "status" | "workflowId">;

const STATUSES = ["pending", "approved", "rejected", "expired", "refused", "cancelled"] as const;

export const LISTS: {
  readonly approvals: List<Approval, Filter, Action>;
} = {
  approvals: {
    title: "Approvals",
    letter: "a",
    empty: "No approval yet. What step.approval() of a workflow asks for appears here.",
    id: ({ approvalId }) => approvalId,
    link: "Title",
    columns: {
      Status: ["status", ({ status }) => status],
      Title: ["text", ({ title, approvalId }) => title ?? approvalId, 60],
      Approval: ["id", ({ approvalId }) => approvalId],
      Workflow: ["text", ({ workflow }) => workflow.id, 30],
      Asked: ["time", ({ createdAt }) => createdAt],
      Expires: ["time", ({ expiresAt }) => expiresAt],
      By: ["text", ({ by }) => by, 30],
    },
    filters: { status: STATUSES, workflowId: "text" },
    actions: ({ approvalId, status, schema }) =>
      status === "pending"
        ? [
            // The dialog asks for the payload.
            { do: "approve", approvalId, ...(schema !== null && { payload: null }) },
            { do: "reject", approvalId },
          ]
        : [],
  },
};

/** Each list, as the API reads it from the agent. */
export const READS = {
  approvals: ({ approvals }: Stub, query: Query) => approvals.list({ status: STATUSES, ...query }),
};

/** Each item with its details. */
export const OPENS = {
  approvals: ({ approvals }: Stub, id: string) => approvals.inspect(id),
};
