/**
 * A job: a row with a key, a due time and a fenced transition, whose end notifies its waiter. The engine knows no kind of job; a kind
 * says how its jobs go on, and what their ends mean.
 */

import type { Json } from "../core/json.ts";

export type JobState = "pending" | "running" | "completed" | "error" | "aborted" | "skipped";

/** The states that may follow each state. */
const TRANSITIONS = {
  pending: ["running", "completed", "error", "aborted", "skipped"],
  running: ["pending", "completed", "error", "aborted", "skipped"],
  // The waiter cannot take the result.
  completed: ["error"],
  // A redrive, or a retry on demand.
  error: ["pending"],
  // The run that had ended continues.
  aborted: ["pending"],
  // A backfill.
  skipped: ["pending"],
} as const satisfies Record<JobState, readonly JobState[]>;

const STATES = Object.keys(TRANSITIONS) as JobState[];

/** States from which a job may move to this one. */
export function statesBefore(state: JobState): JobState[] {
  return STATES.filter((from) => (TRANSITIONS[from] as readonly JobState[]).includes(state));
}

/** States of jobs that have not ended. */
export const OPEN: readonly JobState[] = ["pending", "running"];

/** A stored job. Times are epoch milliseconds. */
export type Job = {
  readonly seq: number;
  readonly id: string;
  /** The name of its kind. */
  readonly kind: string;
  /** Its idempotency key. */
  readonly key: string | undefined;
  readonly state: JobState;
  /** Detail of the state, e.g. `rejected` for a completed approval. */
  readonly reason: string | undefined;
  /** The id of the job that it is part of, and ends with. */
  readonly parent: string | undefined;
  /** Matches incoming events to open jobs. */
  readonly topic: string | undefined;
  /** The time at which it is looked at next. Unset once it has ended and nothing is left to stop. */
  readonly dueAt: number | undefined;
  /** The time at which it ends if nothing has ended it. */
  readonly expiresAt: number;
  readonly createdAt: number;
  readonly endedAt: number | undefined;
  /** Data of its kind as JSON, which changes while it is open. */
  readonly data: unknown;
  readonly request: Json;
  readonly result: Json | undefined;
};

export type NewJob = Pick<Job, "id" | "kind" | "createdAt" | "expiresAt" | "data" | "request"> &
  Partial<Pick<Job, "key" | "parent" | "topic">>;

/** The end of a job. */
export type JobEnd = {
  readonly state: Exclude<JobState, "pending" | "running">;
  /** A word of its kind for the cause. */
  readonly reason: string;
  readonly result: Json;
  /** Identifies the event that has caused the end, which is found by it later. */
  readonly endedBy?: string | undefined;
};

/** A kind of job, as the engine uses it. */
export interface Kind {
  /**
   * Looks after the work of an open job: when the job was added, at the time that the last call returned, when a job inside of it
   * has ended, and after a restart of the object; never twice at a time for one job. It ends the job by `engine.settle()`. An error
   * is logged, and the call is repeated.
   *
   * @returns when to be called again at the latest, epoch milliseconds, or null
   */
  poll?(job: Job): Promise<number | null>;
  /** Stops the work of a job that was ended from outside. Repeated until it returns once, also after restarts. */
  stop?(job: Job): Promise<void>;
  /** The end of a job that is due and has expired; undefined: it is polled. */
  expire(job: Job, now: number): JobEnd | undefined;
  /** Stores the notification of an end, in its transaction. Called for a job that is part of no other. */
  notify?(job: Job, end: JobEnd): void;
  /** Reports a job that was added or has ended, after the commit. Never throws. */
  announce?(job: Job): void;
}
