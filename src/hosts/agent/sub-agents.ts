/** Sub-agents that are deleted leave no wakes of Perdure's at the root, which would start the root for nobody. */

import type { Agent } from "agents";
import type { Capability } from "../../core/capability.ts";
import type { AgentPath, WakesVerb } from "../../core/wake.ts";

export type SubAgents = Agent["dynamicAgents"];

/** Runs `remove`, which deletes the sub-agent at `path`, and removes its wakes from the root. */
export async function deleteWithWakes(
  rooms: readonly Capability[],
  path: AgentPath,
  remove: () => Promise<void>,
): Promise<void> {
  // Before: a crash between the two leaves wakes that come soon, find nobody, and lapse.
  await changeWakes(rooms, path, "expedite");
  await remove();
  await changeWakes(rooms, path, "remove");
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

/** What fails is told of, and keeps no sub-agent from being deleted. */
export async function changeWakes(
  rooms: readonly Capability[],
  path: AgentPath,
  verb: WakesVerb,
): Promise<void> {
  for (const result of await Promise.allSettled(
    rooms.map((room) => room.changeWakesOf(path, verb)),
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
