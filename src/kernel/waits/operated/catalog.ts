/** What workflows wait for, for operators, as data. */

import type { ActionCatalog, ActionOf, FindingCatalog } from "../../../core/operated/catalog.ts";

export const FINDINGS = {
  "approval-waits-long": "onTime",
  "approval-expires-soon": "onTime",
  "approval-expired": "onTime",
  "workflow-step-renamed": "succeeds",
} as const satisfies FindingCatalog;

export const COUNTS = { approvals: 0 };

export const ACTIONS = {
  approve: {
    label: "Approve",
    fields: { approvalId: "id", payload: "json" },
    does: "Approves what a workflow waits for.",
    isForPeople: true,
  },
  reject: {
    label: "Reject",
    fields: { approvalId: "id" },
    does: "Rejects what a workflow waits for.",
    isDestructive: true,
    isForPeople: true,
  },
} as const satisfies ActionCatalog;

export type Action = ActionOf<typeof ACTIONS, unknown>;
