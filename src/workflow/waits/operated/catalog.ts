/** What workflows wait for, for operators, as data. */

import type { ActionCatalog, ActionOf, FindingCatalog } from "../../../engine/operated/catalog.ts";

export const FINDINGS = {
  "approval-waits-long": "onTime",
  "approval-expires-soon": "onTime",
  "approval-expired": "onTime",
  "workflow-step-renamed": "succeeds",
} as const satisfies FindingCatalog;

export const COUNTS = { approvals: 0 };

const approval = { fields: { approvalId: ["id", "the id of the approval"] } } as const;

export const ACTIONS = {
  approve: {
    label: "Approve",
    fields: { ...approval.fields, payload: ["json", "what the approval asks for"] },
    does: "Approves what a workflow waits for.",
    isForPeople: true,
  },
  reject: {
    label: "Reject",
    ...approval,
    does: "Rejects what a workflow waits for.",
    isDestructive: true,
    isForPeople: true,
  },
} as const satisfies ActionCatalog;

export type Action = ActionOf<typeof ACTIONS, unknown>;
