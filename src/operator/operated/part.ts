/** Workflows that the agent tracks, and its MCP servers, for operators, where the agent runs. */

import { operatedPart } from "../../engine/operated/part.ts";
import { alertProblems, alertsNotSent } from "../alerts/problem.ts";
import type { OperatedAgent } from "../operated.ts";
import { oldestOpen, openRuns } from "../workflows/run-states.ts";
import { VERBS, WORKFLOWS } from "./actions.ts";
import { mcpFacts, mcpServerFails } from "./mcp.ts";
import { WORKFLOW_RULES } from "./rules.ts";

/** Tracked workflows that are read, which is the most that agents returns at once. */
const MOST_WORKFLOWS = 100;

export const PARTS = {
  workflows: operatedPart({
    answers: ["succeeds"],
    facts: async (operated: OperatedAgent, now) => {
      const { host, env } = operated;
      const limit = MOST_WORKFLOWS;
      const { workflows: newest, nextCursor } = host.getWorkflows({ limit });
      const oldest = nextCursor === null ? newest.toReversed() : oldestOpen(operated, limit);
      // Before what has ended is read: it stores ends.
      const open = await openRuns(operated, oldest, now);
      const { workflows: ended } = host.getWorkflows({ status: ["errored", "terminated"], limit });
      return { newest, ended, open, env };
    },
    rules: WORKFLOW_RULES,
    summary({ newest }) {
      const byStatus: Record<string, number> = {};
      for (const { status } of newest) byStatus[status] = (byStatus[status] ?? 0) + 1;
      return { counts: { workflows: byStatus }, judges: newest.length > 0 ? ["succeeds"] : [] };
    },
    verbs: VERBS,
    bulks: { workflows: WORKFLOWS },
  }),
  mcp: operatedPart({
    answers: ["succeeds"],
    facts: async ({ host }: OperatedAgent, now) => mcpFacts(host, now),
    rules: [mcpServerFails],
  }),
  alerts: operatedPart({
    answers: ["delivers"],
    facts: async ({ storage }: OperatedAgent) => alertProblems.get(storage),
    rules: [alertsNotSent],
  }),
};
