/** The rows of the scheduler's tables. */

import { idempotencyKeyOf } from "./keys.ts";
import type { RunCause, RunStatus, ScheduledRun } from "./types.ts";

/** Ended runs by status. */
export type Tally = {
  readonly completed: number;
  readonly failed: number;
  readonly skipped: number;
};

/** The state of one task. Of what the code declares it holds a fingerprint only. */
export type TaskRow = {
  readonly taskId: string;
  /** Of the options that decide the task's times. */
  readonly fingerprint: string;
  /** Where intervals count from, epoch milliseconds. */
  readonly anchor: number;
  /** The next occurrence to fire; null when there is none. */
  readonly nextAt: number | null;
  /** No open run of the task has an earlier occurrence; null when it never had one. */
  readonly openFrom: number | null;
  readonly pausedAt: number | null;
  readonly pausedBy: "hand" | "failure" | null;
  readonly pausedNote: string | null;
  /** Occurrences that have fired, skipped ones too. */
  readonly fired: number;
  /** Runs that the schedule has started. */
  readonly runs: number;
  /** Failed runs since the last one that did not fail. */
  readonly failures: number;
  readonly missed: number;
  /** Runs that were deleted from the history, by how they ended. */
  readonly prunedCompleted: number;
  readonly prunedFailed: number;
  readonly prunedSkipped: number;
  /** When a paused task was found to be no longer declared; null for a declared one. Only its pause is kept then. */
  readonly omittedAt: number | null;
};

/** A task that has never fired. */
export const EMPTY_TASK: TaskRow = {
  taskId: "",
  fingerprint: "",
  anchor: 0,
  nextAt: null,
  openFrom: null,
  pausedAt: null,
  pausedBy: null,
  pausedNote: null,
  fired: 0,
  runs: 0,
  failures: 0,
  missed: 0,
  prunedCompleted: 0,
  prunedFailed: 0,
  prunedSkipped: 0,
  omittedAt: null,
};

export const TASK_FIELDS = Object.keys(EMPTY_TASK) as (keyof TaskRow)[];

/** Identifies a run within its object. */
export type RunKey = {
  readonly taskId: string;
  readonly occurrence: number;
  /** Empty for a run of an occurrence. */
  readonly triggerKey: string;
};

export type Run = RunKey & {
  readonly cause: RunCause;
  readonly status: RunStatus;
  /** Epoch milliseconds. */
  readonly firedAt: number;
  /** How long after its occurrence and jitter it fired, in milliseconds. */
  readonly lagMs: number;
  readonly attempts: number;
  /** Not attempted before this; 0 for at once. */
  readonly notBefore: number;
  readonly endedAt: number | null;
  readonly submissionId: string | null;
  /** Of the last failed attempt. */
  readonly errorName: string | null;
  readonly errorMessage: string | null;
  /** Why it was skipped or cancelled. */
  readonly reason: string | null;
};

/** A run that has just fired. */
export const EMPTY_RUN: Run = {
  taskId: "",
  occurrence: 0,
  triggerKey: "",
  cause: "schedule",
  status: "waiting",
  firedAt: 0,
  lagMs: 0,
  attempts: 0,
  notBefore: 0,
  endedAt: null,
  submissionId: null,
  errorName: null,
  errorMessage: null,
  reason: null,
};

export const RUN_FIELDS = Object.keys(EMPTY_RUN) as (keyof Run)[];

/** `task_id` for `taskId`. */
export function columnOf(field: keyof TaskRow | keyof Run): string {
  return field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

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
