/** Scheduled tasks for operators, as data. */

import type { ActionCatalog, ActionOf, FindingCatalog } from "../../engine/operated/catalog.ts";

export const FINDINGS = {
  "task-paused": "onTime",
  "task-omitted": "onTime",
  "task-invalid": "onTime",
  "task-failing": "onTime",
  "task-late": "onTime",
  "task-missed": "onTime",
  "task-skips": "onTime",
  "task-never-runs": "onTime",
} as const satisfies FindingCatalog;

export const COUNTS = { tasks: { active: 0, paused: 0, finished: 0, invalid: 0 } };

const task = { fields: { taskId: ["id", "the id of the scheduled task"] } } as const;

export const ACTIONS = {
  "pause-task": {
    label: "Pause",
    ...task,
    does: "Stops a scheduled task until it is resumed.",
    isIdempotent: true,
  },
  "resume-task": {
    label: "Resume",
    ...task,
    does: "Lets a paused task run again.",
    isIdempotent: true,
  },
  "trigger-task": { label: "Run now", ...task, does: "Runs a scheduled task now." },
  "skip-next": { label: "Skip next", ...task, does: "Skips the next run of a scheduled task." },
  "remove-task": {
    label: "Remove",
    ...task,
    does: "Deletes a task that the code no longer declares, with its open runs, history and trigger keys.",
    loss: "its accepted runs are lost",
    isDestructive: true,
    isIdempotent: true,
  },
  backfill: {
    label: "Backfill",
    fields: {
      ...task.fields,
      from: ["time", "the begin of the period"],
      to: ["time", "its end, which is not part of it"],
    },
    does: "Runs the occurrences of a past period, except those that have run.",
    isIdempotent: true,
  },
} as const satisfies ActionCatalog;

export type Action = ActionOf<typeof ACTIONS, unknown>;
