/** Calls the app for its tasks, and keeps what it declares: the valid tasks, and the invalid ones with their errors. */

import { TimeoutError, withTimeout } from "../../core/clock.ts";
import { failureOf } from "../../core/failures.ts";
import { preview } from "../../core/json.ts";
import { invalidOption } from "../../core/options/options.ts";
import type { OwnerOptions } from "../../submissions/submit-options.ts";
import type { App } from "../app.ts";
import { UnknownTaskError } from "../errors.ts";
import { type DeclaredTask, readTask } from "./declared.ts";

/** How long the app's functions may take. The platform resets an object whose start takes 30 seconds. */
const TIME_LIMIT_MS = 10_000;

export type InvalidTask = {
  readonly taskId: string;
  /** The schedule as it was declared. */
  readonly schedule: string;
  readonly error: Error;
};

export class Declarations {
  readonly valid = new Map<string, DeclaredTask>();
  readonly invalid = new Map<string, InvalidTask>();

  get ids(): string[] {
    return [...this.valid.keys(), ...this.invalid.keys()];
  }

  /** Tasks that a sub-agent declares and does not run, because its scope is "root". */
  outOfScope = 0;
  defaultTimezone: string | undefined;

  /** @throws UnknownTaskError for an id that is not declared */
  check(taskId: string): void {
    const { valid, invalid } = this;
    if (valid.has(taskId) || invalid.has(taskId)) return;
    throw new UnknownTaskError(taskId, this.ids);
  }
}

/**
 * @param jitterShare in [0, 1), always the same for a task
 * @throws what the app's functions throw, InvalidOptionError for an invalid result, TimeoutError after 10 seconds
 */
export async function readDeclarations(
  app: App,
  jitterShare: (taskId: string) => number,
): Promise<Declarations> {
  const { settings, isSubAgent } = app;
  // By their names in an agent.
  let called = "getScheduledTasksScope()";
  const results = app.loop.inHostContext(async () => {
    const scope = isSubAgent ? ((await settings.scope?.()) ?? "root") : "all";
    if (scope !== "root" && scope !== "all") throw invalidOption("scope", scope, '"root" or "all"');
    called = "getScheduledTasks()";
    const tasks = await settings.tasks();
    called = "getDefaultTimezone()";
    return { scope, tasks, defaultTimezone: await zoneFrom(app) };
  });
  const { scope, tasks, defaultTimezone } = await withTimeout(results, TIME_LIMIT_MS).catch(
    (error: unknown) => {
      throw error instanceof TimeoutError ? tooLong(called) : error;
    },
  );
  if (typeof tasks !== "object" || tasks === null || Array.isArray(tasks)) {
    throw invalidOption("tasks()", tasks, "an object of tasks by their ids");
  }
  const declarations = new Declarations();
  declarations.defaultTimezone = defaultTimezone;
  if (scope === "root" && isSubAgent) {
    declarations.outOfScope = Object.keys(tasks).length;
    return declarations;
  }
  const { turns } = app;
  const checkOwner = turns && ((owner: OwnerOptions) => turns.checkOwner(owner));
  const context = { defaultTimezone, checkOwner, jitterShare };
  for (const [taskId, task] of Object.entries(tasks)) {
    try {
      declarations.valid.set(taskId, readTask(taskId, task, context));
    } catch (thrown) {
      const error = thrown instanceof Error ? thrown : new Error(failureOf(thrown).message);
      declarations.invalid.set(taskId, { taskId, schedule: scheduleTextOf(task), error });
    }
  }
  return declarations;
}

async function zoneFrom({ settings }: App): Promise<string | undefined> {
  return (await settings.defaultTimezone?.()) ?? undefined;
}

/**
 * Reads the default zone alone.
 *
 * @throws what the app's function throws, TimeoutError after 10 seconds
 */
export async function readDefaultTimezone(app: App): Promise<string | undefined> {
  const zone = app.loop.inHostContext(() => zoneFrom(app));
  return withTimeout(zone, TIME_LIMIT_MS).catch((error: unknown) => {
    throw error instanceof TimeoutError ? tooLong("getDefaultTimezone()") : error;
  });
}

function tooLong(called: string): TimeoutError {
  return new TimeoutError(
    `${called} did not resolve within ${TIME_LIMIT_MS / 1_000} seconds. Tasks that were read before continue, ` +
      "and it is called again in a minute. It must not wait for its own scheduler.",
  );
}

/** The task's schedule as it was declared; empty where it cannot be read. */
function scheduleTextOf(task: { readonly schedule?: unknown } | undefined): string {
  try {
    const schedule = task?.schedule ?? "";
    return typeof schedule === "string" ? schedule : preview(schedule);
  } catch {
    return "";
  }
}
