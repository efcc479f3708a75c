/** What needs deployments(), for `perdure doctor`. */

import type { Needs } from "../../core/operated/needs.ts";

export const NEEDS = {
  deployments: {
    from: "perdure/deploy",
    written: { method: "deployments.work", why: "calls deployments.work()" },
  },
} as const satisfies Needs;
