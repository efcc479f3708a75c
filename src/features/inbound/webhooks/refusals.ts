/** Tells an agent how many requests were refused, so that its health report has them. */

import type { CallsKernel } from "../../../core/calls.ts";
import { thrownText } from "../offer.ts";
import type { InboundCalls, RefusalReason } from "../protocol.ts";
import type { Arrival } from "./arrival.ts";
import { COLLECT_MS, MAX_TIME_LIMIT, PERIOD_MS } from "./limits.ts";
import { aFunction, checkOption, type Endpoint, type MaybeAgent } from "./preset.ts";

/** No arrival is verified, so none may select an agent. */
const UNVERIFIED = new Proxy({} as Arrival, {
  get() {
    throw new Error("No arrival is verified.");
  },
});

/**
 * The same endpoint, whose requests that are refused by their signature or time are counted by this agent for its health
 * report. Without it, the agent counts them that the endpoint's `agent` returns without reading the arrival, otherwise that
 * of the next arrival. They are counted in memory: each instance of the Worker calls the agent at most once a minute for
 * each reason, however many requests there are. What comes right after a call is told with a later one.
 *
 * @param agent finds the agent that counts: a stub, or `this` inside of an agent. Null or undefined: the refusal is not counted
 * @throws InvalidOptionError
 * @example
 * webhooks(countRefusals(github({ secret: "GITHUB_SECRET", agent, handle }), (env: Env) => getAgentByName(env.Ops, "ops")));
 */
export function countRefusals(
  endpoint: Endpoint,
  agent: { find(env: Cloudflare.Env): MaybeAgent }["find"],
): Endpoint {
  checkOption("endpoint", endpoint, [
    (value: Endpoint | undefined) => value?.preset,
    "an endpoint, e.g. what github() returns",
  ]);
  checkOption("agent", agent, aFunction);
  return { ...endpoint, countedBy: agent };
}

/** Counts a refused request. One of many calls the agent, with the counts of all. */
export async function countRefused(
  endpoint: Endpoint & { readonly env: object },
  reason: RefusalReason,
): Promise<void> {
  const { untold, options, countedBy } = endpoint;
  untold[reason]++;
  const now = Date.now();
  const wait = Math.max(COLLECT_MS, untold.calledAt + PERIOD_MS - now);
  if (wait >= MAX_TIME_LIMIT) return;
  untold.calledAt = now + wait;
  await new Promise((resolve) => setTimeout(resolve, wait));
  const env = endpoint.env as Cloudflare.Env;
  await tellRefused(endpoint, () => (countedBy ? countedBy(env) : options.agent(UNVERIFIED, env)));
}

/** Tells the agent of refused requests that no agent was told of. */
export async function tellRefused(
  { name: source, untold }: Endpoint,
  find: () => unknown,
): Promise<void> {
  for (const reason of ["signature", "clock"] as const) {
    const count = untold[reason];
    if (count === 0) continue;
    untold[reason] = 0;
    try {
      const agent = (await find()) as CallsKernel<InboundCalls> | null | undefined;
      await agent?.callKernel("countRefused", { source, reason, count });
    } catch (error) {
      untold[reason] += count;
      console.warn("[perdure] refused requests are not counted yet:", thrownText(error));
    }
  }
}
