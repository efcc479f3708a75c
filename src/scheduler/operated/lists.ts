/** Scheduled tasks for operators, as lists. */

import type { Called, List, Query } from "../../engine/operated/list.ts";
import type { Scheduler } from "../scheduler.ts";
import type { ScheduledTaskInfo } from "../types.ts";
import type { Action } from "./catalog.ts";

type Stub = { readonly schedules: Called<Pick<Scheduler, "list" | "inspect" | "runs">> };
type Task = ScheduledTaskInfo;

const OCCURRENCES = 10;

export const LISTS: {
  readonly tasks: List<Task, Record<never, never>, Action>;
} = {
  tasks: {
    title: "Schedules",
    letter: "t",
    empty: "No schedule yet. Declare recurring work in getScheduledTasks().",
    id: ({ taskId }) => taskId,
    link: "Task",
    columns: {
      State: ["status", ({ state }) => state],
      Task: ["id", ({ taskId }) => taskId],
      Schedule: ["text", ({ schedule }) => schedule, 60],
      Zone: ["text", ({ timezone }) => timezone],
      Next: ["time", ({ next }) => next],
      "Last run": ["status", ({ lastRun }) => lastRun?.status],
      Failed: ["text", ({ counts }) => counts.failed],
      Skipped: ["text", ({ counts }) => counts.skipped],
      Missed: ["text", ({ counts }) => counts.missed],
    },
    actions: ({ taskId, state }) => [
      state === "paused" ? { do: "resume-task", taskId } : { do: "pause-task", taskId },
      { do: "trigger-task", taskId },
      { do: "skip-next", taskId },
      { do: "backfill", taskId, from: 0, to: 0 },
    ],
  },
};

/** Each list, as the API reads it from the agent. */
export const READS = {
  tasks: ({ schedules }: Stub, query: Query) =>
    schedules.list({ occurrences: OCCURRENCES, ...query }),
};

/** Each item with its details. */
export const OPENS = {
  tasks: ({ schedules }: Stub, id: string) => schedules.inspect(id, { occurrences: OCCURRENCES }),
};

/** The lists of an item. */
export const SUBLISTS = {
  "tasks/runs": ({ schedules }: Stub, taskId: string, query: Query) =>
    schedules.runs(taskId, query),
};
