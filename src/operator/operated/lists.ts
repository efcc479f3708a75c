/** Workflows and the audit log for operators, as lists. */

import type { Json } from "../../core/json.ts";
import type { Effect } from "../../engine/operated/effect.ts";
import type { List, Query } from "../../engine/operated/list.ts";
import type { Page, PageOptions } from "../../engine/page.ts";
import type { Action, WorkflowFilter } from "./catalog.ts";

export type WorkflowSummary = {
  readonly workflowId: string;
  readonly workflow: string;
  readonly status: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly endedAt?: number;
  readonly error?: { readonly name: string; readonly message: string };
};

export type WorkflowStep = {
  readonly name: string;
  /** Which of the platform's steps of this name it is, from 2 on. */
  readonly count?: number;
  /** `prompt`, `approval`, `webhook`, `agent-tool`, `batch`; `do`, `sleep` and `event` only from the platform's events. */
  readonly kind: string;
  readonly status: string;
  readonly startedAt: number;
  readonly endedAt?: number;
  readonly submissionIds?: readonly string[];
  readonly approvalId?: string;
  readonly error?: string;
  /** In dollars, of all attempts and repairs. */
  readonly cost?: number;
  /** At most 1,000 characters: the prompt, or the request as JSON. Left out above 64 KiB. */
  readonly input?: string;
  /** The beginning of the answer or the result, as JSON. A batch has neither. */
  readonly output?: string;
};

export type WorkflowDetails = WorkflowSummary & {
  readonly output?: Json;
  /** Of its steps, in dollars. */
  readonly cost?: number;
  readonly steps: readonly WorkflowStep[];
};

export const STATUSES = [
  ...(["queued", "running", "paused", "errored", "terminated", "complete"] as const),
  ...(["waiting", "waitingForPause", "unknown"] as const),
] as const;

/** An entry of the audit log. The action is typed in `operator/protocol.ts`, which knows the filters of all lists. */
export type AuditEntry<Of = { readonly do: string }> = {
  readonly auditId: string;
  readonly at: number;
  readonly by: string;
  readonly reason: string;
  readonly action: Of;
  /** `started`: the agent stopped before it was known. */
  readonly outcome: Effect["outcome"] | "started";
  readonly count: number;
  readonly error?: string;
};

type Stub = {
  readonly operations: {
    listWorkflows(options: WorkflowFilter & PageOptions): Promise<Page<WorkflowSummary>>;
    inspectWorkflow(id: string): Promise<WorkflowDetails | null>;
    listActions(page: PageOptions): Promise<Page<AuditEntry>>;
  };
};

export const LISTS: {
  readonly workflows: List<WorkflowSummary, WorkflowFilter, Action>;
  readonly actions: List<AuditEntry, Record<never, never>>;
} = {
  workflows: {
    title: "Workflows",
    letter: "w",
    empty: "No workflow yet. Those that the agent starts appear here.",
    id: ({ workflowId }) => workflowId,
    link: "Instance",
    columns: {
      Status: ["status", ({ status }) => status],
      Instance: ["id", ({ workflowId }) => workflowId],
      Workflow: ["text", ({ workflow }) => workflow, 30],
      Started: ["time", ({ createdAt }) => createdAt],
      Changed: ["time", ({ updatedAt }) => updatedAt],
      Error: ["text", ({ error }) => error?.message],
    },
    filters: { status: STATUSES, workflow: "text", error: "text", since: "time", id: "texts" },
    actions: ({ workflowId, status }) => {
      const whole: Action = { do: "restart-workflow", workflowId };
      if (status === "complete") return [whole];
      const restart: Action = { ...whole, step: "failed" };
      if (/^(errored|terminated)$/.test(status)) return [restart];
      const held: Action =
        status === "paused"
          ? { do: "resume-workflow", workflowId }
          : { do: "pause-workflow", workflowId };
      return [held, restart, { do: "terminate-workflow", workflowId }];
    },
  },
  actions: {
    title: "Audit log",
    letter: "u",
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
  workflows: ({ operations }: Stub, query: Query) => operations.listWorkflows(query),
  actions: ({ operations }: Stub, query: Query) => operations.listActions(query),
};

/** Each item with its details. */
export const OPENS = {
  workflows: ({ operations }: Stub, id: string) => operations.inspectWorkflow(id),
};
