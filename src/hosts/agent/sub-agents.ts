/** Deletes the wakes that the root agent keeps for a deleted sub-agent. They would start the root agent for nothing. */

import type { Agent } from "agents";
import type { AgentPath, WakesVerb } from "../../engine/wake.ts";
import type { Capability } from "../../engine/work-loop.ts";

export type SubAgents = Agent["dynamicAgents"];

/** The sub-agents of the agent at `path`. Deleting one also removes its wakes from the root agent. */
export function deletedWithWakes(
  subAgents: SubAgents,
  path: AgentPath,
  capability: Capability,
): SubAgents {
  const deleted: SubAgents["delete"] = async (cls, name) => {
    const deletedPath = [...path, { className: cls.name, name }];
    // After a crash between the two, the wakes come soon, find no agent and lapse.
    await changeWakes(capability, deletedPath, "expedite");
    await subAgents.delete(cls, name);
    await changeWakes(capability, deletedPath, "remove");
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
  capability: Capability,
  path: AgentPath,
  verb: WakesVerb,
): Promise<void> {
  try {
    await capability.changeWakesOf(path, verb);
  } catch (error) {
    console.error(
      `[perdure] The wakes of the sub-agent ${JSON.stringify(path.at(-1)?.name)} could not be removed:`,
      error,
    );
  }
}
