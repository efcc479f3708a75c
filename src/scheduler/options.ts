/** The options of the scheduler and of its methods, and their checks. */

import type * as z from "zod";
import type { Instant } from "../core/options/instant.ts";
import { count, duration, hook, instant, optionsOf, text } from "../core/options/option-schemas.ts";
import type { Duration } from "../core/options/options.ts";
import type { OnProblem } from "../core/problems.ts";
import { byId, byTime, cursorsOf, type PageOptions } from "../engine/page.ts";
import type { InvalidTaskError } from "./errors.ts";
import type { ScheduledRun, ScheduledTasks } from "./types.ts";

export type SchedulerSettings = {
  /** The tasks, read at each start and each `reconcile()`. */
  readonly tasks: () => ScheduledTasks | Promise<ScheduledTasks>;
  /** The time zone of tasks that name none: an IANA name, or an offset such as `+02:00`. Read at each verb and each wake. */
  readonly defaultTimezone?: () => string | undefined | Promise<string | undefined>;
  /**
   * Which agents run their tasks: `"root"` for agents that are no sub-agents, `"all"` for sub-agents too.
   * @default "root"
   */
  readonly scope?: () => "root" | "all" | Promise<"root" | "all">;
  /**
   * Tells this object's runs from those of all others: a part of their idempotency keys.
   * @default a random id, stored with the first task
   */
  readonly owner?: string;
  /** Called once for each failed run, after it is stored. What it throws is logged, and changes nothing. */
  readonly onFailure?: (error: unknown, run: ScheduledRun) => void | Promise<void>;
  /** Called for each invalid task, once for each start and problem. What it throws is logged, and changes nothing. */
  readonly onInvalid?: (error: InvalidTaskError) => void | Promise<void>;
  /**
   * Called for each problem: an occurrence is skipped because the queue of its task is full. Once for each task since the start.
   * @default logProblem, which logs one line of JSON
   */
  readonly onProblem?: OnProblem;
  /** Attempts at a time. Those that take longer than ten seconds do not count, up to eight times as many in all. @default 16 */
  readonly concurrency?: number;
  /** How many ended runs of each task are kept; up to 15 more for a while. */
  readonly history?: {
    /** Triggers do not count: their keys hold for `age`, among the newest 10,000. @default 100 */
    readonly count?: number;
    /** @default "30 days" */
    readonly age?: Duration;
  };
};

/** The settings with their defaults, durations in milliseconds. */
export const SETTINGS = optionsOf<SchedulerSettings>()({
  tasks: hook(),
  defaultTimezone: hook().optional(),
  scope: hook().optional(),
  owner: text().optional(),
  onFailure: hook().optional(),
  onInvalid: hook().optional(),
  onProblem: hook().optional(),
  concurrency: count({ max: 256 }).default(16),
  history: optionsOf<NonNullable<SchedulerSettings["history"]>>()({
    count: count({ infinity: true }).default(100),
    age: duration({ infinity: true }).default(30 * 86_400_000),
  }).prefault({}),
});

export type Settings = z.output<typeof SETTINGS>;

/** Of `trigger()`. The key is a part of the run's key in its table. */
export const TRIGGER = optionsOf<{ key?: string }>()({ key: text({ maxLength: 200 }).optional() });

/** Of `backfill()`, parsed to epoch milliseconds. */
export const RANGE = optionsOf<{ from: Instant; to: Instant }>()({
  from: instant(),
  to: instant(),
}).refine(({ from, to }) => to > from, { path: ["to"], error: "expected a time after from" });

export type Range = z.output<typeof RANGE>;

/** Of `inspect()`. It does not have to exist. */
export const TASK_ID = text({ empty: true });

/** Of `remove()`: that of a declared task is not longer. */
export const STORED_ID = text({ maxLength: 1_000 });

type Occurrences = { readonly occurrences?: number };
const occurrences = count({ min: 0, max: 100 }).default(1);

export const INSPECT = optionsOf<Occurrences>()({ occurrences });

export const TASK_CURSORS = cursorsOf("tasks", byId);

export const LIST = optionsOf<Occurrences & PageOptions>()({
  occurrences,
  limit: count({ max: 1_000 }).default(100),
  cursor: TASK_CURSORS.option,
});

/** A cursor of one task would skip runs of another. */
export const runCursors = (taskId: string) => cursorsOf(`runs of ${taskId}`, byTime);

/** Of `runs()`. */
export const RUNS = (cursor: ReturnType<typeof runCursors>["option"]) =>
  optionsOf<PageOptions>()({ limit: count({ max: 1_000 }).default(50), cursor });

/** Of `pause()`. */
export const NOTE = text({ maxLength: 1_000, empty: true }).optional();
