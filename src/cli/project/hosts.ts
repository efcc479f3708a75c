/** What the classes of a project are to Perdure: an agent on a host, an agent of the SDK without one, or a workflow. */

import path from "node:path";
import type { Node } from "@babel/types";
import { NEEDS } from "../../operator/operated/needs.ts";
import {
  type Calls,
  type Exported,
  isClass,
  isExport,
  type Meaning,
  type Sources,
} from "./classes.ts";
import { methodCalls, type SourceClass } from "./modules.ts";

export type HostEntry = `perdure/${"think" | "agent" | "chat" | "object"}`;

type HostFacts = {
  /** What a class extends, or calls. */
  readonly by: string;
  /** Peers of Perdure and of its peers that only this host needs. */
  readonly packages: readonly string[];
};

export const HOSTS: Readonly<Record<HostEntry, HostFacts>> = {
  "perdure/think": {
    by: "DurableThink",
    packages: ["@cloudflare/think", "@cloudflare/computer", "just-bash"],
  },
  "perdure/agent": { by: "DurableAgent", packages: [] },
  "perdure/chat": { by: "DurableChatAgent", packages: ["@cloudflare/ai-chat"] },
  "perdure/object": { by: "durable()", packages: [] },
};

export type Role =
  | { readonly is: "agent"; readonly host: HostEntry; readonly by: string }
  /** `host`: that of Perdure which replaces its base class, if there is one. */
  | { readonly is: "sdk-agent"; readonly host?: HostEntry; readonly by: string }
  | {
      readonly is: "workflow";
      readonly of: "agent" | "object";
      readonly by: string;
      /** It is Think's own, which has no steps of Perdure. */
      readonly isThinks?: true;
    }
  /** A class that has no part in Perdure. */
  | { readonly is: "other" }
  | { readonly is: "unknown" };

/** Think's entry with `ThinkWorkflow`. `perdure/workflow` has all its names. */
export const THINK_WORKFLOWS = "@cloudflare/think/workflows";

/** By package and export. */
const BASES: Readonly<Record<string, Role>> = Object.fromEntries(
  (
    [
      ["perdure/think", { is: "agent", host: "perdure/think", by: "DurableThink" }],
      ["perdure/agent", { is: "agent", host: "perdure/agent", by: "DurableAgent" }],
      ["perdure/chat", { is: "agent", host: "perdure/chat", by: "DurableChatAgent" }],
      ["@cloudflare/think", { is: "sdk-agent", host: "perdure/think", by: "Think" }],
      ["agents", { is: "sdk-agent", host: "perdure/agent", by: "Agent" }],
      ["agents/mcp", { is: "sdk-agent", by: "McpAgent" }],
      ["@cloudflare/ai-chat", { is: "sdk-agent", host: "perdure/chat", by: "AIChatAgent" }],
      ["agents/ai-chat-agent", { is: "sdk-agent", host: "perdure/chat", by: "AIChatAgent" }],
      ["perdure/workflow", { is: "workflow", of: "agent", by: "ThinkWorkflow" }],
      [THINK_WORKFLOWS, { is: "workflow", of: "agent", by: "ThinkWorkflow", isThinks: true }],
      ["agents/workflows", { is: "workflow", of: "agent", by: "AgentWorkflow" }],
      ["perdure/workflow", { is: "workflow", of: "object", by: "DurableWorkflow" }],
    ] as const
  ).map(([from, role]) => [keyOf({ from, name: role.by }), role]),
);

function keyOf({ from, name }: Exported): string {
  return `${from} ${name}`;
}

/** What a class extends, directly or not: classes of the project, itself first, and the base that another package has. */
export function lineageOf(sources: Sources, cls: SourceClass) {
  const classes = [cls];
  for (let at = cls; at.bases.length > 0; ) {
    const { file, bases } = at;
    const found = bases.map((name) => sources.find(file, name));
    const base = found.find(
      (each) => each && (isClass(each) ? !classes.includes(each) : keyOf(each) in BASES),
    );
    if (!base || !isClass(base)) return { classes, base: base ?? found[0] ?? ("unknown" as const) };
    classes.push(base);
    at = base;
  }
  return { classes, base: undefined };
}

/** The name in a class's `extends` that means a base class of a package, such as `Base` after `import { Think as Base }`. */
export function baseNameOf(sources: Sources, { file, bases }: SourceClass): string | undefined {
  return bases.find((name) => {
    const base = sources.find(file, name);
    return base !== undefined && !isClass(base) && keyOf(base) in BASES;
  });
}

export function roleOf(sources: Sources, cls: SourceClass): Role {
  const { classes, base } = lineageOf(sources, cls);
  if (base !== undefined && base !== "unknown" && !isClass(base)) {
    const known = BASES[keyOf(base)];
    if (known) return known;
  }
  if (classes.some((each) => callsDurable(sources, each)))
    return { is: "agent", host: "perdure/object", by: HOSTS["perdure/object"].by };
  const isPlain = base === undefined || isPlainBase(base);
  // An Outbox or a Scheduler needs what an agent needs.
  const hasParts = classes.some(({ file }) =>
    sources.module(file).specifiers.some((from) => /^(?:perdure|agents)(?:\/|$)/.test(from)),
  );
  // A bundle has Perdure in it.
  const isSource = sources.classes.includes(cls);
  return { is: isPlain && !hasParts && isSource ? "other" : "unknown" };
}

/** Whether a base is that of all Durable Objects. */
export const isPlainBase = (base: Meaning | "unknown") =>
  base !== "unknown" && isExport(base, "cloudflare:workers", "DurableObject");

export function callsDurable(sources: Sources, cls: SourceClass): boolean {
  return callsOf(sources, cls, "perdure/object", "durable").some(([object]) => isThis(object));
}

export const isThis = (node: Node | undefined) => node?.type === "ThisExpression";

/** Whether a plain Durable Object has the Lifecycle of agents, and so takes durable(). */
export function hasLifecycle(sources: Sources, cls: SourceClass): boolean {
  return isPlainBase(lineageOf(sources, cls).base) && installOf(cls) !== undefined;
}

/** The call of `Lifecycle.install(this)` in a class. */
export const installOf = ({ node }: SourceClass) =>
  methodCalls(node, "install").find((call) => isThis(call.arguments[0]));

/** Which of the functions a project imports, e.g. `dashboard()`: by default, those that serve operators. */
export function mountedBy(sources: Sources, mounts: Calls = NEEDS.operations.mounts): string[] {
  return mounts.flatMap(([from, name]) => (sources.imports(from, name) ? [`${name}()`] : []));
}

/** The arguments of each call of another package's function in a class. */
export function callsOf(sources: Sources, cls: SourceClass, from: string, name: string): Node[][] {
  return sources.argumentsOf([[from, name]], [cls]);
}

/** For people: `Shop (src/shop.ts:12)`. */
export function shown({ folder }: Sources, { name, file, line }: SourceClass): string {
  return `${name} (${path.relative(folder, file)}:${line})`;
}

/** For files and bindings: TicketWorkflow as ticket-workflow. */
export const kebabOf = (name: string) => name.replace(/(?<=[a-z0-9])(?=[A-Z])/g, "-").toLowerCase();

/** As agents compare a class with a binding: SupportAgent, SUPPORT_AGENT and support-agent are alike. */
export function isAlike(a: string, b: string): boolean {
  const plain = (name: string) => name.replace(/[^a-z0-9]/gi, "").toLowerCase();
  return plain(a) === plain(b);
}
