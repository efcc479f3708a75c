/** What `step.webhook()` asks, and what the agent's log of arrivals offers to its waits. */

import type { Json } from "../../core/json.ts";

/** The value of a field that an arrival must have. */
export type WebhookValue = string | number | boolean | null;

/** The request of a wait of kind `webhook`. */
export type WebhookRequest = {
  /** The name of the source. */
  readonly from?: string;
  readonly types?: readonly string[];
  /** By the path of each field, e.g. `data.object.id` or `items.0.sku`. */
  readonly match?: Readonly<Record<string, WebhookValue>>;
  /** How long before the wait an arrival may have come. */
  readonly lookbackMs?: number;
  /** The wait ends by a request to a URL of its own, and by no arrival. */
  readonly url?: true;
  /** JSON Schema of the body. */
  readonly schema?: Json;
  /** JSON Schema that the body is checked by, where `schema` refuses what its step takes. */
  readonly check?: Json;
};

/** An arrival, as far as a wait needs it. */
export type WaitedArrival = {
  readonly source: string;
  /** Unique per source. */
  readonly id: string;
  /** "" where the sender has no types. */
  readonly type: string;
  readonly body?: Json;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
};

/** A wait that an arrival has ended. */
export type WebhookMatch = {
  readonly waitId: string;
  readonly workflow: {
    /** The Workflow's binding name in `env`. */
    readonly name: string;
    readonly id: string;
  };
};

/** The agent's log of arrivals. Its methods are called in the transaction that opens a wait. */
export type ArrivalLog = {
  /** The newest arrivals since a time. */
  recent(query: {
    /** Epoch milliseconds. */
    readonly since: number;
    readonly source?: string | undefined;
    readonly limit: number;
  }): {
    /** Oldest first. They are read one by one: their bodies need not be in memory at once. */
    readonly arrivals: Iterable<WaitedArrival>;
    /** Whether more than the limit came since then. */
    readonly hasMore: boolean;
  };
  /** An arrival of the log has ended a wait. */
  recordWait(source: string, id: string, match: WebhookMatch): void;
};

/** The result of a completed wait: what the step returns, before its schema. */
export type WebhookResult = Required<WaitedArrival>;
