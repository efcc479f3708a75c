/** Think's scheduled tasks on Perdure's scheduler: the app declares them as before, and Think sees none of them. */

import type { Think, ThinkScheduledTasks } from "@cloudflare/think";
import type { AnyTasks, CheckedTasks } from "../../scheduler/define.ts";
import type { Scheduler } from "../../scheduler/scheduler.ts";
import { schedules } from "../../scheduler/schedules.ts";
import type { ArmedOccurrence } from "../../scheduler/tasks/reconcile.ts";
import type { ScheduledTasks } from "../../scheduler/types.ts";
import type { Feature } from "../../workflow/agent/kernel.ts";
import type { HookedThink } from "./hooks.ts";
import type { ThinkSubmissions } from "./think-submissions.ts";

/**
 * What `getScheduledTasks()` returns, with its schedules checked by the compiler. A text that is built
 * at run time is checked at the start, and by `parseSchedule()` of `perdure/scheduler` at any time.
 * @example
 * getScheduledTasks() {
 *   return defineScheduledTasks({
 *     digest: { schedule: "every weekday at 09:00 in Europe/London", prompt: "Write the digest." },
 *   });
 * }
 */
export function defineScheduledTasks<const Tasks extends AnyTasks>(
  tasks: Tasks & CheckedTasks<Tasks>,
): ThinkScheduledTasks {
  // Think's own type knows five forms and no policies, and a method that overrides Think's has to return it.
  return tasks as unknown as ThinkScheduledTasks;
}

/**
 * Installs schedules() also where the class does not list it, because it is a part of Think's own API, and takes the tasks over
 * from Think.
 */
export function withSchedules(
  features: readonly Feature[],
  agent: HookedThink,
): readonly Feature[] {
  if (!Array.isArray(features)) return features;
  const takenOver = (own: Feature): Feature => ({
    feature: "schedules",
    install: (kernel) => {
      const declaring = {
        getScheduledTasks: takeOver(agent, {
          beforeDisarming: () =>
            scheduler.adopt(() => armedByThink(agent, kernel.submissions as ThinkSubmissions)),
          afterStart: () => scheduler.reconcile(),
        }),
        getDefaultTimezone: () => agent.getDefaultTimezone(),
        getScheduledTasksScope: () => agent.getScheduledTasksScope(),
        onError: (error: unknown) => (agent as { onError(error: unknown): unknown }).onError(error),
      };
      const scheduler = own.install({
        ...kernel,
        object: declaring,
        verbs: declaring,
      }) as Scheduler;
      return scheduler;
    },
  });
  const list = features.some((one: Feature) => one?.feature === "schedules")
    ? features
    : [schedules(), ...features];
  return list.map((one: Feature) => (one?.feature === "schedules" ? takenOver(one) : one));
}

/** The method that Think schedules for each occurrence. */
const THINK_CALLBACK = "_runDeclaredScheduledTask";

/** The occurrences that Think has armed for an earlier version of the app, by task. Think disarms them at this start. */
async function armedByThink(
  agent: Think,
  submissions: ThinkSubmissions,
): Promise<Map<string, ArmedOccurrence>> {
  const armed = new Map<string, ArmedOccurrence>();
  // In a sub-agent the root is asked.
  const isInScope =
    agent.parentPath.length === 0 || (await agent.getScheduledTasksScope()) === "all";
  for (const { callback, payload } of isInScope ? await agent.listSchedules() : []) {
    if (callback !== THINK_CALLBACK) continue;
    const { taskId, scheduledFor } = payload as { taskId: string; scheduledFor: number };
    const metadata = { source: "scheduled-task", taskId, scheduledFor };
    const isDone = (await submissions.listElsewhere({ metadata, limit: 1 })).length > 0;
    armed.set(taskId, { at: scheduledFor, isDone });
  }
  return armed;
}

/**
 * Hides the app's tasks from Think. At the end of its start Think arms the tasks that it finds, and disarms all others.
 * @param work.beforeDisarming runs when the app has started, before Think disarms anything
 * @param work.afterStart runs after that, and may read what the app's `onStart()` has made
 * @returns a function that reads what the app declares, at any time
 */
function takeOver(
  agent: Think,
  { beforeDisarming, afterStart }: Record<"beforeDisarming" | "afterStart", () => Promise<void>>,
): () => Promise<ScheduledTasks> {
  let hidden: Think["getScheduledTasks"] | undefined;
  const start = agent.onStart.bind(agent);
  agent.onStart = async (props) => {
    // Not before the start: the app may have them in a class field.
    const own = Object.getOwnPropertyDescriptor(agent, "getScheduledTasks");
    hidden = agent.getScheduledTasks;
    agent.getScheduledTasks = async () => {
      // The agent starts even so; the occurrences are missed.
      await beforeDisarming().catch((error) => {
        console.error(
          "[perdure] the tasks that Think has scheduled could not be taken over:",
          error,
        );
      });
      return {};
    };
    try {
      await start(props);
    } finally {
      hidden = undefined;
      if (own) Object.defineProperty(agent, "getScheduledTasks", own);
      else Reflect.deleteProperty(agent, "getScheduledTasks");
    }
    // The scheduler has reported the error, and tries again: the agent starts even so.
    await afterStart().catch(() => {});
  };
  return async () => (hidden ?? agent.getScheduledTasks).call(agent);
}
