/** Waits after the last kill for one state: all work has ended, and all agents are idle. One bound covers all of it. */

import { setTimeout as delay } from "node:timers/promises";
import type { Chaos } from "./chaos.ts";
import type { Client } from "./client.ts";
import type { Evidence } from "./judge/evidence.ts";
import { hasCaughtUp } from "./judge/followers.ts";
import { remainingWork } from "./judge/remains.ts";
import type { Load } from "./load.ts";
import { isDisturbed, isObject, type Look } from "./words.ts";

const POLL_MS = 1_000;
/** How often to send an event to each workflow, because the local engine does not resume it otherwise. */
const WAKE_MS = 10_000;
/** How often the agents are looked at. No call may reach them before, so that their own alarms wake them. */
const LOOK_MS = 5_000;

export type State = Pick<Evidence, "looks" | "platform"> & {
  /** What had not ended at the bound, apart from what the agents have left. */
  readonly unsettled: readonly string[];
};

/** Returns the idle state, or the last one before the bound. */
export async function settled(
  { client, load, chaos }: { client: Client; load: Load; chaos: Chaos },
  {
    agents,
    workflows,
    followers,
    until,
    signal,
  }: {
    agents: readonly string[];
    workflows: () => readonly string[];
    followers: Evidence["followers"];
    until: number;
    signal: AbortSignal;
  },
): Promise<State> {
  for (let wokenAt = 0; load.open().length > 0 && Date.now() < until; ) {
    if (Date.now() - wokenAt > WAKE_MS) {
      await chaos.wake();
      wokenAt = Date.now();
    }
    await delay(POLL_MS, undefined, { signal });
  }
  for (;;) {
    // A kill may have hidden that a pause took effect.
    await client.onWorkflows("resume", workflows());
    const openWorkflows = await chaos.wake();
    // A workflow that its binding has terminated leaves its approval open until somebody decides it.
    const deciding = agents.filter((agent) => !isDisturbed(agent) && !isObject(agent));
    await Promise.all(deciding.map((agent) => client.insistOn(agent, "grantAll")));
    const state = await look(client, agents, workflows());
    const unsettled = [
      ...load.open().map(({ id }) => id),
      ...(openWorkflows > 0 ? [`${openWorkflows} workflows`] : []),
      ...followers
        .filter((follower) => !hasCaughtUp(follower, state))
        .map(({ kind, id, agent }) => `the follower of the ${kind} ${id} of ${agent}`),
    ];
    const isIdle = unsettled.length === 0 && state.looks.flatMap(remainingWork).length === 0;
    if (isIdle || Date.now() > until) return { ...state, unsettled };
    await delay(LOOK_MS, undefined, { signal });
  }
}

async function look(
  client: Client,
  agents: readonly string[],
  workflows: readonly string[],
): Promise<Omit<State, "unsettled">> {
  const found = await Promise.all(agents.map((agent) => client.insistOn<Look>(agent, "look")));
  // A nested agent has the name of its root, which is no other agent of the soak.
  const looks = found.filter((one) => one !== undefined);
  if (looks.length < agents.length) throw new Error("The agents do not answer.");
  return { looks, platform: await client.onWorkflows("status", workflows) };
}
