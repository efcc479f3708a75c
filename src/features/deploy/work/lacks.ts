/** What the code of an agent does not have of what open work needs. */

import * as z from "zod";
import { oneOf, readOptions, text } from "../../../core/options/option-schemas.ts";
import { problemOfBinding, WORKFLOW } from "../../../outbox/destinations/bindings.ts";
import type { Scheduler } from "../../../scheduler/scheduler.ts";
import type { Kernel } from "../../../workflow/agent/kernel.ts";
import type { Need } from "../types.ts";
import { toolsOf } from "./tools.ts";

const MOST = 1_000;
const NEEDS = z
  .array(
    z.object({
      what: oneOf(["tool", "task", "method", "feature", "workflow", "binding"]),
      name: text({ maxLength: 2_000 }),
    }),
    { error: "expected the needs of open work, as deployments.work() lists them" },
  )
  .max(MOST, { error: `expected at most ${MOST} needs. Ask in parts` });

export type LacksOf = Pick<Kernel, "object" | "env" | "features" | "submissions">;

/**
 * Those needs that this code does not have. Ask an object of the new code. A tool is missed only where the class declares its tools
 * in `getTools()`.
 *
 * @param needs at most 1,000
 * @throws InvalidOptionError, what `getTools()` and `getScheduledTasks()` throw
 */
export async function lacks(kernel: LacksOf, needs: readonly Need[]): Promise<Need[]> {
  const given: readonly Need[] = readOptions(NEEDS, needs, "needs");
  await kernel.submissions.ready();
  const tools = given.some(({ what }) => what === "tool") ? await toolsOf(kernel) : undefined;
  const lacking: Need[] = [];
  for (const need of given) if (!(await has(kernel, need, tools))) lacking.push(need);
  return lacking;
}

async function has(
  { object, env, features }: LacksOf,
  { what, name }: Need,
  tools: ReadonlySet<string> | undefined,
): Promise<boolean> {
  switch (what) {
    case "tool":
      return tools?.has(name) ?? true;
    case "method":
      return typeof Reflect.get(object, name) === "function" && !(name in Object.prototype);
    case "feature":
      return features.has(name as Parameters<typeof features.has>[0]);
    case "workflow":
      return problemOfBinding(env, WORKFLOW, "workflow", name) === undefined;
    case "binding":
      return Object.hasOwn(env, name) && Boolean(Reflect.get(env, name));
    case "task": {
      if (!features.has("schedules")) return false;
      const scheduler = features.get("schedules", "deployments.lacks()") as Scheduler;
      const task = await scheduler.inspect(name);
      // An invalid task does not run.
      return task !== null && task.state !== "invalid";
    }
  }
}
