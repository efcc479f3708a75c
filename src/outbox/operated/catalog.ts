/** The outbox for operators, as data. */

import type { ActionCatalog, ActionOf, FindingCatalog } from "../../engine/operated/catalog.ts";
import type { DeadLetterFilter } from "../types.ts";

export const FINDINGS = {
  "destination-fails": "delivers",
  "destination-slow": "delivers",
  "secret-refused": "delivers",
  "secret-missing": "delivers",
  "binding-missing": "delivers",
  "endpoint-disabled": "delivers",
  "poison-delivery": "delivers",
  "dead-letters": "delivers",
  "uncertain-dead-letters": "delivers",
  "outbox-near-limit": "delivers",
} as const satisfies FindingCatalog;

export const COUNTS = { outbox: { waiting: 0, deadLetters: 0 } };

const deadLetter = {
  fields: { deliveryId: ["id", "the id of the dead letter"] },
  filter: "dead-letters",
} as const;
const endpoint = {
  fields: { url: ["url", "the URL of the receiver"] },
  isIdempotent: true,
} as const;

export const ACTIONS = {
  redrive: {
    label: "Redrive",
    ...deadLetter,
    does: "Sends dead letters again. Those that may have been delivered only with isUncertain: true; with state: waiting, those that wait for their next attempt.",
  },
  "delete-dead-letter": {
    label: "Delete",
    ...deadLetter,
    does: "Deletes dead letters.",
    isDestructive: true,
    isForPeople: true,
  },
  "enable-endpoint": { label: "Enable", ...endpoint, does: "Sends to a disabled URL again." },
  "disable-endpoint": {
    label: "Disable",
    ...endpoint,
    does: "Sends nothing more to a URL until it is enabled again.",
  },
} as const satisfies ActionCatalog;

export type Filters = {
  readonly "dead-letters": DeadLetterFilter & {
    /** Deliveries that wait for their next attempt, in place of dead letters: for a redrive. */
    readonly state?: "waiting";
  };
};
export type Action = ActionOf<typeof ACTIONS, Filters>;
