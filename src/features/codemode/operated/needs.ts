/** What needs codemode(), for `perdure doctor`. */

import type { Needs } from "../../../engine/operated/needs.ts";

export const NEEDS = {
  codemode: {
    from: "perdure/codemode",
    step: { calls: [["perdure/codemode", "runCode"]], name: "runCode()" },
  },
} as const satisfies Needs;
