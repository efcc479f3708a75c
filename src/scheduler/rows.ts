/** The rows of the scheduler's tables, as its code has them. */

import type { Failure } from "../core/failures.ts";
import type { RunStatus } from "./runs/states.ts";
import type { RunCause } from "./types.ts";

/** Runs by how they ended. */
export type Tally = {
  readonly completed: number;
  readonly failed: number;
  readonly skipped: number;
};

/** The state of one task. Nothing that the code declares is in it, but for the fingerprint. */
export type TaskRow = {
  readonly taskId: string;
  /** Of what decides its times. */
  readonly fingerprint: string;
  /** Where intervals count from, epoch milliseconds. */
  readonly anchor: number;
  /** The next slot that has not fired; null when there is none. */
  readonly nextAt: number | null;
  /** No open run of the task has an earlier slot; null when it never had one. */
  readonly openFrom: number | null;
  readonly pausedAt: number | null;
  readonly pausedBy: "hand" | "failure" | null;
  readonly pausedNote: string | null;
  /** Slots that have fired, skipped ones too. */
  readonly fired: number;
  /** Runs that the schedule has started. */
  readonly runs: number;
  /** Failed runs since the last that did not fail. */
  readonly failures: number;
  readonly missed: number;
  /** Runs that have been forgotten. */
  readonly forgotten: Tally;
  /** Since when a paused task is not declared; null for one that is. Nothing but its pause is kept then. */
  readonly omittedAt: number | null;
};

/** What tells runs apart. */
export type RunKey = {
  readonly taskId: string;
  readonly slot: number;
  /** Empty for a run of a slot. */
  readonly triggerKey: string;
};

export type Run = RunKey & {
  readonly cause: RunCause;
  readonly status: RunStatus;
  /** Epoch milliseconds. */
  readonly firedAt: number;
  /** When it became due, behind its slot and jitter, in milliseconds. */
  readonly lagMs: number;
  readonly attempts: number;
  /** Not attempted before this; 0 for at once. */
  readonly notBefore: number;
  readonly endedAt: number | null;
  readonly error: Failure | null;
  readonly reason: string | null;
  readonly submissionId: string | null;
};

/** Names a run within its object. */
export function nameOf({ taskId, slot, triggerKey }: RunKey): string {
  return `${taskId} ${slot} ${triggerKey}`;
}

/** In the order of their slots. */
export function bySlot(a: RunKey, b: RunKey): number {
  return a.slot - b.slot || (a.triggerKey < b.triggerKey ? -1 : 1);
}

/** Whether it is done for the schedule: it fired by itself. */
export function isScheduled({ cause }: Pick<Run, "cause">): boolean {
  return cause === "schedule" || cause === "catch-up";
}
