/** The log of arrivals for operators, as data. */

import type { ActionCatalog, ActionOf, FindingCatalog } from "../../../engine/operated/catalog.ts";
import type { InboundFilter } from "../types.ts";

export const FINDINGS = {
  "inbound-refused": "starts",
  "inbound-unfinished": "starts",
  "inbound-held": "starts",
  "inbound-poison": "starts",
  "inbound-duplicates": "starts",
  "inbound-requests-refused": "starts",
  "inbound-secret-missing": "starts",
} as const satisfies FindingCatalog;

export const COUNTS = { inbound: { accepted: 0, filtered: 0, refused: 0 } };

export const ACTIONS = {
  /** Without a `verdict` in the filter: those whose handler has not ended. */
  replay: {
    label: "Replay",
    fields: { source: ["id", "the source of the arrival"], id: ["id", "the id of the arrival"] },
    filter: "inbound",
    does: "Offers arrivals to their handlers again.",
  },
} as const satisfies ActionCatalog;

export type Filters = { readonly inbound: InboundFilter };
export type Action = ActionOf<typeof ACTIONS, Filters>;
