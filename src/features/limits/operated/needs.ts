/** What needs limits(), and what limits() needs, for `perdure doctor` and `perdure init`. */

import type { Needs } from "../../../engine/operated/needs.ts";

export const NEEDS = {
  limits: {
    from: "perdure/limits",
    written: {
      method: "submitMessages",
      options: ["concurrency", "rate", "singleton", "budget.usd"],
      why: "submits with concurrency, rate, singleton or budget.usd",
    },
    object: { className: "LimitKeeper", binding: "LIMIT_KEEPER", option: "keeper" },
  },
} as const satisfies Needs;
