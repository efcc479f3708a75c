/** Waits after the last kill until all work has ended, or for a time limit, and reads each agent's storage. */

import { setTimeout as delay } from "node:timers/promises";
import type { Chaos } from "./chaos.ts";
import type { Client } from "./client.ts";
import type { Evidence } from "./count.ts";
import type { Load } from "./load.ts";
import type { Look } from "./words.ts";

const POLL_MS = 1_000;
/** How often to send an event to each workflow, because the local engine does not resume it otherwise. */
const WAKE_MS = 10_000;
/** After this time, wakes without work have fired: they come within 30 seconds of the last work. */
const LAPSE_MS = 75_000;
const LOOK_MS = 5_000;

export async function settled(
  load: Load,
  chaos: Chaos,
  { until, signal }: { until: number; signal: AbortSignal },
): Promise<void> {
  let openWorkflows = 1;
  let wokenAt = Date.now();
  while (Date.now() < until && (load.open().length > 0 || openWorkflows > 0)) {
    await delay(POLL_MS, undefined, { signal });
    const isDue = load.open().length === 0 || Date.now() - wokenAt > WAKE_MS;
    if (!isDue) continue;
    openWorkflows = await chaos.wake();
    wokenAt = Date.now();
  }
}

/** Reads until no wake without work is left. */
export async function lastLook(
  client: Client,
  agents: readonly string[],
  workflows: readonly string[],
): Promise<Pick<Evidence, "looks" | "platform">> {
  const deadline = Date.now() + LAPSE_MS;
  for (;;) {
    const looks = await Promise.all(agents.map((agent) => client.insist<Look>(agent, "look")));
    const seen = looks.filter((look) => look !== undefined);
    const isQuiet = seen.length === agents.length && seen.every(isAsleep);
    if (isQuiet || Date.now() > deadline) {
      const platform = await client.insist<Evidence["platform"]>("-", "statuses", workflows);
      if (seen.length < agents.length || !platform) throw new Error("The agents do not answer.");
      return { looks: seen, platform };
    }
    await delay(LOOK_MS);
  }
}

function isAsleep({ jobs, outbox }: Look): boolean {
  return outbox.length === 0 && !jobs.some(({ id }) => id.startsWith("perdure"));
}
