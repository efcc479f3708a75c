/** Asks the app for its tasks, and reads what it says: those that can be understood, and those that cannot (S4). */

import { failureOf } from "../../core/failures.ts";
import { preview } from "../../core/json.ts";
import { invalidOption } from "../../core/options.ts";
import { TimeoutError, withTimeout } from "../../core/timeout.ts";
import type { SchedulerSettings } from "../options.ts";
import type { ScheduledTasks } from "../types.ts";
import { type DeclaredTask, readTask } from "./declared.ts";

/**
 * How long the app has to say what its tasks are: until then, whatever needs them waits. An object whose start takes 30
 * seconds is reset by the platform, again and again.
 */
const PATIENCE_MS = 10_000;

/** The functions of the app that are asked, and what they are in a Think agent. */
const OF_THINK = {
  "scope()": "getScheduledTasksScope()",
  "tasks()": "getScheduledTasks()",
  "defaultTimezone()": "getDefaultTimezone()",
} as const;

export type InvalidTask = {
  readonly taskId: string;
  /** As it was declared. */
  readonly schedule: string;
  readonly error: Error;
};

export type Declarations = {
  readonly valid: ReadonlyMap<string, DeclaredTask>;
  readonly invalid: ReadonlyMap<string, InvalidTask>;
};

export const NONE: Declarations = { valid: new Map(), invalid: new Map() };

export type DeclaringHost = {
  readonly settings: SchedulerSettings;
  /** In [0, 1), a task's own. */
  readonly share: (taskId: string) => number;
  readonly isSubAgent: boolean;
  readonly inHostContext: <T>(work: () => Promise<T>) => Promise<T>;
};

/**
 * @throws what the app throws, InvalidOptionError for what are no tasks, and TimeoutError after 10 seconds
 */
export async function declarationsOf(host: DeclaringHost): Promise<{
  readonly declarations: Declarations;
  /** Tasks that a sub-agent declares, and whose scope is the root. */
  readonly outOfScope: number;
}> {
  const { settings, share, isSubAgent } = host;
  let plan: keyof typeof OF_THINK = "scope()";
  const asked = host.inHostContext(async () => {
    const scope = isSubAgent ? ((await settings.scope?.()) ?? "root") : "all";
    if (scope !== "root" && scope !== "all") throw invalidOption("scope", scope, '"root" or "all"');
    plan = "tasks()";
    const tasks = await settings.tasks();
    plan = "defaultTimezone()";
    const defaultTimezone = (await settings.defaultTimezone?.()) ?? undefined;
    return { scope, tasks, defaultTimezone };
  });
  const { scope, tasks, defaultTimezone } = await withTimeout(asked, PATIENCE_MS).catch(
    (error: unknown) => {
      throw error instanceof TimeoutError ? tooLong(plan) : error;
    },
  );
  if (typeof tasks !== "object" || tasks === null || Array.isArray(tasks)) {
    throw invalidOption("tasks()", tasks, "an object of tasks by their ids");
  }
  if (scope === "root" && isSubAgent) {
    return { declarations: NONE, outOfScope: Object.keys(tasks).length };
  }
  const context = {
    defaultTimezone,
    hasPrompts: settings.prompts !== undefined,
    jitterShare: share,
  };
  return { declarations: readAll(tasks, context), outOfScope: 0 };
}

function tooLong(asked: keyof typeof OF_THINK): TimeoutError {
  return new TimeoutError(
    `${asked} did not resolve within ${PATIENCE_MS / 1_000} seconds (in a Think agent: ${OF_THINK[asked]}). Tasks that ` +
      "were read since the object started continue, and it is called again in a minute. It must not wait for a method of its own scheduler.",
  );
}

function readAll(tasks: ScheduledTasks, context: Parameters<typeof readTask>[2]): Declarations {
  const valid = new Map<string, DeclaredTask>();
  const invalid = new Map<string, InvalidTask>();
  for (const [taskId, task] of Object.entries(tasks)) {
    try {
      valid.set(taskId, readTask(taskId, task, context));
    } catch (thrown) {
      const error = thrown instanceof Error ? thrown : new Error(failureOf(thrown).message);
      invalid.set(taskId, { taskId, schedule: scheduleOf(task), error });
    }
  }
  return { valid, invalid };
}

/** What a task says; nothing, where it cannot be read. */
function scheduleOf(task: { readonly schedule?: unknown } | undefined): string {
  try {
    const schedule = task?.schedule ?? "";
    return typeof schedule === "string" ? schedule : preview(schedule);
  } catch {
    return "";
  }
}
