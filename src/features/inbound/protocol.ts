/** What travels between a Worker that receives arrivals or serves links, and the agent. Without Zod: receivers load it. */

import type { AgentPathStep } from "agents";
import type { Json } from "../../core/json.ts";
import type {
  Approval,
  ApprovalDecisionResult,
} from "../../workflow/waits/kinds/approval-types.ts";

/** An arrival that a receiver has verified. */
export type RawArrival = {
  /** The name of its source, e.g. `github`. */
  readonly source: string;
  /** The sender's id of it, 1 to 100 characters of `[A-Za-z0-9_-]`: another id is replaced by its SHA-256. Unique per source. */
  readonly id: string;
  /** What happened, e.g. `issues` or `payment_intent.succeeded`; "" where the sender has no types. At most 200 characters. */
  readonly type: string;
  /** The parsed body, before the source's schema. Left out after the first call of an arrival. */
  readonly body?: Json;
  /** Of the raw body. */
  readonly bytes: number;
  /** SHA-256 of the raw body, in hex. */
  readonly hash: string;
  /** When it was received, epoch milliseconds. */
  readonly receivedAt: number;
};

/** One RPC of a receiver to the agent: accepts an arrival, and runs a call of its handler in the same transaction. */
export type AcceptRequest = {
  readonly arrival: RawArrival;
  /** Left out for an arrival whose handler has called nothing. */
  readonly call?: {
    /** The position of the call in its handler, from 0. */
    readonly ordinal: number;
    /** The agent's method. */
    readonly verb: string;
    readonly args: readonly unknown[];
  };
  /** Why the handler failed: the arrival is stored as refused. */
  readonly refusal?: string;
  /** Why nothing shows who sent it: the arrival is stored, and neither its handler nor a waiting workflow gets it. */
  readonly held?: string;
  /** The handler has ended: sent where an answer had `isUnfinished`. */
  readonly ended?: true;
};

/**
 * - `accepted`: it has started something, or a workflow waited for it;
 * - `duplicate`: it was accepted before, and nothing was run again;
 * - `filtered`: its handler has called nothing, and no workflow waits for it;
 * - `refused`: the agent or the handler refused it. The sender may send it again;
 * - `held`: nothing shows who sent it. It is stored, and only a replay runs its handler.
 */
export type Verdict = "accepted" | "duplicate" | "filtered" | "refused" | "held";

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

/** Requests of one source that were refused before their agent was known. */
export type RefusedRequests = {
  readonly source: string;
  readonly reason: RefusalReason;
  readonly count: number;
};

/** A request to a URL of a step. */
export type UrlRequest = {
  /** The topic of the wait. */
  readonly topic: string;
  /** SHA-256 of the raw body, in hex. */
  readonly hash: string;
  readonly body: Json;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
};

/** The outcome of a link. */
export type UrlOutcome =
  /** It has ended the wait, now or, for a duplicate, before. */
  | { readonly outcome: "accepted" | "duplicate" }
  /** Another request has ended the wait, or it was closed. */
  | { readonly outcome: "gone" }
  /** The body does not match the JSON Schema of the step. The wait stays open. */
  | { readonly outcome: "refused"; readonly problems: readonly string[] };

/** A call of the endpoint of signed links. */
export type LinkCall =
  | { readonly do: "inspect"; readonly approvalId: string }
  | {
      readonly do: "grant" | "reject";
      readonly approvalId: string;
      readonly by: string;
      readonly payload?: Json;
    }
  | ({ readonly do: "receive" } & UrlRequest);

export type LinkAnswer =
  /** Null for an unknown approval. */
  | { readonly approval: Approval | null }
  | { readonly decided: ApprovalDecisionResult }
  | { readonly received: UrlOutcome };

/** An agent, or a stub of one, that accepts arrivals. */
export type AcceptsArrivals = {
  callKernel(name: "acceptArrival", request: AcceptRequest): Promise<Acceptance>;
};

/** The calls of receivers, and of the endpoint of signed links, to an agent. */
export type InboundCalls = {
  /**
   * Accepts an arrival, and runs a call of its handler in the same transaction. What the call throws is in the answer.
   *
   * @throws InvalidArrivalError for an invalid request, or the error of storage; nothing is stored then
   */
  acceptArrival(request: AcceptRequest): Promise<Acceptance>;
  countRefused(request: RefusedRequests): Promise<void>;
  /** Does what a link asks for, in the sub-agent at the end of the path. */
  followLink(path: readonly AgentPathStep[], call: LinkCall): Promise<LinkAnswer>;
};

/** An arrival, as far as a wait needs it. */
export type WaitedArrival = Omit<RawArrival, "bytes" | "hash">;
