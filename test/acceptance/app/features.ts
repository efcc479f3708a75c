/** Features of the app, and the limits that its agents share. */

import { agentTools } from "perdure/agent-tools";
import { inbound, signedLinks } from "perdure/inbound";
import { limit, limits } from "perdure/limits";
import { operations } from "perdure/operator";
import { replies } from "perdure/replies";
import { schedules } from "perdure/scheduler";
import { followers } from "perdure/streams";
import { scheduledTasks } from "./tasks.ts";

export const LINKS = { url: "https://app.example/hooks/links", secret: "HOOK_SECRET" };

/** Submissions choose a limit by their metadata, `{ slot: <key> }` and so on. Each test uses keys of its own. */
const sharedLimits = limits({
  limits: [
    limit("slot", { key: ({ metadata }) => metadata.slot as string, concurrency: 1 }),
    limit("impatient", {
      key: ({ metadata }) => metadata.impatient as string,
      concurrency: 1,
      timeout: "1 minute",
    }),
    limit("money", {
      key: ({ metadata }) => metadata.money as string,
      usd: "0.50 per hour",
      atEnd: "fail",
    }),
  ],
  prices: { "perdure/*": { input: 1_000, output: 1_000 } },
  maxOutputTokens: 100,
});

const COMMON = [
  operations(),
  followers(),
  replies(),
  inbound(),
  signedLinks(LINKS),
  sharedLimits,
] as const;

/** For the class of an agent, which declares its tasks by `getScheduledTasks()`. */
export const AGENT_FEATURES = [...COMMON, schedules(), agentTools()];

/** For a plain object, which has neither that method nor sub-agents. */
export const makeObjectFeatures = (name: () => string) => [
  ...COMMON,
  schedules({ tasks: () => scheduledTasks(name()) }),
];
