/** What `step.webhook()` asks, and what it gets. */

import type { Json } from "../../core/json.ts";
import type { RawArrival } from "../protocol.ts";

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
export type WaitedArrival = Omit<RawArrival, "bytes" | "hash">;

/** The result of a completed wait: what the step returns, before its schema. */
export type WebhookResult = Required<WaitedArrival>;
