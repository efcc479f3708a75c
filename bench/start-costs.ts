/**
 * What a start costs. `npm run bench -- --counts` fails above these bounds, and where one of a size is more than 4 kB above the
 * size. Lower a bound when the code shrinks, and never raise one. docs/cost.md has them as a table.
 */

import type { FeatureName } from "../src/workflow/agent/features.ts";

/** The files that an app imports, below src/, and their kB: minified and gzipped, with dependencies, without peers and Luxon. */
export const ENTRIES = {
  "perdure/think and perdure/workflow": {
    files: ["workflow/index.ts", "hosts/think/index.ts"],
    kB: 150,
  },
  "perdure/agent": { files: ["hosts/agent/index.ts"], kB: 93 },
  "perdure/object": { files: ["hosts/object/index.ts"], kB: 95 },
  "perdure/chat": { files: ["hosts/chat/index.ts"], kB: 99 },
  "perdure/workflow": { files: ["workflow/index.ts"], kB: 19 },
} as const satisfies Readonly<Record<string, { files: readonly string[]; kB: number }>>;

/** What each feature adds to `perdure/object`. */
export const FEATURES: Readonly<Record<FeatureName, { file: string; kB: number }>> = {
  schedules: { file: "scheduler/index.ts", kB: 36 },
  operations: { file: "operator/index.ts", kB: 42 },
  traces: { file: "operator/index.ts", kB: 10 },
  inbound: { file: "features/inbound/index.ts", kB: 12 },
  signedLinks: { file: "features/inbound/index.ts", kB: 2 },
  replies: { file: "features/replies/index.ts", kB: 10 },
  followers: { file: "features/streams/index.ts", kB: 4 },
  codemode: { file: "features/codemode/index.ts", kB: 4 },
  agentTools: { file: "features/agent-tools/index.ts", kB: 4 },
  limits: { file: "features/limits/index.ts", kB: 21 },
  deployments: { file: "features/deploy/index.ts", kB: 9 },
};

/** SQL statements of the first turn of a Think agent after a restart, without those of a warm one. */
export const COLD_STATEMENTS = 112;

/**
 * CPU time to evaluate the bundle of an app, as a multiple of that with the class that the agent extends. The two run in turns, so
 * that the speed of the machine does not matter, and the bound has room for its noise.
 */
export const EVALUATION = {
  DurableThink: { extends: "Think", atMost: 1.4 },
  DurableAgent: { extends: "Agent", atMost: 1.5 },
} as const;
