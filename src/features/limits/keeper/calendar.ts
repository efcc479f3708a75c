/** The days and months of a zone's calendar, as windows of time. Every instant is in one window of each kind. */

import { IANAZone } from "luxon";
import { BoundedCache } from "../../../core/bounded-cache.ts";
import type { Window } from "./protocol.ts";

/** Epoch milliseconds. The end is exclusive: the next window starts there. */
export type Span = { readonly startsAt: number; readonly endsAt: number };

type CalendarWindow = Extract<Window, { readonly calendar: unknown }>;

/** The last window that was looked up, and the clock of its zone: a lookup takes some microseconds, a clock many. */
type Calendar = { readonly offsetOf: (instant: number) => number; last?: Span };

/** There are about 600 zones, of which an app uses few. */
const calendars = new BoundedCache<Calendar>(200);

/** No clock is further from UTC than this. */
const MAX_OFFSET_MS = 16 * 3_600_000;

/**
 * The day or the month that contains an instant. It starts when the zone's clock first shows its first date or a later one,
 * so that a day can have 23 or 25 hours, and a date that the zone skips has no window.
 *
 * @param window its zone is one that the platform knows
 * @param now epoch milliseconds
 */
export function windowOf({ calendar, zone }: CalendarWindow, now: number): Span {
  const kept = calendars.get(`${calendar} ${zone}`, () => {
    const clock = IANAZone.create(zone);
    return { offsetOf: (instant) => clock.offset(instant) * 60_000 };
  });
  const { offsetOf, last } = kept;
  if (last && last.startsAt <= now && now < last.endsAt) return last;
  const local = new Date(now + offsetOf(now));
  const startOf = (ahead: number) => {
    const [year, month, date] = [local.getUTCFullYear(), local.getUTCMonth(), local.getUTCDate()];
    const isDay = calendar === "day";
    return firstShown(
      Date.UTC(year, isDay ? month : month + ahead, isDay ? date + ahead : 1),
      offsetOf,
    );
  };
  let startsAt = startOf(0);
  let endsAt = startOf(1);
  // The clock has gone back across midnight, or the next date is skipped.
  for (let ahead = 2; endsAt <= now; ahead++) {
    startsAt = endsAt;
    endsAt = startOf(ahead);
  }
  kept.last = { startsAt, endsAt };
  return kept.last;
}

/** The first instant at which the clock shows a local time or a later one. At most one change of the clock is near it. */
function firstShown(local: number, offsetOf: (instant: number) => number): number {
  let before = local - MAX_OFFSET_MS;
  let after = local + MAX_OFFSET_MS;
  const [earlier, later] = [offsetOf(before), offsetOf(after)];
  if (offsetOf(local - earlier) === earlier) return local - earlier;
  if (offsetOf(local - later) === later) return local - later;
  // Neither clock shows it: it is skipped, and the change is the first instant after it.
  while (after - before > 1_000) {
    const middle = before + Math.floor((after - before) / 2_000) * 1_000;
    if (offsetOf(middle) === earlier) before = middle;
    else after = middle;
  }
  return after;
}
