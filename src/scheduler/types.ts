/** What an app declares, and what it is told: the public shapes of the scheduler. */

import type { Duration } from "../core/duration.ts";
import type { Failure } from "../core/failures.ts";
import type { Instant } from "../core/instant.ts";
import type { Json } from "../core/json.ts";
import type { RunStatus } from "./runs/states.ts";

/** What a run came of. */
export type RunCause = "schedule" | "catch-up" | "trigger" | "backfill";

/** The options of `agents` for attempts. */
export type RetryOptions = {
  /** Attempts in all. An attempt that the object did not survive counts, and is tried again once at least. @default 3 */
  readonly maxAttempts?: number;
  /** Upper bound of the delay after the first failure, in milliseconds; it doubles. @default 100 */
  readonly baseDelayMs?: number;
  /** Upper bound of every delay, in milliseconds. @default 3000 */
  readonly maxDelayMs?: number;
};

/** What a handler receives. */
export type ScheduledTaskContext = {
  readonly taskId: string;
  /** The time that the schedule names, epoch milliseconds; of a trigger, the time of the call. */
  readonly scheduledFor: number;
  readonly scheduledForDate: Date;
  /** `taskId:scheduledFor`; of a trigger, `taskId:trigger:key`. The same on every attempt. */
  readonly occurrenceKey: string;
  /** Unique per agent, task and occurrence, the same on every attempt, and valid as the id of a Workflow instance. */
  readonly idempotencyKey: string;
  /** The schedule in its one spelling. */
  readonly schedule: string;
  readonly scheduleKind: "interval" | "wall-clock";
  /** Of wall-clock schedules. */
  readonly timezone?: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** 1 for the first. */
  readonly attempt: number;
  /** Aborted when the attempt has taken longer than `timeout`, or the run is cancelled. */
  readonly signal: AbortSignal;
  /** The `idempotencyKey`, under the name that `create({ id })` of a Workflow has for it. */
  readonly instanceId: string;
  readonly cause: RunCause;
};

/** What is run at each occurrence: exactly one of them. */
type Action =
  | {
      /** The text of a turn; a function is asked at each attempt. Needs a host with turns (the port `prompts`). */
      readonly prompt: string | (() => string | Promise<string>);
      readonly handler?: never;
    }
  | {
      /** Called at least once for each occurrence. It is awaited; what it returns is ignored. */
      readonly handler: (context: ScheduledTaskContext) => unknown;
      readonly prompt?: never;
    };

/** What becomes of occurrences that passed while the object could not run them (S3). */
export type CatchUp = "latest" | "none" | "all" | { readonly all: Duration };

/** What becomes of an occurrence that meets an open run of its task (S3). */
export type Overlap = "skip" | "queue" | "cancelPrevious" | "allow";

export type ScheduledTask = Action & {
  /** In the schedule language, e.g. `"every weekday at 09:00 in Europe/London"`. */
  readonly schedule: string;
  /** The time zone of a schedule that names none: an IANA name, or an offset such as `+02:00`. @default the scheduler's `defaultTimezone` */
  readonly timezone?: string;
  /** What the task is for. Shown by `list()` and `inspect()`, and not stored. */
  readonly description?: string;
  /** Handed to the handler, and stored with a prompt's submission. */
  readonly metadata?: Readonly<Record<string, unknown>>;
  readonly retry?: RetryOptions;
  /** `"all"` is `{ all: "1 day" }`, and at most 1,000 occurrences; what is a minute late or less is on time for all of them. @default "latest" */
  readonly catchUp?: CatchUp;
  /** @default "skip" */
  readonly overlap?: Overlap;
  /** Fires up to so long after its time, by an offset that is the task's own and always the same. @default none */
  readonly jitter?: Duration;
  /** No occurrence before it. */
  readonly startAt?: Instant;
  /** No occurrence at it or after. */
  readonly endAt?: Instant;
  /** Occurrences that are run before the task is finished; skipped ones, triggers and backfills do not count. @default Infinity */
  readonly maxRuns?: number;
  /** Pauses the task after so many failed runs in a row; `true` is 1. @default false */
  readonly pauseOnFailure?: boolean | number;
  /** Dates without an occurrence, `YYYY-MM-DD` in the task's zone, beside those of the text. */
  readonly except?: readonly string[];
  /** How long one attempt of a handler may take. @default "15 minutes" */
  readonly timeout?: Duration;
};

/** By id: 1 to 1,000 letters, digits, `_` and `-`. */
export type ScheduledTasks = Readonly<Record<string, ScheduledTask>>;

/** How a prompt ended. */
export type PromptEnd = {
  readonly status: "completed" | "error" | "aborted" | "skipped";
  readonly error?: Failure;
};

/** What prompt tasks need of the host: durable turns, each accepted once per key. */
export type PromptPort = {
  /** Accepts a turn. The same key again returns the same submission. */
  submit(
    prompt: string,
    options: {
      readonly idempotencyKey: string;
      readonly metadata: Readonly<Record<string, unknown>>;
      readonly retry?: RetryOptions;
    },
  ): Promise<{ readonly submissionId: string }>;
  /** Resolves when the submission has ended; with null for an unknown one. Asked again after each start, and every five minutes. */
  ended(submissionId: string): Promise<PromptEnd | null>;
  cancel(submissionId: string, reason: string): Promise<void>;
};

/** One run of a task. */
export type ScheduledRun = {
  readonly taskId: string;
  readonly idempotencyKey: string;
  /** Epoch milliseconds, like all times. */
  readonly scheduledFor: number;
  readonly firedAt: number;
  /** How long after its time, and the task's jitter, it fired. */
  readonly lagMs: number;
  readonly cause: RunCause;
  readonly status: RunStatus;
  /** Attempts that have begun. */
  readonly attempts: number;
  readonly endedAt?: number;
  /** Of the last attempt that failed. */
  readonly error?: Failure;
  /** Why it was skipped or cancelled. */
  readonly reason?: string;
  /** Of a prompt. */
  readonly submissionId?: string;
};

export type ScheduledTaskInfo = {
  readonly taskId: string;
  readonly description?: string;
  /** In its one spelling; of an invalid task, as it was declared. */
  readonly schedule: string;
  readonly timezone?: string;
  /** Absent for a task that cannot be understood. */
  readonly scheduleKind?: "interval" | "wall-clock";
  readonly state: "active" | "paused" | "finished" | "invalid";
  readonly paused?: {
    readonly at: number;
    readonly by: "hand" | "failure";
    readonly note?: string;
  };
  /** Why it is invalid. */
  readonly error?: Failure;
  /** The next occurrence, without its jitter, in epoch milliseconds; null unless it is active. */
  readonly next: number | null;
  /** As many as were asked for, the next one included. */
  readonly nextOccurrences: number[];
  /** The latest by `scheduledFor` that was not skipped. */
  readonly lastRun?: ScheduledRun;
  readonly counts: {
    readonly completed: number;
    readonly failed: number;
    readonly skipped: number;
    /** Occurrences that passed and were not caught up. */
    readonly missed: number;
  };
  /** As JSON holds it. */
  readonly metadata?: { readonly [name: string]: Json };
};
