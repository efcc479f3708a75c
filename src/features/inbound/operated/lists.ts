/** The log of arrivals for operators, as lists. */

import type { Called, List, Query } from "../../../engine/operated/list.ts";
import type { Inbound } from "../inbound.ts";
import type { InboundFilter, LoggedArrival } from "../types.ts";
import type { Action } from "./catalog.ts";

type Stub = { readonly inbound: Called<Pick<Inbound, "list" | "inspect">> };

export const LISTS: {
  readonly inbound: List<LoggedArrival, InboundFilter, Action>;
} = {
  inbound: {
    title: "Arrivals",
    letter: "i",
    empty: "Nothing has arrived yet. Webhooks, e-mails and messages appear here.",
    id: ({ source, id }) => `${source}/${id}`,
    link: "Arrival",
    columns: {
      Verdict: [
        "status",
        ({ verdict, error }) => (error && verdict === "accepted" ? "failing" : verdict),
      ],
      Arrival: ["id", ({ id }) => id],
      Source: ["text", ({ source }) => source, 20],
      Type: ["text", ({ type }) => type, 30],
      Stored: ["time", ({ storedAt }) => storedAt],
      Started: ["text", ({ calls }) => calls.length],
      Error: ["text", ({ error }) => error?.message],
    },
    filters: {
      source: "text",
      verdict: ["accepted", "filtered", "refused", "held"],
      type: "text",
      since: "time",
      until: "time",
    },
    actions: ({ source, id }) => [{ do: "replay", source, id }],
  },
};

/** Each list, as the API reads it from the agent. */
export const READS = {
  inbound: ({ inbound }: Stub, query: Query) => inbound.list(query),
};

/** Each item with its details. */
export const OPENS = {
  inbound: ({ inbound }: Stub, source: string, id: string) => inbound.inspect(source, id),
};
