/** The layers of src/. scripts/check-imports.ts checks their imports, CONTRIBUTING.md shows them. */

/**
 * The layers from the ground up: a file imports from its own layer and from those above it in this list, types included. Operators see the
 * parts of the modules in this order.
 */
export const LAYERS = {
  core: "clock, JSON, options, schemas, errors, SQL",
  engine:
    "jobs: the wake, the loop, retention, recovery, paging, and the facts that operators read",
  outbox: "at-least-once delivery of events, and starts of workflows",
  submissions: "the ledger of accepted turns",
  workflow:
    "the steps that run in Workflows, what they wait for at their agent, and the parts of an agent",
  scheduler: "the schedule language, the calendar, tasks and their runs",
  features:
    "what an app installs: inbound, replies, streams, limits, deployments, agent tools, Code Mode",
  operator: "report, lists, actions, traces, the API, the page, and MCP servers",
  hosts: "how a turn runs in each kind of object",
  testing: "the public test kit",
  cli: "`npx perdure`",
} as const;

export type Layer = keyof typeof LAYERS;

const ORDER = Object.keys(LAYERS) as Layer[];

/** The layer of a file of src/, or undefined. */
export function findLayer(file: string): Layer | undefined {
  return ORDER.find((layer) => file.startsWith(`${layer}/`));
}

/** True if a file of one layer may import from another. */
export function mayImport(from: Layer, to: Layer): boolean {
  return ORDER.indexOf(to) <= ORDER.indexOf(from);
}
