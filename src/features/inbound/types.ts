/** The types of the arrival log. */

import type { Failure } from "../../core/failures.ts";
import type { Json } from "../../core/json.ts";
import type { Instant } from "../../core/options/instant.ts";
import type { Duration } from "../../core/options/options.ts";
import type { RawArrival, Verdict } from "./protocol.ts";
import type { StoredVerdict } from "./states.ts";

/** Limits of the arrival log. */
export type InboundSettings = {
  /** How long arrivals stay in the log. An arrival that was deleted from it is accepted again if it is sent again. */
  readonly retention?: {
    /**
     * Counted from the acceptance. Older ones are deleted when later arrivals are accepted.
     * @default "30 days"
     */
    readonly maxAge?: Duration;
    /**
     * How many of the newest arrivals are kept. Up to 64 more stay until the next deletion.
     * @default 10_000
     */
    readonly maxCount?: number;
    /**
     * Bytes of all bodies as JSON. Above it, the oldest arrivals lose their bodies; they stay in the log, and cannot be
     * replayed.
     * @default 268_435_456, which is 256 MiB
     */
    readonly maxBytes?: number;
  };
  /**
   * Arrivals that are accepted at the same time. The next one is refused, and its sender is asked to try again.
   * @default 1_000
   */
  readonly maxInFlight?: number;
};

/** A workflow that waited for an arrival. */
export type WaitMatch = {
  readonly waitId: string;
  readonly workflow: { readonly name: string; readonly id: string };
};

/** Work that a call of a handler has started, if it has an id. */
export type Started =
  | { readonly kind: "submission"; readonly submissionIds: readonly string[] }
  | { readonly kind: "workflow"; readonly workflow: string; readonly workflowId: string }
  | { readonly kind: "method" };

/** A call of a handler that has been accepted. It is not run again. */
export type LoggedCall = Started & {
  /** Its position in the handler, from 0. */
  readonly ordinal: number;
  /** The agent's method. */
  readonly verb: string;
  /** The result as JSON. Left out if there is none, or more than 16 KiB. */
  readonly result?: Json;
};

/** A workflow that has received the arrival. */
export type LoggedWait = WaitMatch & { readonly kind: "wait" };

/** Why a handler has not ended. */
export type InboundFailure = Failure & {
  /** The call that was refused; left out where the handler itself has failed. */
  readonly ordinal?: number;
};

/** An arrival in the log. */
export type LoggedArrival = Omit<RawArrival, "body"> & {
  readonly verdict: StoredVerdict;
  /** When the agent stored it first, epoch milliseconds. */
  readonly storedAt: number;
  /** How often it was sent again. */
  readonly duplicates: number;
  /** The id of the arrival that this one repeats. */
  readonly replayOf?: string;
  /** Work that the arrival has started, in the order of acceptance. Lists leave out the results. */
  readonly calls: readonly (LoggedCall | LoggedWait)[];
  /** Set while its handler has not ended: it was refused, or a later call of an accepted one was. A replay continues it. */
  readonly error?: InboundFailure;
};

/** An arrival with its body. */
export type InspectedArrival = LoggedArrival & {
  /** Left out where it was larger than 1.5 MB, or has been deleted by `retention.maxBytes`. */
  readonly body?: Json;
};

/** Selects arrivals. */
export type InboundFilter = {
  readonly source?: string;
  readonly verdict?: StoredVerdict | readonly StoredVerdict[];
  readonly type?: string;
  /** Stored at this time or later. */
  readonly since?: Instant;
  /** Stored before this time. */
  readonly until?: Instant;
};

type Page = {
  /**
   * From 1 to 1,000.
   * @default 100
   */
  readonly limit?: number;
  /** The `cursor` of the page before. */
  readonly cursor?: string;
};

export type ListInboundOptions = InboundFilter & Page;

/** Without a `verdict`, those whose handler has not ended: refused ones, and accepted ones with an `error`. */
export type ReplayFilter = InboundFilter & Page;

/** The outcome of a replay. */
export type ReplayResult = {
  readonly source: string;
  /** The id that it was offered under: a new one for an accepted arrival whose handler had ended. */
  readonly id: string;
  readonly verdict: Verdict;
  /** Why it was refused. */
  readonly error?: Failure;
};

export type ReplayPage = {
  /** How many were offered to their handlers again, oldest first. */
  readonly replayed: number;
  readonly accepted: number;
  readonly failed: readonly {
    readonly source: string;
    readonly id: string;
    readonly error: Failure;
  }[];
  /** Continues after the last one. After a failure because the agent has no room, it continues with that one. */
  readonly cursor?: string;
};
