/** How far a zone's clock is from UTC: the only file that imports Luxon. */

import { IANAZone } from "luxon";

/**
 * Looks up the offsets of a zone: milliseconds that its clock is ahead of UTC, NaN for an instant beyond what a `Date`
 * can hold. A call takes some microseconds, so callers keep what they have looked up.
 *
 * @param timezone a name that {@link canonicalZone} knows
 */
export function offsetsOf(timezone: string): (instant: number) => number {
  const zone = new IANAZone(timezone);
  // In minutes, with a fraction for the local mean times before zones were introduced.
  return (instant) => Math.round(zone.offset(instant) * 60_000);
}

/** The platform's own name for a zone, the same for all its aliases; undefined for an unknown zone. */
export function canonicalZone(name: string): string | undefined {
  if (!IANAZone.isValidZone(name)) return undefined;
  return new Intl.DateTimeFormat("en-US", { timeZone: name }).resolvedOptions().timeZone;
}
