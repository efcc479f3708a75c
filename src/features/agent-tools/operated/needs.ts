/** What needs agentTools(), for `perdure doctor`. */

import type { Needs } from "../../../engine/operated/needs.ts";

export const NEEDS = {
  agentTools: {
    from: "perdure/agent-tools",
    step: { method: "agentTool", name: "step.agentTool()" },
  },
} as const satisfies Needs;
