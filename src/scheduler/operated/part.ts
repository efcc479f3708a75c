/** Scheduled tasks for operators, where the agent runs. */

import { operatedPart } from "../../engine/operated/part.ts";
import type { Scheduler } from "../scheduler.ts";
import { type Operated, VERBS } from "./actions.ts";
import type { COUNTS } from "./catalog.ts";
import { SCHEDULER_RULES } from "./rules.ts";

function schedulerOf({ capabilities: { features } }: Operated): Scheduler | undefined {
  return features.has("schedules")
    ? (features.get("schedules", "healthReport()") as Scheduler)
    : undefined;
}

export const PARTS = {
  scheduler: operatedPart({
    answers: ["onTime"],
    facts: async (operated: Operated, now) => schedulerOf(operated)?.facts(now),
    rules: SCHEDULER_RULES,
    summary({ tasks, omitted }) {
      const counts: typeof COUNTS.tasks = { active: 0, paused: 0, finished: 0, invalid: 0 };
      for (const { state } of tasks) counts[state]++;
      const isWaiting = omitted.some(({ open, isArmed }) => isArmed || open > 0);
      const isBusy =
        omitted.some(({ open }) => open > 0) || tasks.some(({ firesAt }) => firesAt !== null);
      return {
        counts: { tasks: counts },
        judges: tasks.length > 0 || isWaiting ? ["onTime"] : [],
        // A task is armed at once; how long ago it was declared is not stored.
        ...(isBusy && { workSince: 0 }),
        isBusy,
      };
    },
    verbs: VERBS,
  }),
};
