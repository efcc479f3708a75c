/** What needs schedules(), for `perdure doctor`. */

import type { Needs } from "../../engine/operated/needs.ts";

export const NEEDS = {
  schedules: {
    from: "perdure/scheduler",
    preset: "perdure/think",
    written: { member: "getScheduledTasks", why: "declares getScheduledTasks()" },
  },
} as const satisfies Needs;
