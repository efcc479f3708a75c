/** Deletes the wakes that the root agent keeps for a deleted sub-agent. They would start the root agent for nothing. */

import type { Agent } from "agents";
import type { AgentPath, WakesVerb } from "../../engine/wake.ts";
import type { Capability } from "../../engine/work-loop.ts";

export type SubAgents = Agent["dynamicAgents"];

/** The sub-agents of the agent at `path`. Deleting one also removes its wakes from the root agent. */
export function deletedWithWakes(
  subAgents: SubAgents,
  path: AgentPath,
  capabilities: readonly Capability[],
): SubAgents {
  const deleted: SubAgents["delete"] = async (cls, name) => {
    const deletedPath = [...path, { className: cls.name, name }];
    // After a crash between the two, the wakes come soon, find no agent and lapse.
    await changeWakes(capabilities, deletedPath, "expedite");
    await subAgents.delete(cls, name);
    await changeWakes(capabilities, deletedPath, "remove");
  };
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
  const changes = capabilities.map((capability) => capability.changeWakesOf(path, verb));
  const failed = (await Promise.allSettled(changes)).find(({ status }) => status === "rejected");
  if (failed?.status !== "rejected") return;
  console.error(
    `[perdure] The wakes of the sub-agent ${JSON.stringify(path.at(-1)?.name)} could not be removed:`,
    failed.reason,
  );
}
