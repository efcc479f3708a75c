/** What an app declares, with its schedules checked by the compiler. */

import type { CheckedTasks } from "./language/literal.ts";
import type { ScheduledTask } from "./types.ts";

/**
 * The tasks as they are. A text that is known at compile time and is no schedule is an error where
 * it stands; one that is built at run time is checked at the start (S4), and by `parseSchedule()` at
 * any time.
 *
 * @example
 * defineScheduledTasks({
 *   digest: { schedule: "every weekday at 09:00 in Europe/London", handler: ({ idempotencyKey }) => { ... } },
 * })
 */
export function defineScheduledTasks<const Tasks extends Readonly<Record<string, ScheduledTask>>>(
  tasks: Tasks & CheckedTasks<Tasks>,
): Tasks {
  return tasks;
}
