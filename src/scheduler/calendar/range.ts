/** The last occurrence of a range of time, and how many there are: for missed occurrences. */

import type { ParsedSchedule } from "../rule.ts";
import { intervalOf, nextInstant, type PreparedInterval } from "./next.ts";

/**
 * The last occurrence in (from, notAfter], or null. Takes some forty steps at most, however many occurrences there are.
 *
 * @param anchor as for `nextInstant()`; an interval without one counts from `from`
 */
export function latestInstant(
  schedule: ParsedSchedule,
  notAfter: number,
  from: number,
  anchor: number = from,
): number | null {
  const end = Math.floor(notAfter);
  const next = (after: number) => {
    const found = nextInstant(schedule, after, anchor);
    return found !== null && found <= end ? found : null;
  };
  let low = Math.floor(from);
  let latest: number | null = null;
  // Near the end first, where it usually is.
  for (let window = 60_000; latest === null && end - window > low; window *= 4) {
    latest = next(end - window);
  }
  latest ??= next(low);
  if (latest === null) return null;
  // From `high` on there is none.
  let high = end;
  low = latest;
  while (low < high) {
    const middle = low + Math.floor((high - low) / 2);
    const later = next(middle);
    if (later === null) high = middle;
    else {
      latest = later;
      low = later;
    }
  }
  return latest;
}

/** How many occurrences are in (from, to], or `limit` where there are more. `anchor` as above. */
export function countInstants(
  schedule: ParsedSchedule,
  from: number,
  to: number,
  anchor: number | undefined,
  limit: number,
): number {
  const grid = anchor ?? from;
  const interval = schedule.except.length === 0 ? intervalOf(schedule) : undefined;
  if (interval !== undefined) return Math.min(limit, countOnGrid(interval, from, to, grid));
  let count = 0;
  let at = nextInstant(schedule, from, grid);
  while (count < limit && at !== null && at <= to) {
    count++;
    at = nextInstant(schedule, at, grid);
  }
  return count;
}

function countOnGrid(
  { ms, starting, until }: PreparedInterval,
  from: number,
  to: number,
  anchor: number,
): number {
  const origin = starting ?? anchor;
  const steps = (instant: number) => Math.floor((instant - origin) / ms);
  const first = Math.max(Math.floor(from), (starting ?? -Infinity) - 1);
  return Math.max(0, steps(Math.min(Math.floor(to), until - 1)) - steps(first));
}
