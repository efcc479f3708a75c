/** The binding by which a workflow calls its agent. */

import { preview } from "../../core/json.ts";
import {
  bindingOf,
  bindingsOf,
  isAlike,
  NAMESPACE,
  problemOfBinding,
  remedyOf,
} from "../../outbox/destinations/bindings.ts";
import type { HostAgent } from "./host-agent.ts";

/**
 * What is wrong with the binding by which a workflow will call this agent, as a text after "The workflow". A workflow that
 * cannot call its agent fails in its first step and cannot report it.
 */
export function problemOfAgentBinding(
  agent: HostAgent,
  agentBinding: string | undefined,
): string | undefined {
  const [root] = agent.selfPath;
  const { env } = agent;
  if (root === undefined) return undefined;
  if (agentBinding === undefined) {
    if (agent.ownBinding?.() !== undefined) return undefined;
    if (bindingsOf(env, NAMESPACE).some(([name]) => isAlike(name, root.className)))
      return undefined;
    return `has no agentBinding, and no Durable Object binding is named like its agent's class ${root.className}. ${remedyOf(env, NAMESPACE)}, or pass agentBinding to runWorkflow().`;
  }
  const problem = problemOfBinding(env, NAMESPACE, "agentBinding", agentBinding);
  if (problem) return `has ${problem.given} as agentBinding; ${problem.expected}, or pass another.`;
  const { ctx, parentPath } = agent;
  const { id } = ctx;
  // For a sub-agent only the root agent knows its id. In a jurisdiction one name has several ids.
  const isKnown = parentPath.length === 0 && id.name === root.name && id.jurisdiction === undefined;
  if (!isKnown || bindingOf(env, NAMESPACE, agentBinding).idFromName(root.name).equals(id))
    return undefined;
  return `has ${preview(agentBinding)} as agentBinding; expected a binding of ${root.className}.`;
}
