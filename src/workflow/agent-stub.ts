/**
 * Stubs that survive their agent's crashes. A stub whose object went down stays broken, so that every retry through it
 * fails at once; a new stub reaches the restarted object.
 * https://developers.cloudflare.com/durable-objects/best-practices/error-handling/
 */

import { exports } from "cloudflare:workers";
import { type Agent, getSubAgentByName } from "agents";
import { preview } from "../core/json.ts";
import { text } from "../core/options/option-schemas.ts";
import { readStep, refusalOf } from "./options.ts";
import type { PromptTarget } from "./prompt-options.ts";
import type { StepAgent, StepCall } from "./step-call.ts";

/** Where a sub-agent is: its root's class and name, and those of each agent on the way down. */
export type AgentPath = readonly { readonly className: string; readonly name: string }[];

/** Whether the agent is reached through its parent, so that its stub cannot be made again without its path. */
export function isSubAgent(stub: object): boolean {
  return typeof (stub as { id?: unknown }).id !== "object";
}

/** A new stub for the same agent, found by its id among the Worker's bindings; the old one where there is none. */
export function renewed<Stub extends object>(env: object, stub: Stub, path?: AgentPath): Stub {
  if (isSubAgent(stub)) return (path && subAgentAt(path)) ?? stub;
  const { id } = stub as { id?: Partial<DurableObjectId> };
  const name = id?.name;
  if (typeof name !== "string") return stub;
  const namespace = Object.values(env).find(
    (binding): binding is DurableObjectNamespace =>
      isNamespace(binding) && binding.idFromName(name).equals(id as DurableObjectId),
  );
  return namespace ? (namespace.getByName(name) as unknown as Stub) : stub;
}

/** A new stub for an agent that is bound by that name. */
function agentAt<Stub>(env: object, binding: string, name: string): Stub {
  return (env as Record<string, DurableObjectNamespace>)[binding]?.getByName(name) as Stub;
}

function agentBindings(env: object): string[] {
  return Object.entries(env).flatMap(([name, binding]) => (isNamespace(binding) ? [name] : []));
}

/** By the classes that the Worker exports, which is how the platform finds the classes of sub-agents, too. */
function subAgentAt<Stub extends object>([root, ...path]: AgentPath): Stub | undefined {
  const classes = exports as unknown as Record<string, DurableObjectNamespace | undefined>;
  const namespace = root && classes[root.className];
  if (!namespace) return undefined;
  let stub = namespace.getByName(root.name) as unknown as Stub;
  for (const { className, name } of path) {
    stub = getLater(stub, className, name);
  }
  return stub;
}

/** `getSubAgentByName()` without its promise: each call of a method waits for the stub that it makes. */
function getLater<Stub extends object>(parent: object, className: string, name: string): Stub {
  const named = { name: className } as unknown as typeof Agent;
  return new Proxy({} as Stub, {
    get: (_, method) =>
      typeof method !== "string" || method === "then"
        ? undefined
        : async (...args: unknown[]) => {
            const child = await getSubAgentByName(parent as never, named, name);
            return (child as unknown as Record<string, (...args: unknown[]) => unknown>)[method]?.(
              ...args,
            );
          },
  });
}

/** Recognizes the class, and not the methods: a service binding answers to every name. */
function isNamespace(binding: unknown): binding is DurableObjectNamespace {
  return (
    typeof binding === "object" &&
    binding !== null &&
    binding.constructor.name === "DurableObjectNamespace"
  );
}

/** The same step, on the agent that it asks. */
export function onAgent(env: object, call: StepCall, target: PromptTarget | undefined): StepCall {
  if (target === undefined) return call;
  const refuse = refusalOf("prompt", call.name);
  const { binding = "", name } = target ?? {};
  const bindings = agentBindings(env);
  if (!bindings.includes(binding)) {
    const among = bindings.join(", ") || "none: env has no namespace";
    const problem = `expected an object with name, and as binding one of ${among}`;
    throw refuse(`Invalid agent ${preview(target)}: ${problem}.`);
  }
  readStep(text(), name, refuse, "agent.name");
  return {
    ...call,
    starter: call.agent,
    agent: () => agentAt<StepAgent>(env, binding, name),
  };
}
