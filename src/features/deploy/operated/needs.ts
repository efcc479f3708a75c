/** What needs deployments(), for `perdure doctor`. */

import type { Needs } from "../../../engine/operated/needs.ts";

export const NEEDS = {
  deployments: {
    from: "perdure/deploy",
    step: { method: "step.version", name: "step.version()" },
  },
} as const satisfies Needs;
