/** The feature for work that recurs: the tasks that a class declares, and their prompts as submissions to the object itself. */

import { hook, optionsOf, readOptions, text } from "../core/options/option-schemas.ts";
import { InvalidOptionError } from "../core/options/options.ts";
import type { Feature, Kernel } from "../workflow/agent/kernel.ts";
import type { DefinedTasks } from "./define.ts";
import { readZone } from "./language/parse.ts";
import { Scheduler } from "./scheduler.ts";
import type { ScheduledTasks } from "./types.ts";

type Awaitable<T> = T | Promise<T>;

/** For a plain Durable Object. An agent's class has `getScheduledTasks()`, `getDefaultTimezone()` and `onError()` instead. */
export type SchedulesOptions = {
  /** The tasks, read at each start. The compiler checks them in `defineScheduledTasks()`, and refuses others. */
  readonly tasks?: () => Awaitable<ScheduledTasks & DefinedTasks>;
  /** The time zone of schedules that name none. @default none: a clock time without a zone is an invalid task */
  readonly timezone?: string;
  /** Called with the error of each failed run, and of each invalid task. */
  readonly onError?: (error: unknown) => Awaitable<void>;
};

const OPTIONS = optionsOf<SchedulesOptions>()({
  tasks: hook().optional(),
  timezone: text().optional(),
  onError: hook().optional(),
});

/** What the feature reads of an agent. */
type Declaring = {
  getScheduledTasks(): Awaitable<ScheduledTasks>;
  getDefaultTimezone?(): Awaitable<string | undefined>;
  getScheduledTasksScope?(): Awaitable<"root" | "all">;
  onError?(error: unknown): Awaitable<void>;
};

/**
 * Runs the tasks of `getScheduledTasks()`: prompts as turns of the agent, handlers as its own code. `DurableThink` has this feature
 * already. A plain Durable Object passes its tasks.
 *
 * @throws InvalidOptionError
 * @example
 * export class Support extends DurableAgent<Env> {
 *   static override readonly features = [schedules()];
 *   override getScheduledTasks() {
 *     return defineScheduledTasks({ digest: { schedule: "every day at 09:00 in UTC", prompt: "Write the digest." } });
 *   }
 * }
 */
export function schedules(options: SchedulesOptions = {}): Feature<"schedules", Scheduler> {
  const given = readOptions(OPTIONS, options, "options of schedules()");
  if (given.timezone !== undefined) readZone(given.timezone);
  return {
    feature: "schedules",
    install: ({ object, verbs, submissions, watchers, onProblem, use }) => {
      const { onError, ...declared } = declaredBy(object, given);
      const hooks = { ...(onError && { onFailure: onError, onInvalid: onError }), onProblem };
      const scheduler = new Scheduler({ ...declared, ...hooks }, submissions);
      use(scheduler);
      watchers.add({
        status: (submission) => {
          const { status } = submission;
          // Not within the change of the submission.
          if (status !== "pending" && status !== "running")
            queueMicrotask(() => scheduler.submissionEnded(submission));
        },
      });
      // A plain object, whose verbs are in a field.
      if (verbs !== object) setTimeout(() => start(object), 0);
      return scheduler;
    },
  };
}

/** @throws InvalidOptionError for tasks that are declared in two places, or in none */
function declaredBy(object: Kernel["object"], given: SchedulesOptions) {
  const agent = object as Partial<Declaring>;
  if (!isDeclaring(agent)) {
    const { tasks, timezone, onError } = given;
    if (tasks) return { tasks, onError, defaultTimezone: () => timezone };
    const expected = "schedules({ tasks: () => defineScheduledTasks({ ... }) })";
    throw new InvalidOptionError(
      "tasks",
      `Invalid schedules() of ${object.constructor.name}: it has no tasks. Expected ${expected}, or a method getScheduledTasks().`,
    );
  }
  const [name] = Object.keys(given).filter((key) => given[key as keyof SchedulesOptions]);
  if (name !== undefined) {
    throw new InvalidOptionError(
      name,
      `Invalid ${name} of schedules(): the class has methods for it. Declare tasks in getScheduledTasks(), ` +
        "their zone in getDefaultTimezone(), and handle errors in onError().",
    );
  }
  return {
    tasks: () => agent.getScheduledTasks(),
    defaultTimezone: () => agent.getDefaultTimezone?.(),
    scope: async () => (await agent.getScheduledTasksScope?.()) ?? "root",
    onError: (error: unknown) => callOnError(agent, error),
  };
}

function isDeclaring(agent: Partial<Declaring>): agent is Declaring {
  return typeof agent.getScheduledTasks === "function";
}

/** As Think does. The default `onError()` throws its argument, which is no failure of the hook. */
async function callOnError(agent: Declaring, error: unknown): Promise<void> {
  try {
    await agent.onError?.(error);
  } catch (thrown) {
    if (thrown !== error) throw thrown;
  }
}

/** RPC of a plain object's own methods does not start its Lifecycle. Without a start, no task is armed. */
function start(object: object): void {
  (object as { lifecycle: { start(): Promise<void> } }).lifecycle
    .start()
    .catch((error) => console.error("[perdure] the schedules could not be armed:", error));
}
