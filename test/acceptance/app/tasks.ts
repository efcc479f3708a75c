/** Scheduled tasks of the app. */

import { defineScheduledTasks } from "perdure/scheduler";
import { taskRuns } from "./receivers.ts";

/** @param owner name of the object */
export function scheduledTasks(owner: string) {
  return defineScheduledTasks({
    ask: { schedule: "every day at 09:00 in Europe/Paris", prompt: "Write the digest." },
    note: {
      schedule: "every monday at 09:00 in Europe/Paris",
      handler: ({ idempotencyKey }) => taskRuns.receive(owner, idempotencyKey),
    },
  });
}
