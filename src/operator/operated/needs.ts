/** What needs operations(), for `perdure doctor`. */

import type { Needs } from "../../engine/operated/needs.ts";

export const NEEDS = {
  operations: {
    from: "perdure/operator",
    // What serves operators: the API or the page.
    mounts: [
      ["perdure/dashboard", "dashboard"],
      ["perdure/operator", "operator"],
      ["perdure/mcp", "operatorMcp"],
    ],
  },
} as const satisfies Needs;
