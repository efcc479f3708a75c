/** Runs the handler of an arrival, and offers what it calls to the agent. Receivers and replays use it. Without Zod. */

import type {
  Acceptance,
  AcceptRequest,
  AcceptsArrivals,
  RawArrival,
  Verdict,
} from "./protocol.ts";

/** A source of arrivals, as a replay needs it. */
export type Handler = {
  /** Unique in a Worker, e.g. `github`. */
  readonly name: string;
  /** Calls the app's code with the arrival, and with what it calls the agent by. Rejects with what the app throws. */
  handle(arrival: RawArrival, agent: object): Promise<unknown>;
};

/** The outcome of an arrival. */
export type Offered = {
  readonly verdict: Verdict;
  /** The result of the handler. */
  readonly result?: unknown;
  /** Set when the arrival was refused. */
  readonly error?: unknown;
  /** In seconds; set when the agent has no room. */
  readonly retryAfter?: number | undefined;
  /** The agent could not be reached. */
  readonly isUnreachable?: true;
};

/** All sources of this Worker by name, for replays. A later one replaces an earlier one of the same name. */
export const handlers = new Map<string, Handler>();

/** The names of the secrets of this Worker's receivers, by the names of their endpoints, for health reports. */
export const receiverSecrets = new Map<string, readonly string[]>();

/** Of several calls, the arrival has the first of these. */
const VERDICTS = ["accepted", "filtered", "duplicate", "held", "refused"] as const;

/**
 * Never rejects: what was thrown is in the result. A handler may catch the refusal of a call, and the arrival is accepted if
 * another call is. Calls that it does not await are awaited here, and their refusals refuse the arrival.
 */
export async function offer(
  handler: Pick<Handler, "handle">,
  arrival: RawArrival,
  agent: AcceptsArrivals,
): Promise<Offered> {
  const seen = new Set<Verdict>();
  const refusals: Omit<Offered, "verdict">[] = [];
  let unreachable: Omit<Offered, "verdict"> | undefined;
  let isUnfinished: true | undefined;
  const accept = async (request: AcceptRequest): Promise<unknown> => {
    let acceptance: Acceptance;
    try {
      acceptance = await agent.callKernel("acceptArrival", request);
    } catch (error) {
      unreachable ??= { error, isUnreachable: true };
      throw error;
    }
    seen.add(acceptance.verdict);
    if (acceptance.verdict !== "refused") {
      isUnfinished ??= acceptance.isUnfinished;
      return acceptance.result;
    }
    const { error: fields, retryAfter } = acceptance;
    const error = Object.assign(new Error(fields.message), fields);
    refusals.push({ error, retryAfter });
    isUnfinished = true;
    throw error;
  };
  const { body: _, ...known } = arrival;
  const calls: Promise<unknown>[] = [];
  const call = (verb: string, args: readonly unknown[]) => {
    const ordinal = calls.length;
    const result = accept({ arrival: ordinal ? known : arrival, call: { ordinal, verb, args } });
    calls.push(result);
    // Observed here too: the handler may not await it.
    result.catch(() => {});
    return result;
  };
  const caller = new Proxy(
    {},
    {
      get: (_target, verb) => {
        // `then` is read by every await.
        if (typeof verb === "symbol" || verb === "then") return undefined;
        // A verb of a capability has its own name in the log.
        return (...args: unknown[]) =>
          call(verb === "callKernel" ? String(args.shift()) : verb, args);
      },
    },
  );
  try {
    const result = await handler.handle(arrival, caller);
    const awaited = refusals.length;
    await Promise.allSettled(calls);
    if (calls.length === 0) await accept({ arrival });
    // The handler has not awaited the calls that are refused now, so it has not caught these refusals. A sender's retry runs
    // only the calls that are not recorded.
    const problem = unreachable ?? refusals[awaited];
    if (problem) return { verdict: "refused", ...problem };
    const verdict = VERDICTS.find((one) => seen.has(one)) as Verdict;
    // If it fails, the arrival stays listed, and a replay ends it.
    if (isUnfinished) await accept({ arrival: known, ended: true }).catch(() => {});
    return { verdict, ...(verdict === "refused" && refusals.at(-1)), result };
  } catch (error) {
    await Promise.allSettled(calls);
    const problem = unreachable ?? refusals.at(-1);
    // The handler's own error: stored, so that the arrival can be replayed. If that fails, the sender's retry remains.
    if (!problem) await accept({ arrival, refusal: thrownText(error) }).catch(() => {});
    return { verdict: "refused", ...problem, error };
  }
}

/** Of a thrown value, e.g. `TypeError: x is not a function`. At most 500 characters. */
export function thrownText(error: unknown): string {
  try {
    return String(error).slice(0, 500);
  } catch {
    return "unreadable";
  }
}

/** Whether the agent can never be reached: the platform tells an object no name of more than 1,024 bytes. */
export function isNameless(error: unknown): boolean {
  return thrownText(error).includes("Durable Object name");
}
