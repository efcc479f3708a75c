/** Tells an agent how many requests were refused, so that its health report has them. */

import type { CallsKernel } from "../../core/calls.ts";
import { thrownText } from "../offer.ts";
import type { InboundCalls, RefusalReason } from "../protocol.ts";
import { COLLECT_MS, MAX_TIME_LIMIT, PERIOD_MS } from "./limits.ts";
import { aFunction, checkOption, type Endpoint, type Incoming, type MaybeAgent } from "./preset.ts";

/** Requests that the agent was not told of, and when it is or was called. */
type Untold = { count: number; calledAt: number };

/**
 * The same endpoint, whose requests that are refused by their signature or time are counted by an agent for its health
 * report. They are counted in memory: each instance of the Worker calls the agent at most once a minute for each reason,
 * however many requests there are. What comes right after a call is told with a later one.
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
  const { preset, name: source } = endpoint;
  const untold: Record<RefusalReason, Untold> = {
    signature: { count: 0, calledAt: 0 },
    clock: { count: 0, calledAt: 0 },
  };
  const call = async (reason: RefusalReason, wait: number, env: object) => {
    await new Promise((resolve) => setTimeout(resolve, wait));
    const found = untold[reason];
    const { count } = found;
    found.count = 0;
    try {
      const counts = await agent(env as Cloudflare.Env);
      const call = counts as CallsKernel<InboundCalls> | null | undefined;
      await call?.callKernel("countRefused", { source, reason, count });
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
      incoming.ctx.waitUntil(call(reason, wait, incoming.env));
    }
    return verified;
  };
  return { ...endpoint, preset: { ...preset, verify } };
}
