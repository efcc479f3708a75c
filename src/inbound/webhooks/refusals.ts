/** Tells an agent how many requests were refused, so that its health report has them. */

import type { CallsKernel } from "../../core/calls.ts";
import { thrownText } from "../offer.ts";
import type { InboundCalls, RefusalReason } from "../protocol.ts";
import type { Arrival } from "./arrival.ts";
import { COLLECT_MS, MAX_TIME_LIMIT, PERIOD_MS } from "./limits.ts";
import { aFunction, checkOption, type Endpoint, type Incoming, type MaybeAgent } from "./preset.ts";

/** Requests that the agent was not told of, and when it is or was called. */
type Untold = { count: number; calledAt: number };

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
  return { ...endpoint, preset: counting(endpoint, agent).preset, tell: () => {} };
}

/** The endpoint of an app that names no agent for its refused requests. */
export function countedByAny(endpoint: Endpoint): Endpoint {
  const { options, name: source } = endpoint;
  // No arrival is verified, so none may select an agent.
  const unknown = new Proxy({} as Arrival, {
    get: (_, field) => {
      if (field === "source") return source;
      throw new Error("No arrival is verified.");
    },
  });
  const find = async (env: Cloudflare.Env) => {
    try {
      return (await options.agent(unknown, env)) as Awaited<MaybeAgent>;
    } catch {
      return undefined;
    }
  };
  const { preset, tell } = counting(endpoint, find, true);
  return { ...endpoint, preset, tell };
}

/** @param isKept whether a count that no agent was found for is kept for the agent of the next arrival */
function counting(
  { preset, name: source }: Endpoint,
  find: (env: Cloudflare.Env) => MaybeAgent,
  isKept = false,
) {
  const untold: Record<RefusalReason, Untold> = {
    signature: { count: 0, calledAt: 0 },
    clock: { count: 0, calledAt: 0 },
  };
  const call = async (reason: RefusalReason, agent: MaybeAgent) => {
    const found = untold[reason];
    const { count } = found;
    found.count = 0;
    try {
      const counts = (await agent) as CallsKernel<InboundCalls> | null | undefined;
      if (counts) await counts.callKernel("countRefused", { source, reason, count });
      else if (isKept) found.count += count;
    } catch (error) {
      found.count += count;
      console.warn("[perdure] refused requests are not counted yet:", thrownText(error));
    }
  };
  const verify = async (incoming: Incoming) => {
    const verified = await preset.verify(incoming);
    if (verified === true) return verified;
    const reason = verified === "timestamp outside of the tolerance" ? "clock" : "signature";
    const found = untold[reason];
    found.count++;
    const now = Date.now();
    const wait = Math.max(COLLECT_MS, found.calledAt + PERIOD_MS - now);
    if (wait < MAX_TIME_LIMIT) {
      found.calledAt = now + wait;
      const calling = async () => {
        await new Promise((resolve) => setTimeout(resolve, wait));
        await call(reason, find(incoming.env as Cloudflare.Env));
      };
      incoming.ctx.waitUntil(calling());
    }
    return verified;
  };
  /** Tells the agent of an arrival what no other agent was told. */
  const tell = (agent: object, { waitUntil }: Incoming["ctx"]) => {
    for (const reason of ["signature", "clock"] as const) {
      const { count, calledAt } = untold[reason];
      // A call that is planned may find an agent of its own.
      if (count > 0 && Date.now() > calledAt) waitUntil(call(reason, agent as Awaited<MaybeAgent>));
    }
  };
  return { preset: { ...preset, verify }, tell };
}
