/** Deletes the wakes that the root agent keeps for a deleted sub-agent. They would start the root agent for nothing. */

import type { Agent } from "agents";
import type { Capability } from "../../core/capability.ts";
import type { AgentPath, WakesVerb } from "../../core/wake.ts";

export type SubAgents = Agent["dynamicAgents"];

/** Runs `remove`, which deletes the sub-agent at `path`, and removes its wakes from the root agent. */
export async function deleteWithWakes(
  capabilities: readonly Capability[],
  path: AgentPath,
  remove: () => Promise<void>,
): Promise<void> {
  // After a crash between the two, the wakes come soon, find no agent and lapse.
  await changeWakes(capabilities, path, "expedite");
  await remove();
  await changeWakes(capabilities, path, "remove");
}

/** The same sub-agents, whose deletion goes through `remove`. */
export function deletedBy(
  subAgents: SubAgents,
  remove: (step: AgentPath[number], work: () => Promise<void>) => Promise<void>,
): SubAgents {
  const deleted: SubAgents["delete"] = (cls, name) =>
    remove({ className: cls.name, name }, () => subAgents.delete(cls, name));
  return new Proxy(subAgents, {
    get(target, name) {
      if (name === "delete") return deleted;
      const member: unknown = Reflect.get(target, name, target);
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
}

/** A failure is logged; the sub-agent is deleted even so. */
export async function changeWakes(
  capabilities: readonly Capability[],
  path: AgentPath,
  verb: WakesVerb,
): Promise<void> {
  for (const result of await Promise.allSettled(
    capabilities.map((capability) => capability.changeWakesOf(path, verb)),
  )) {
    if (result.status === "fulfilled") continue;
    const { name } = path.at(-1) ?? {};
    console.error(
      `[perdure] The wakes of the sub-agent ${JSON.stringify(name)} could not be removed; they lapse when they are due:`,
      result.reason,
    );
    return;
  }
}
