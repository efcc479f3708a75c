/** Runs the handler of a delivery, and offers what it calls to the agent. Receivers and replays use it. Without Zod. */

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

/** Never rejects: what was thrown is in the result. */
export async function offer(
  handler: Handler,
  arrival: Arrival,
  agent: AcceptsDeliveries,
): Promise<Offered> {
  const seen = new Set<Acceptance["verdict"]>();
  let refused: Extract<Acceptance, { verdict: "refused" }> | undefined;
  let isUnreachable = false;
  let calls = 0;
  const accept: AcceptsDeliveries["acceptDelivery"] = async (request) => {
    try {
      const acceptance = await agent.acceptDelivery(request);
      seen.add(acceptance.verdict);
      if (acceptance.verdict === "refused") refused = acceptance;
      return acceptance;
    } catch (error) {
      isUnreachable = true;
      throw error;
    }
  };
  const { body: _, ...known } = arrival;
  const call = async (verb: string, args: readonly unknown[]) => {
    const ordinal = calls++;
    const delivery = ordinal === 0 ? arrival : known;
    const acceptance = await accept({ delivery, call: { ordinal, verb, args } });
    if (acceptance.verdict !== "refused") return acceptance.result;
    const { name, message } = acceptance.error;
    throw Object.assign(new Error(message), { name });
  };
  const caller = new Proxy(
    {},
    {
      // `then` is read by every await.
      get: (_target, verb) =>
        typeof verb === "symbol" || verb === "then"
          ? undefined
          : (...args: unknown[]) => call(verb, args),
    },
  );
  try {
    const result = await handler.handle(arrival, caller);
    if (calls === 0) await accept({ delivery: arrival });
    const verdict = (["accepted", "filtered", "duplicate"] as const).find((one) => seen.has(one));
    return { verdict: verdict ?? "refused", result };
  } catch (error) {
    if (isUnreachable) return { verdict: "refused", error, isUnreachable };
    if (refused) {
      const { retryAfter } = refused;
      return { verdict: "refused", error, ...(retryAfter !== undefined && { retryAfter }) };
    }
    // The handler's own error: stored, so that the delivery can be replayed. If that fails, the sender's retry remains.
    const refusal = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    await accept({ delivery: arrival, refusal }).catch(() => {});
    return { verdict: "refused", error };
  }
}
