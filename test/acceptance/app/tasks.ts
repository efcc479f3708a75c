/** Scheduled tasks of the app. */

import { defineScheduledTasks } from "perdure/scheduler";
import { taskRuns } from "./receivers.ts";
import type { Owner } from "./workflows.ts";

/** Names of objects that have tasks begin with it. Others have none, so that they are idle without an alarm. */
export const SCHEDULED = "scheduled-";

/** Tasks of single objects in place of {@link scheduledTasks}, by name. A test changes them as a deploy does. */
export const deployedTasks = new Map<string, ReturnType<typeof makeTasks>>();

/** @param owner name of the object */
export function scheduledTasks(owner: string) {
  if (!owner.startsWith(SCHEDULED)) return {} as ReturnType<typeof makeTasks>;
  return deployedTasks.get(owner) ?? makeTasks(owner);
}

/** Default zones of single objects, by name. A test changes them as a user's setting does. */
export const defaultTimezones = new Map<string, string>();

/** Runs of `note` and `hourly` are received under the name of the object and the task. */
export function makeTasks(owner: string, ofPrompt: Owner = {}) {
  return defineScheduledTasks({
    ask: {
      schedule: "every day at 09:00 in Europe/Paris",
      prompt: "Write the digest.",
      ...ofPrompt,
    },
    note: {
      schedule: "every day at 02:30 in Europe/Paris",
      handler: ({ idempotencyKey }) => taskRuns.receive(`${owner} note`, idempotencyKey),
    },
    fails: {
      schedule: "every day at 10:00 in Europe/Paris",
      retry: { maxAttempts: 2, baseDelayMs: 1, maxDelayMs: 1 },
      handler: ({ idempotencyKey }) => {
        taskRuns.receive(`${owner} fails`, idempotencyKey);
        throw new Error("The task fails");
      },
    },
    missed: {
      schedule: "every day at 11:00 in Europe/Paris",
      catchUp: "none",
      handler: ({ idempotencyKey }) => taskRuns.receive(`${owner} missed`, idempotencyKey),
    },
  });
}
