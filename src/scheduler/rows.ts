/** The rows of the scheduler's tables. */

import { columnOf } from "../core/sql.ts";
import { idempotencyKeyOf, type RunKey } from "./keys.ts";
import type { RunCause, RunStatus, ScheduledRun } from "./types.ts";

/** Ended runs by status. */
export type Tally = {
  readonly completed: number;
  readonly failed: number;
  readonly skipped: number;
};

/** The state of a task that has never fired. Of what the code declares it holds a fingerprint only. */
export const EMPTY_TASK = {
  taskId: "",
  /** Of the options that decide the task's times. */
  fingerprint: "",
  /** Where intervals count from, epoch milliseconds. */
  anchor: 0,
  /** The next occurrence to fire; null when there is none. */
  nextAt: null as number | null,
  /** No open run of the task has an earlier occurrence; null when it never had one. */
  openFrom: null as number | null,
  pausedAt: null as number | null,
  pausedBy: null as "hand" | "failure" | null,
  pausedNote: null as string | null,
  /** Occurrences that have fired, skipped ones too. */
  fired: 0,
  /** Failed runs since the last one that did not fail. */
  failures: 0,
  missed: 0,
  /** Runs that were deleted from the history, by how they ended. */
  prunedCompleted: 0,
  prunedFailed: 0,
  prunedSkipped: 0,
  /** When the task was found to be no longer declared; null for a declared one. */
  omittedAt: null as number | null,
};

export type TaskRow = Readonly<typeof EMPTY_TASK>;

export const TASK_FIELDS = Object.keys(EMPTY_TASK) as (keyof TaskRow)[];

/** A run that has just fired. */
export const EMPTY_RUN = {
  taskId: "",
  occurrence: 0,
  /** Empty for a run of an occurrence. */
  triggerKey: "",
  cause: "schedule" as RunCause,
  status: "waiting" as RunStatus,
  /** Epoch milliseconds. */
  firedAt: 0,
  /** How long after its occurrence and jitter it fired, in milliseconds. */
  lagMs: 0,
  attempts: 0,
  /** Not attempted before this; 0 for at once. */
  notBefore: 0,
  endedAt: null as number | null,
  submissionId: null as string | null,
  /** Of the last failed attempt. */
  errorName: null as string | null,
  errorMessage: null as string | null,
  /** Why it was skipped or cancelled. */
  reason: null as string | null,
};

export type Run = Readonly<typeof EMPTY_RUN>;

export const RUN_FIELDS = Object.keys(EMPTY_RUN) as (keyof Run)[];

/** `task_id AS taskId, ...`: rows come with the names of their fields. */
export function selected(fields: readonly (keyof TaskRow | keyof Run)[]): string {
  return fields.map((field) => `${columnOf(field)} AS ${field}`).join(", ");
}

/** A run's key as one text. */
export function nameOf({ taskId, occurrence, triggerKey }: RunKey): string {
  return `${taskId} ${occurrence} ${triggerKey}`;
}

/** Orders runs by their occurrences. */
export function byOccurrence(a: RunKey, b: RunKey): number {
  return a.occurrence - b.occurrence || (a.triggerKey < b.triggerKey ? -1 : 1);
}

/** Whether the schedule started it, and not a call. */
export function isScheduled({ cause }: Pick<Run, "cause">): boolean {
  return cause === "schedule" || cause === "catch-up";
}

/** A run as the app sees it. */
export function scheduledRunOf(run: Run, owner: string): ScheduledRun {
  return {
    taskId: run.taskId,
    idempotencyKey: idempotencyKeyOf(owner, run),
    scheduledFor: run.occurrence,
    firedAt: run.firedAt,
    lagMs: run.lagMs,
    cause: run.cause,
    status: run.status,
    attempts: run.attempts,
    ...(run.endedAt !== null && { endedAt: run.endedAt }),
    ...(run.errorName !== null && {
      error: { name: run.errorName, message: run.errorMessage ?? "" },
    }),
    ...(run.reason !== null && { reason: run.reason }),
    ...(run.submissionId !== null && { submissionId: run.submissionId }),
  };
}
