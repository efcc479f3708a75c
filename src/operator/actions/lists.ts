/** The audit log for operators, as data. */

import type { List, Query } from "../../core/operated/list.ts";
import type { Page, PageOptions } from "../../core/page.ts";
import type { AuditEntry } from "../protocol.ts";

type Stub = { readonly operations: { listActions(page: PageOptions): Promise<Page<AuditEntry>> } };

export const LISTS: { readonly actions: List<AuditEntry, Record<never, never>> } = {
  actions: {
    title: "Audit log",
    empty: "No action yet. What operators do is recorded here.",
    id: ({ auditId }) => auditId,
    link: "Action",
    columns: {
      Outcome: ["status", ({ outcome }) => outcome],
      When: ["time", ({ at }) => at],
      Who: ["text", ({ by }) => by, 30],
      Action: ["text", ({ action }) => action.do, 30],
      Target: ["text", ({ action: { do: _, ...target } }) => target, 60],
      Reason: ["text", ({ reason }) => reason, 60],
      Count: ["text", ({ count }) => count],
    },
    isWhole: true,
  },
};

/** Each list, as the API reads it from the agent. */
export const READS = {
  actions: ({ operations }: Stub, query: Query) => operations.listActions(query),
};
