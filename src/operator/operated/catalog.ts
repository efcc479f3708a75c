/** Workflows, and what the report finds of no module, as data. */

import type { ActionCatalog, ActionOf, FindingCatalog } from "../../engine/operated/catalog.ts";

export type WorkflowFilter = {
  readonly status?: string | readonly string[];
  readonly workflow?: string;
  /** The name of the error that it ended with. */
  readonly error?: string;
  /** Ended at or after this time, epoch milliseconds. */
  readonly since?: number;
  /** Only these instances: up to 100. */
  readonly id?: string | readonly string[];
};

export const FINDINGS = {
  "workflow-failed": "succeeds",
  "workflow-missing": "succeeds",
  "workflow-stalled": "succeeds",
  "workflow-step-retried": "succeeds",
  "workflow-paused": "onTime",
  "workflow-terminated": "succeeds",
  "mcp-server-fails": "succeeds",
  "alerts-not-sent": "delivers",
  "work-without-alarm": "onTime",
  "alarm-without-work": "onTime",
  // Asked by the API
  "agent-unreachable": "starts",
  // A question that the report cannot answer has no verdict.
  "report-incomplete": null,
} as const satisfies FindingCatalog;

export const COUNTS = { workflows: {} as Readonly<Record<string, number>> };

const workflow = { fields: { workflowId: ["id", "the id of the instance"] } } as const;

export const ACTIONS = {
  "pause-workflow": { label: "Pause", ...workflow, does: "Pauses a workflow.", isIdempotent: true },
  "resume-workflow": {
    label: "Resume",
    ...workflow,
    filter: "workflows",
    statuses: ["paused"],
    isOfOpen: true,
    does: "Resumes a paused workflow.",
    isIdempotent: true,
  },
  "terminate-workflow": {
    label: "Terminate",
    ...workflow,
    does: "Ends a workflow, and cancels what it waits for.",
    loss: "it cannot continue",
    isDestructive: true,
    isIdempotent: true,
  },
  "restart-workflow": {
    label: "Restart",
    fields: {
      ...workflow.fields,
      step: ["step", "the step to begin from; without it, and without a filter, the beginning"],
    },
    filter: "workflows",
    statuses: ["errored", "running", "waiting", "queued", "paused", "terminated"],
    isOfOpen: true,
    does: "Starts a workflow again, from its beginning or from a step: its effects from there on are repeated. With a filter, each run begins at the step that failed, or at which it stands, unless another one is named; without a status, those that failed.",
    loss: "its steps run again",
    repeats: true,
    isDestructive: true,
  },
} as const satisfies ActionCatalog;

export type Action = ActionOf<typeof ACTIONS, { workflows: WorkflowFilter }>;
