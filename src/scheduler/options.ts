/** What an app can set about its scheduler. Checked once, at construction. */

import type { Duration } from "../core/duration.ts";
import {
  checkHook,
  countOf,
  durationOf,
  InvalidOptionError,
  invalidOption,
  problemOfNames,
} from "../core/options.ts";
import type { OnProblem } from "../core/problems.ts";
import type { InvalidTaskError } from "./errors.ts";
import type { PromptPort, ScheduledRun, ScheduledTasks } from "./types.ts";

export type SchedulerSettings = {
  /** The tasks, read at each start and each `reconcile()`. */
  readonly tasks: () => ScheduledTasks | Promise<ScheduledTasks>;
  /** The time zone of schedules and tasks that name none: an IANA name, or an offset such as `+02:00`. */
  readonly defaultTimezone?: () => string | undefined | Promise<string | undefined>;
  /**
   * Which agents arm their tasks: `"root"` those that are no sub-agent, `"all"` those, too.
   * @default "root"
   */
  readonly scope?: () => "root" | "all" | Promise<"root" | "all">;
  /**
   * Tells this object's runs from those of all others, in their idempotency keys.
   * @default an id of its own, stored with the first task
   */
  readonly owner?: string;
  /** Durable turns, for tasks with a `prompt`. */
  readonly prompts?: PromptPort;
  /** Told of each failed run, once, after it is stored. What it throws is logged, and changes nothing. */
  readonly onFailure?: (error: unknown, run: ScheduledRun) => void | Promise<void>;
  /** Told of each task that cannot be understood, once for each start and problem. What it throws is logged, and changes nothing. */
  readonly onInvalid?: (error: InvalidTaskError) => void | Promise<void>;
  /**
   * Told of each problem: a task of which as many runs wait as may, so that an occurrence is skipped. Once for each task in the life of the object.
   * @default logProblem, which logs one line of JSON
   */
  readonly onProblem?: OnProblem;
  /** Attempts at a time. One that takes longer than ten seconds makes room for another, up to eight times as many in all. @default 16 */
  readonly concurrency?: number;
  /** Ended runs that are kept of each task; up to 15 more are, for a while. */
  readonly history?: {
    /** @default 100 */
    readonly count?: number;
    /** @default "30 days" */
    readonly age?: Duration;
  };
};

/** The same, with every default filled in. */
export type SchedulerLimits = {
  readonly concurrency: number;
  readonly history: { readonly count: number; readonly ageMs: number };
};

const NAMES = [
  "tasks",
  "defaultTimezone",
  "scope",
  "owner",
  "prompts",
  "onFailure",
  "onInvalid",
  "onProblem",
  "concurrency",
  "history",
] as const satisfies readonly (keyof SchedulerSettings)[];

/** @throws InvalidOptionError naming the option */
export function readSettings(settings: SchedulerSettings): SchedulerLimits {
  const problem =
    problemOfNames("the scheduler", settings, NAMES) ??
    problemOfNames("history", settings.history, ["count", "age"]);
  if (problem) throw new InvalidOptionError(problem.name, problem.message);
  const { tasks, owner, concurrency = 16, history } = settings;
  if (typeof tasks !== "function")
    throw invalidOption("tasks", tasks, "a function that returns tasks");
  for (const name of ["defaultTimezone", "scope", "onFailure", "onInvalid", "onProblem"] as const) {
    checkHook(name, settings[name]);
  }
  if (owner !== undefined && (typeof owner !== "string" || owner === "")) {
    throw invalidOption("owner", owner, "a text that is not empty, or leave it out");
  }
  const { count = 100, age = "30 days" } = history ?? {};
  return {
    concurrency: countOf("concurrency", concurrency, 256),
    history: { count: countOf("history.count", count), ageMs: durationOf("history.age", age) },
  };
}
