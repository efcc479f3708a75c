/** Workflows that the agent tracks, and its MCP servers, for operators, where the agent runs. */

import { operatedPart } from "../../core/operated/part.ts";
import { alertProblems, alertsNotSent } from "../alerts/problem.ts";
import type { OperatedAgent } from "../operated.ts";
import { VERBS, WORKFLOWS } from "./actions.ts";
import { mcpFacts, mcpServerFails } from "./mcp.ts";
import { WORKFLOW_RULES } from "./rules.ts";

/** Tracked workflows that are read, which is the most that agents returns at once. */
const MOST_WORKFLOWS = 100;

export const PARTS = {
  workflows: operatedPart({
    answers: ["succeeds"],
    facts: async ({ host, env }: OperatedAgent) => {
      const { workflows: newest } = host.getWorkflows({ limit: MOST_WORKFLOWS });
      const { workflows: errored } = host.getWorkflows({
        status: "errored",
        limit: MOST_WORKFLOWS,
      });
      return { newest, errored, env };
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
