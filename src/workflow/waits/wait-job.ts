/** A wait as a job of the engine: its states and data. Pure. */

import type { Json } from "../../core/json.ts";
import type { Job, JobEnd } from "../../engine/job.ts";
import type { Closing, Wait, WaitStatus, WaitWorkflow } from "./protocol.ts";

/** The data of a job. */
export type WaitData = {
  readonly run: string;
  readonly workflow: WaitWorkflow;
  readonly proof: string;
  readonly state?: Json | undefined;
};

/** The states of a job, by the status of the wait that it is. Once it has ended, its reason is that status. */
const STATES = {
  completed: "completed",
  rejected: "completed",
  failed: "error",
  expired: "skipped",
  cancelled: "aborted",
} as const satisfies Record<WaitStatus, JobEnd["state"]>;

export function toWait(job: Job): Wait {
  const { id: waitId, dueAt, endedAt: settledAt, data, ...rest } = job;
  const status = (job.reason ?? "open") as Wait["status"];
  const known = { waitId, settledAt, status, isLive: dueAt !== undefined };
  return { ...rest, state: undefined, ...(data as WaitData), ...known };
}

export function toEnd({ status, result }: Closing, endedBy?: string): JobEnd {
  return { state: STATES[status], reason: status, result, endedBy };
}

/** SQL for the status of a wait. */
export const STATUS = "IFNULL(reason, 'open')";

/** SQL for a field of the workflow that waits. */
export const workflowField = (field: keyof WaitWorkflow) => `data ->> '$.workflow.${field}'`;
