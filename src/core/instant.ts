/** Points in time as callers write them. What Perdure returns is always epoch milliseconds. */

/** A point in time: epoch milliseconds, a `Date`, or an ISO 8601 text with its offset, e.g. `"2026-01-05T09:00:00Z"`. */
export type Instant = number | Date | string;

/** How to write one, for messages about what is none. */
export const INSTANT_FORMS =
  'a valid Date, epoch milliseconds, or a text with its offset such as "2026-01-05T09:00:00Z"';

const TEXT = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)$/;

/** The same in whole epoch milliseconds; undefined for what is no point in time. */
export function instantMs(value: unknown): number | undefined {
  if (typeof value === "string" && !TEXT.test(value)) return undefined;
  if (typeof value !== "string" && typeof value !== "number" && !(value instanceof Date)) {
    return undefined;
  }
  const ms = new Date(value).getTime();
  if (Number.isNaN(ms)) return undefined;
  // Down, also before 1970: what is strictly after an instant is never the instant itself.
  return typeof value === "number" ? Math.floor(value) : ms;
}
