/** The public types of the scheduler: what an app declares, and what it reads. */

import type { Failure } from "../core/failures.ts";
import type { Json } from "../core/json.ts";
import type { Instant } from "../core/options/instant.ts";
import type { Duration } from "../core/options/options.ts";
import type { Submissions } from "../submissions/submissions.ts";
import type { OwnerOptions } from "../submissions/submit-options.ts";

/** Why a run exists. */
export type RunCause = "schedule" | "catch-up" | "trigger" | "backfill";

export type RunStatus = "waiting" | "running" | "completed" | "failed" | "cancelled" | "skipped";

/** The retry options of `agents`. */
export type RetryOptions = {
  /** Attempts in all. An attempt that a crash interrupted counts, and is tried again at least once. @default 3 */
  readonly maxAttempts?: number;
  /** Upper bound of the delay after the first failure, in milliseconds; it doubles. @default 100 */
  readonly baseDelayMs?: number;
  /** Upper bound of every delay, in milliseconds. @default 3000 */
  readonly maxDelayMs?: number;
};

/** What a handler receives. */
export type ScheduledTaskContext = {
  readonly taskId: string;
  /** The scheduled time, epoch milliseconds; the time of the call for a trigger. */
  readonly scheduledFor: number;
  readonly scheduledForDate: Date;
  /** `taskId:scheduledFor`, or `taskId:trigger:key` for a trigger. The same on every attempt. */
  readonly occurrenceKey: string;
  /** Unique per agent, task and occurrence, the same on every attempt, and valid as the id of a Workflow instance. */
  readonly idempotencyKey: string;
  /** The schedule in its usual spelling. */
  readonly schedule: string;
  readonly scheduleKind: "interval" | "wall-clock";
  /** For `wall-clock` schedules. */
  readonly timezone?: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** 1 for the first. */
  readonly attempt: number;
  /** Aborted when the attempt takes longer than `timeout`, or the run is cancelled. */
  readonly signal: AbortSignal;
  /** The `idempotencyKey`, as the id for `create({ id })` of a Workflow. */
  readonly instanceId: string;
  readonly cause: RunCause;
};

/** What runs at each occurrence: exactly one of the two. */
type Action =
  | {
      /** The text of a turn, or a function that is called at each attempt. Needs the feature `schedules()`. */
      readonly prompt: string | (() => string | Promise<string>);
      readonly handler?: never;
    }
  | {
      /** Called at least once for each occurrence. Awaited; its result is ignored. */
      readonly handler: (context: ScheduledTaskContext) => unknown;
      readonly prompt?: never;
    };

/** What happens to occurrences that passed while the object could not run them. */
export type CatchUp = "latest" | "none" | "all" | { readonly all: Duration };

/** What happens to an occurrence while a run of its task is open. */
export type Overlap = "skip" | "queue" | "cancelPrevious" | "allow";

/** Options of a prompt's submission. A handler passes them to `submitMessages()`. */
type PromptOptions = Readonly<Pick<OwnerOptions, "priority" | "concurrency" | "rate">>;

export type ScheduledTask = Action &
  PromptOptions & {
    /** In the schedule language, e.g. `"every weekday at 09:00 in Europe/London"`. */
    readonly schedule: string;
    /** The time zone of a schedule without `in`: an IANA name, or an offset such as `+02:00`. @default the scheduler's `defaultTimezone` */
    readonly timezone?: string;
    /** Shown by `list()` and `inspect()`; not stored. */
    readonly description?: string;
    /** Passed to the handler, and stored with a prompt's submission, where keys of limits find it. */
    readonly metadata?: Readonly<Record<string, unknown>>;
    readonly retry?: RetryOptions;
    /** `"all"` is `{ all: "1 day" }`, at most 1,000 occurrences. An occurrence up to a minute late is on time. @default "latest" */
    readonly catchUp?: CatchUp;
    /** @default "skip" */
    readonly overlap?: Overlap;
    /** Runs that may wait with `overlap: "queue"` or `catchUp: "all"`, at most 10,000. The next one is skipped. @default 1000 */
    readonly maxWaiting?: number;
    /** Delays the task by a part of this duration, which is always the same for a task. @default none */
    readonly jitter?: Duration;
    /** No occurrence before this time. */
    readonly startAt?: Instant;
    /** No occurrence at or after this time. */
    readonly endAt?: Instant;
    /** Pauses the task when a run fails. @default false */
    readonly pauseOnFailure?: boolean;
    /** Further dates without an occurrence, `YYYY-MM-DD` in the task's zone. */
    readonly except?: readonly string[];
    /** The time limit of one attempt, at most 24 days. @default "15 minutes" */
    readonly timeout?: Duration;
  };

/** By id: 1 to 1,000 letters, digits, `_` and `-`. */
export type ScheduledTasks = Readonly<Record<string, ScheduledTask>>;

/** The ledger of the object, for the prompts of tasks. */
export type Turns = Pick<Submissions, "accept" | "inspect" | "cancel" | "checkOwner">;

/** One run of a task. */
export type ScheduledRun = {
  readonly taskId: string;
  readonly idempotencyKey: string;
  /** Epoch milliseconds, like all times. */
  readonly scheduledFor: number;
  readonly firedAt: number;
  /** How long after its time and jitter it fired. */
  readonly lagMs: number;
  readonly cause: RunCause;
  readonly status: RunStatus;
  /** Attempts that have started. */
  readonly attempts: number;
  readonly endedAt?: number;
  /** Of the last failed attempt. */
  readonly error?: Failure;
  /** Why it was skipped or cancelled. */
  readonly reason?: string;
  /** For a prompt. */
  readonly submissionId?: string;
};

export type ScheduledTaskInfo = {
  readonly taskId: string;
  readonly description?: string;
  /** In its usual spelling; as it was declared for an invalid task. */
  readonly schedule: string;
  readonly timezone?: string;
  /** Missing for an invalid task. */
  readonly scheduleKind?: "interval" | "wall-clock";
  readonly state: "active" | "paused" | "finished" | "invalid";
  readonly paused?: {
    readonly at: number;
    readonly by: "hand" | "failure";
    readonly note?: string;
  };
  /** Why it is invalid. */
  readonly error?: Failure;
  /** The next occurrence without jitter, in epoch milliseconds; null unless the task is active. */
  readonly next: number | null;
  /** As many as were asked for, including the next one. */
  readonly nextOccurrences: number[];
  /** The latest run by `scheduledFor` that was not skipped. */
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
