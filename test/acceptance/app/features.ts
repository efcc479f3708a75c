/** Features and options of the app, the same on every host. */

import { agentTools } from "perdure/agent-tools";
import { inbound, signedLinks } from "perdure/inbound";
import { limit, limits } from "perdure/limits";
import { operations } from "perdure/operator";
import { replies } from "perdure/replies";
import { schedules } from "perdure/scheduler";
import { followers } from "perdure/streams";
import { scheduledTasks } from "./tasks.ts";

/** Pending submissions of one agent. */
export const MAX_PENDING = 200;
/** Bytes of the bodies of arrivals that one agent keeps. */
export const MAX_ARRIVAL_BYTES = 200_000;

/** Limits of one agent. Retries follow at once, so that tests need not wait for them. */
export const OPTIONS = { maxPending: MAX_PENDING, retry: { baseDelay: 1, maxDelay: 1 } } as const;

/** Id of the model of which {@link sharedLimits} allow ten calls per second. */
export const SCARCE_MODEL = "scarce";

/** Names of agents that share a slot with their own chat clients begin with it. */
export const LIMITED = "limited-";

type Keys = Readonly<Record<string, string | undefined>>;

/** A submission chooses its limit and key by its metadata, e.g. `{ slot: key }`. Each test uses keys of its own. */
const sharedLimits = limits({
  limits: [
    limit("slot", { key: ({ metadata }) => (metadata as Keys).slot, concurrency: 1 }),
    limit("brief", {
      key: ({ metadata }) => (metadata as Keys).brief,
      concurrency: 1,
      timeout: "1 second",
    }),
    limit("money", {
      key: ({ metadata }) => (metadata as Keys).money,
      usd: "1.50 per hour",
      atEnd: "fail",
    }),
    limit("named", {
      key: ({ agent }) => (agent.startsWith(LIMITED) ? agent : undefined),
      concurrency: 1,
    }),
    limit("scarce", { models: `perdure/${SCARCE_MODEL}`, requests: "10 per second" }),
    limit("owner", {
      models: `perdure/${SCARCE_MODEL}`,
      key: ({ agent }) => agent,
      share: "fair",
    }),
  ],
  // A call reserves 1 dollar for its output, and costs 5 cents.
  prices: { "perdure/*": { input: 0, output: 10_000 } },
  maxOutputTokens: 100,
});

const COMMON = [
  operations(),
  followers(),
  replies(),
  inbound({ retention: { maxBytes: MAX_ARRIVAL_BYTES } }),
  signedLinks({ url: "https://app.example/hooks/links", secret: "HOOK_SECRET" }),
  sharedLimits,
] as const;

/** For the class of an agent, which declares its tasks by `getScheduledTasks()`. */
export const AGENT_FEATURES = [...COMMON, schedules(), agentTools()];

/** For a plain object, which has neither that method nor sub-agents. */
export const makeObjectFeatures = (name: () => string) => [
  ...COMMON,
  schedules({ tasks: () => scheduledTasks(name()) }),
];
