/** Workflows, and what the report finds of no module, as data. */

import type { ActionCatalog, ActionOf, FindingCatalog } from "../../core/operated/catalog.ts";

export const FINDINGS = {
  "workflow-failed": "succeeds",
  "workflow-missing": "succeeds",
  "mcp-server-fails": "succeeds",
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
      step: ["step", "the step to begin from"],
    },
    does: "Starts a workflow again, from its beginning or from a step: later steps run again.",
    loss: "its steps run again",
    isDestructive: true,
  },
} as const satisfies ActionCatalog;

export type Action = ActionOf<typeof ACTIONS, unknown>;
