/** The outbox for operators, as lists. */

import type { Json } from "../../core/json.ts";
import type { Called, List, Query } from "../../engine/operated/list.ts";
import type { Outbox } from "../outbox.ts";
import type {
  DeadLetter,
  DeadLetterFilter,
  DeliveryInfo,
  DeliveryState,
  Endpoint,
  ListDeliveriesOptions,
} from "../types.ts";
import type { Action } from "./catalog.ts";

/** A delivery of the outbox with its event, where it is kept. */
export type DeliveryDetails = DeliveryState & { readonly id: string; readonly event?: Json };

type Stub = {
  readonly outbox: Called<
    Pick<
      Outbox,
      | "listDeliveries"
      | "inspect"
      | "read"
      | "listDeadLetters"
      | "listEndpoints"
      | "inspectEndpoint"
    >
  >;
};

/** Where a delivery goes, e.g. `webhook https://example.com/hook`. */
function targetOf({ destination }: { readonly destination: { readonly kind: string } }): string {
  const { kind, ...to } = destination as Readonly<Record<string, unknown>> & { kind: string };
  const target = to.url ?? to.queue ?? to.method ?? to.agent ?? to.workflow ?? to.channel ?? "";
  return `${kind} ${typeof target === "string" ? target : ""}`;
}

const deadActions = (deliveryId: string): Action[] => [
  { do: "redrive", deliveryId },
  { do: "delete-dead-letter", deliveryId },
];

type DeliveryFilter = Pick<
  ListDeliveriesOptions,
  "state" | "submissionId" | "kind" | "destination"
>;

export const LISTS: {
  readonly deliveries: List<DeliveryInfo, DeliveryFilter, Action>;
  readonly "dead-letters": List<DeadLetter, DeadLetterFilter, Action>;
  readonly endpoints: List<Endpoint, Record<never, never>, Action>;
} = {
  deliveries: {
    title: "Outbox",
    letter: "d",
    empty: "No delivery yet. Events that the agent puts into its outbox appear here.",
    id: ({ id }) => id,
    link: "Delivery",
    columns: {
      State: ["status", ({ state }) => state],
      To: ["text", targetOf, 60],
      Delivery: ["id", ({ id }) => id],
      Attempt: ["text", ({ attempt }) => attempt],
      Put: ["time", ({ createdAt }) => createdAt],
      Error: ["text", (item) => "lastError" in item && item.lastError],
    },
    filters: {
      state: ["waiting", "delivered", "discarded", "dead"],
      kind: "text",
      submissionId: "text",
      destination: "json",
    },
    actions: ({ id, state }) => (state === "dead" ? deadActions(id) : []),
  },
  "dead-letters": {
    title: "Dead letters",
    letter: "l",
    empty: "No dead letters. Deliveries that were given up appear here.",
    id: ({ id }) => id,
    link: "Delivery",
    columns: {
      To: ["text", targetOf, 60],
      Delivery: ["id", ({ id }) => id],
      Attempts: ["text", ({ attempts }) => attempts],
      Died: ["time", ({ diedAt }) => diedAt],
      "May have arrived": ["text", ({ isUncertain }) => (isUncertain ? "yes" : "no")],
      Error: ["text", ({ lastError }) => lastError],
    },
    filters: { since: "time", isUncertain: "flag", destination: "json" },
    actions: ({ id }) => deadActions(id),
  },
  endpoints: {
    title: "Endpoints",
    letter: "e",
    empty: "All endpoints are healthy. URLs that fail, or are disabled, appear here.",
    id: ({ url }) => url,
    link: "URL",
    columns: {
      State: ["status", ({ state }) => state],
      URL: ["text", ({ url }) => url, 60],
      Since: ["time", (item) => ("since" in item ? item.since : undefined)],
      Reason: ["text", (item) => "reason" in item && item.reason],
    },
    actions: ({ url, state }) => [
      ...(state === "disabled" ? [] : [{ do: "disable-endpoint" as const, url }]),
      { do: "enable-endpoint", url },
    ],
  },
};

/** Each list, as the API reads it from the agent. */
export const READS = {
  deliveries: ({ outbox }: Stub, query: Query) => outbox.listDeliveries(query),
  "dead-letters": ({ outbox }: Stub, query: Query) => outbox.listDeadLetters(query),
  endpoints: ({ outbox }: Stub, query: Query) => outbox.listEndpoints(query),
};

/** Each item with its details. */
export const OPENS = {
  deliveries: open,
  "dead-letters": open,
  endpoints: ({ outbox }: Stub, url: string) => outbox.inspectEndpoint(url),
};

async function open({ outbox }: Stub, id: string): Promise<DeliveryDetails | null> {
  const [state, event] = await Promise.all([outbox.inspect(id), outbox.read(id)]);
  const isKept = event !== null && event !== undefined;
  return state && { id, ...state, ...(isKept && { event: event as Json }) };
}
