/** Parses points in time. */

/** A point in time: epoch milliseconds, a `Date`, or an ISO 8601 text with its offset, e.g. `"2026-01-05T09:00:00Z"`. */
export type Instant = number | Date | string;

/** The valid forms, for error messages. */
export const INSTANT_FORMS =
  'a valid Date, epoch milliseconds, or a text with its offset such as "2026-01-05T09:00:00Z"';

const TEXT = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)$/;

/** A point in time in whole epoch milliseconds; undefined for one that is invalid. */
export function instantMs(value: unknown): number | undefined {
  if (typeof value === "string" && !(TEXT.test(value) && isDay(value))) return undefined;
  if (typeof value !== "string" && typeof value !== "number" && !(value instanceof Date)) {
    return undefined;
  }
  const ms = new Date(value).getTime();
  if (Number.isNaN(ms)) return undefined;
  // Rounded down, also before 1970: a later search must never find the instant itself again.
  return typeof value === "number" ? Math.floor(value) : ms;
}

/** `Date` takes February 30 for March 2. */
function isDay(text: string): boolean {
  const day = text.slice(0, 10);
  return new Date(`${day}T00:00:00Z`).toJSON()?.slice(0, 10) === day;
}
