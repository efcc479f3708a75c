/** The modules of src/: what each has, and what it may import. scripts/check-imports.ts checks it, CONTRIBUTING.md shows it. */

export interface ModuleRule {
  readonly contents: string;
  /** Modules whose values and types it may import. */
  readonly imports: readonly string[];
  /** Modules from which it may import only types, with `import type`. */
  readonly typesOnly?: readonly string[];
}

const KERNEL = ["core", "kernel/outbox", "kernel/submissions", "kernel/waits", "kernel"];

/** By the folder. A file belongs to the module with the longest name. Operators see what modules have in this order. */
export const MODULES: Readonly<Record<string, ModuleRule>> = {
  core: {
    contents: "options, wake, migrations, failures, JSON, durations",
    imports: [],
  },
  "kernel/submissions": {
    contents: "the ledger of accepted turns",
    imports: ["core", "kernel/outbox"],
  },
  "kernel/waits": {
    contents: "what workflows wait for at their agent",
    imports: ["core", "kernel/outbox", "kernel/submissions"],
  },
  "kernel/outbox": {
    contents: "at-least-once delivery of events",
    imports: ["core"],
  },
  kernel: {
    contents: "makes submissions, outbox and waits of an object, and installs its features",
    imports: ["core", "kernel/outbox", "kernel/submissions", "kernel/waits"],
  },
  inbound: {
    contents: "the features `inbound()` and `signedLinks()`: the log of what arrives, and links",
    imports: [...KERNEL, "inbound/webhooks"],
  },
  "inbound/webhooks": {
    contents: "receivers for Workers: each sender, links, e-mail, queues, cron; without Zod",
    imports: ["core", "inbound"],
    typesOnly: ["kernel/outbox", "kernel/submissions", "kernel/waits", "replies"],
  },
  scheduler: {
    contents: "the feature `schedules()`: language, calendar, tasks, runs",
    imports: ["core"],
    typesOnly: ["kernel", "kernel/submissions"],
  },
  replies: {
    contents: "the feature `replies()`: messages to Slack, Discord, Telegram, GitHub and by e-mail",
    imports: ["core", "kernel/outbox"],
    typesOnly: ["kernel"],
  },
  streams: {
    contents: "the feature `followers()`, and streams of submissions and threads over HTTP",
    imports: KERNEL,
  },
  "streams/react": {
    contents: "hooks that follow submissions, threads and approvals",
    imports: ["streams"],
    typesOnly: ["kernel/submissions", "kernel/waits"],
  },
  "agent-tools": {
    contents: "the feature `agentTools()`: child agents as steps of workflows",
    imports: KERNEL,
  },
  limits: {
    contents: "the feature `limits()`, and the objects that lend capacity to agents",
    imports: KERNEL,
  },
  workflow: {
    contents: "the steps that run in Workflows",
    imports: ["core"],
    typesOnly: ["kernel/outbox", "kernel/submissions", "kernel/waits", "inbound", "agent-tools"],
  },
  codemode: {
    contents: "experimental: the feature `codemode()`, and its step",
    imports: [...KERNEL, "workflow"],
  },
  deploy: {
    contents:
      "the feature `deployments()`, and `versions()` of workflows: what a deploy would strand",
    imports: [...KERNEL, "workflow", "scheduler", "inbound"],
    typesOnly: ["limits"],
  },
  operator: {
    contents: "the feature `operations()`: report, actions, traces, the API and its client",
    imports: [...KERNEL, "inbound", "workflow"],
    typesOnly: ["scheduler"],
  },
  "operator/mcp": {
    contents: "MCP servers: for an agent's submissions, and for operators",
    imports: ["core", "scheduler", "inbound", "inbound/webhooks", "operator"],
    typesOnly: ["kernel/submissions"],
  },
  "operator/dashboard": {
    contents: "the operators' page",
    imports: ["core", "scheduler", "operator"],
  },
  "operator/cli": {
    contents: "`npx perdure`",
    imports: ["core", "scheduler", "operator"],
    typesOnly: ["deploy"],
  },
  hosts: {
    contents: "one adapter for each kind of agent. Only `hosts/think` imports scheduler",
    imports: [...KERNEL, "workflow"],
    typesOnly: ["operator", "streams", "inbound", "scheduler", "limits"],
  },
  testing: {
    contents: "the public test kit",
    imports: [...KERNEL, "workflow", "hosts"],
    typesOnly: ["deploy", "inbound", "scheduler"],
  },
};

/** The module of a file of src/, or undefined. */
export function moduleOf(file: string): string | undefined {
  const names = Object.keys(MODULES).filter((name) => file.startsWith(`${name}/`));
  return names.sort((one, other) => other.length - one.length)[0];
}

/** What has a wall around it: a folder of src/, and each part of the kernel. Core has none. */
export function walledOf(module: string): string {
  return module.startsWith("kernel/") ? module : (module.split("/", 1)[0] as string);
}
