/** What travels between a receiver (a Worker) and the agent that accepts a delivery. Without Zod: receivers load it. */

import type { Json } from "../core/json.ts";

/** A delivery that a receiver has verified. */
export type Arrival = {
  /** The name of its source, e.g. `github`. */
  readonly source: string;
  /** The sender's id of it, 1 to 100 characters of `[A-Za-z0-9_-]`: another id is replaced by its SHA-256. Unique per source. */
  readonly id: string;
  /** What happened, e.g. `issues` or `payment_intent.succeeded`; "" where the sender has no types. At most 200 characters. */
  readonly type: string;
  /** The parsed body, before the source's schema. Left out after the first call of a delivery. */
  readonly body?: Json;
  /** Of the raw body. */
  readonly bytes: number;
  /** SHA-256 of the raw body, in hex. */
  readonly hash: string;
  /** When it was received, epoch milliseconds. */
  readonly receivedAt: number;
};

/** One RPC of a receiver to the agent: accepts a delivery, and runs a call of its handler in the same transaction. */
export type AcceptRequest = {
  readonly delivery: Arrival;
  /** Left out for a delivery whose handler has called nothing. */
  readonly call?: {
    /** The position of the call in its handler, from 0. */
    readonly ordinal: number;
    /** The agent's method. */
    readonly verb: string;
    readonly args: readonly unknown[];
  };
  /** Why the handler failed: the delivery is stored as refused. */
  readonly refusal?: string;
  /** The handler has ended: sent where an answer had `isUnfinished`. */
  readonly ended?: true;
};

/**
 * - `accepted`: it has started something, or a workflow waited for it;
 * - `duplicate`: it was accepted before, and nothing was run again;
 * - `filtered`: its handler has called nothing, and no workflow waits for it;
 * - `refused`: the agent or the handler refused it. The sender may send it again.
 */
export type Verdict = "accepted" | "duplicate" | "filtered" | "refused";

/** The agent's answer. What the call has thrown is a value: an RPC that throws has not reached the agent. */
export type Acceptance =
  | {
      readonly verdict: Exclude<Verdict, "refused">;
      /** The result of the call as JSON, also for a duplicate. */
      readonly result?: Json;
      /** The log says that the handler has not ended, until a request says so. */
      readonly isUnfinished?: true;
    }
  | {
      readonly verdict: "refused";
      /** With those fields of the error that are strings, numbers or booleans. */
      readonly error: {
        readonly name: string;
        readonly message: string;
        readonly [field: string]: string | number | boolean;
      };
      /** Set when the agent has no room: when to send it again, in seconds. */
      readonly retryAfter?: number;
    };

/** Why a receiver has refused a request: by its signature or token, or by the time that is signed. */
export type RefusalReason = "signature" | "clock";

/**
 * One RPC of a receiver to the agent that counts requests which were refused before their agent was known. The answer says
 * nothing.
 */
export type RefusedRequests = {
  readonly source: string;
  readonly reason: RefusalReason;
  readonly count: number;
};

export type AcceptsRefusals = { acceptDelivery(request: RefusedRequests): Promise<unknown> };

/** An agent, or a stub of one, that accepts deliveries. */
export type AcceptsDeliveries = {
  acceptDelivery(request: AcceptRequest): Promise<Acceptance>;
};
