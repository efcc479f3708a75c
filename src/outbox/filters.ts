/** The options of lists, counts and redrives. */

import * as z from "zod";
import type { Instant } from "../core/options/instant.ts";
import {
  count,
  flag,
  instant,
  oneOf,
  optionsOf,
  readOptions,
  someOf,
  text,
} from "../core/options/option-schemas.ts";
import { invalidFilter, type PageOptions } from "../engine/page.ts";
import type { Destination } from "./destinations/index.ts";
import { DEAD_LETTERS as LETTERS } from "./store/ended.ts";
import { ENDPOINTS } from "./store/endpoints.ts";
import { DELIVERIES } from "./store/listing.ts";
import type {
  DeadLetterFilter,
  DeliveryState,
  ListDeadLettersOptions,
  ListDeliveriesOptions,
} from "./types.ts";

const STATES = ["waiting", "delivered", "discarded", "dead"] as const;

const LIMIT = count({ max: 1_000 }).default(100);
const FILTER = {
  since: instant().default(0),
  // Checked by the destinations, which know its kinds.
  destination: z.custom<Destination>().optional(),
};
const DEAD_LETTERS = { ...FILTER, isUncertain: flag().optional() };
export const DEAD_LETTER_FILTER = optionsOf<DeadLetterFilter>()(DEAD_LETTERS);
/** Of an operator's action. */
export const OPERATED_FILTER = optionsOf<DeadLetterFilter & { readonly state?: "waiting" }>()({
  ...DEAD_LETTERS,
  state: oneOf(["waiting"]).optional(),
});
/** Which dead letters, as options were read. */
export type ReadFilter = z.output<typeof DEAD_LETTER_FILTER>;
export const DEAD_LETTER_LIST = optionsOf<ListDeadLettersOptions>()({
  ...DEAD_LETTERS,
  limit: LIMIT,
  cursor: LETTERS.option,
});
export const DELIVERY_LIST = optionsOf<ListDeliveriesOptions>()({
  state: someOf<DeliveryState["state"]>(STATES).default([...STATES]),
  submissionId: text({ empty: true }).optional(),
  kind: z.custom<Destination["kind"]>().optional(),
  destination: FILTER.destination,
  limit: LIMIT,
  cursor: DELIVERIES.option,
});
export const ENDPOINT_LIST = optionsOf<PageOptions>()({
  limit: LIMIT,
  cursor: ENDPOINTS.option,
});
const BEFORE = optionsOf<{ readonly before: Instant }>()({ before: instant() });
const ID = text({ empty: true });
const REASON = text({ maxLength: 1_024 });

/** @throws InvalidFilterError for an invalid point in time */
export function readBefore(options: unknown): number {
  return readOptions(BEFORE, options, "options of deleteDeadLetters()", invalidFilter).before;
}

/** @throws InvalidFilterError for a value that cannot be a delivery id */
export function checkId(verb: string, id: unknown): void {
  readOptions(ID, id, `id of ${verb}`, invalidFilter);
}

/** @throws InvalidFilterError for an invalid reason */
export function checkReason(reason: unknown): void {
  readOptions(REASON, reason, "reason", invalidFilter);
}
