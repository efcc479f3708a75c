/** Runs the handler of a delivery, and offers what it calls to the agent. Receivers and replays use it. Without Zod. */

import { failureOf } from "../core/failures.ts";
import type { Acceptance, AcceptsDeliveries, Arrival, Verdict } from "./protocol.ts";

/** A source of deliveries, as a replay needs it. */
export type Handler = {
  /** Unique in a Worker, e.g. `github`. */
  readonly name: string;
  /** Calls the app's code with the delivery, and with what it calls the agent by. Rejects with what the app throws. */
  handle(arrival: Arrival, agent: object): Promise<unknown>;
};

/** What has become of a delivery. */
export type Offered = {
  readonly verdict: Verdict;
  /** What the handler has returned. */
  readonly result?: unknown;
  /** Set when the delivery was refused. */
  readonly error?: unknown;
  /** In seconds; set when the agent has no room. */
  readonly retryAfter?: number;
  /** The agent could not be reached. */
  readonly isUnreachable?: true;
};

/** All sources of this Worker by name, for replays. A later one replaces an earlier one of the same name. */
export const handlers = new Map<string, Handler>();

/**
 * Never rejects: what was thrown is in the result. A handler may catch the refusal of a call, and the delivery is accepted if
 * another call is. Calls that it does not await are awaited here, and their refusals refuse the delivery.
 */
export async function offer(
  handler: Handler,
  arrival: Arrival,
  agent: AcceptsDeliveries,
): Promise<Offered> {
  const seen = new Set<Acceptance["verdict"]>();
  let refusal: Refusal | undefined;
  let unreachable: { readonly error: unknown } | undefined;
  const accept: AcceptsDeliveries["acceptDelivery"] = async (request) => {
    try {
      const acceptance = await agent.acceptDelivery(request);
      seen.add(acceptance.verdict);
      return acceptance;
    } catch (error) {
      unreachable ??= { error };
      throw error;
    }
  };
  const { body: _, ...known } = arrival;
  let calls = 0;
  const pending = new Set<Promise<unknown>>();
  const call = async (verb: string, args: readonly unknown[]) => {
    const ordinal = calls++;
    const delivery = ordinal === 0 ? arrival : known;
    const acceptance = await accept({ delivery, call: { ordinal, verb, args } });
    if (acceptance.verdict !== "refused") return acceptance.result;
    refusal = acceptance;
    const { name, message } = acceptance.error;
    throw Object.assign(new Error(message), { name });
  };
  const track = (result: Promise<unknown>) => {
    pending.add(result);
    const settle = () => pending.delete(result);
    result.then(settle, settle);
    return result;
  };
  const caller = new Proxy(
    {},
    {
      // `then` is read by every await.
      get: (_target, verb) =>
        typeof verb === "symbol" || verb === "then"
          ? undefined
          : (...args: unknown[]) => track(call(verb, args)),
    },
  );
  try {
    const result = await handler.handle(arrival, caller);
    // Promise.all() would leave the others unobserved.
    for (const settled of await Promise.allSettled(pending)) {
      if (settled.status === "rejected") throw settled.reason;
    }
    if (calls === 0) {
      const acceptance = await accept({ delivery: arrival });
      if (acceptance.verdict === "refused") refusal = acceptance;
    }
    // A sender's retry runs only the calls that are not recorded.
    if (unreachable) return { verdict: "refused", result, ...unreachable, isUnreachable: true };
    const verdict = (["accepted", "filtered", "duplicate"] as const).find((one) => seen.has(one));
    return verdict ? { verdict, result } : { ...refusedBy(refusal, refusal?.error), result };
  } catch (error) {
    if (unreachable) return { verdict: "refused", error, isUnreachable: true };
    if (refusal) return refusedBy(refusal, error);
    // The handler's own error: stored, so that the delivery can be replayed. If that fails, the sender's retry remains.
    const { name, message } = failureOf(error);
    await accept({ delivery: arrival, refusal: `${name}: ${message}` }).catch(() => {});
    return { verdict: "refused", error };
  }
}

type Refusal = Extract<Acceptance, { verdict: "refused" }>;

function refusedBy(refusal: Refusal | undefined, error: unknown): Offered {
  const { retryAfter } = refusal ?? {};
  return { verdict: "refused", error, ...(retryAfter !== undefined && { retryAfter }) };
}
