/** A wait as a job of the engine: its states and data. Pure. */

import type { Json } from "../../core/json.ts";
import type { Job, JobEnd } from "../../engine/job.ts";
import type { Closing, Wait, WaitWorkflow } from "./protocol.ts";

/** The data of a job. */
export type WaitData = {
  readonly run: string;
  readonly workflow: WaitWorkflow;
  readonly proof: string;
  readonly state?: Json | undefined;
};

/** The states of a job, as its store lists them, by the status of the wait. */
export const STATES = {
  open: "pending",
  completed: "completed",
  rejected: "completed/rejected",
  failed: "error",
  expired: "skipped",
  cancelled: "aborted",
} as const satisfies Record<Wait["status"], string>;

const STATUSES = Object.entries(STATES) as [Wait["status"], string][];

export function getStatus({ state, reason }: Pick<Job, "state" | "reason">): Wait["status"] {
  const stored = state === "completed" && reason !== undefined ? `${state}/${reason}` : state;
  const [status] = STATUSES.find(([, listed]) => listed === stored) ?? [];
  return status ?? "open";
}

export function toWait(job: Job): Wait {
  const { run, workflow, proof, state } = job.data as WaitData;
  const { id: waitId, kind, parent, topic, request, result, createdAt, expiresAt } = job;
  return {
    ...{ waitId, kind, run, workflow, parent, proof, topic, request, state, result },
    ...{ createdAt, expiresAt, settledAt: job.endedAt },
    status: getStatus(job),
    isLive: job.dueAt !== undefined,
  };
}

export function toEnd({ status, result }: Closing, endedBy?: string): JobEnd {
  const [state, reason] = STATES[status].split("/") as [JobEnd["state"], string | undefined];
  return { state, reason, result, endedBy };
}

/** SQL for the status of a wait. */
export const STATUS = `CASE ${STATUSES.map(
  ([status, listed]) => `WHEN state || IFNULL('/' || reason, '') = '${listed}' THEN '${status}'`,
).join(" ")} END`;

/** SQL for a field of the workflow that waits. */
export const workflowField = (field: keyof WaitWorkflow) => `data ->> '$.workflow.${field}'`;
