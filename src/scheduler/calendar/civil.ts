/** Dates as days since 1970-01-01, their weekdays and months, by the platform's UTC calendar. Knows no zone. */

import type { LocalDate, LocalTime, Weekday } from "../rule.ts";

export const MINUTE_MS = 60_000;
export const DAY_MS = 86_400_000;

/** The calendar covers the years that are written with four digits. */
export const FIRST_MS = Date.UTC(1000, 0, 1);
/** 10000-01-01, exclusive. */
export const END_MS = Date.UTC(10_000, 0, 1);

export function dateOf(local: LocalTime): LocalDate {
  return Math.floor(local / DAY_MS);
}

/** The last millisecond of the date. */
export function endOf(date: LocalDate): LocalTime {
  return (date + 1) * DAY_MS - 1;
}

/** The remainder that is never negative. */
export function modulo(value: number, by: number): number {
  return ((value % by) + by) % by;
}

/** 1970-01-01 was a Thursday, which is 4. */
export function weekdayOf(date: LocalDate): Weekday {
  return (modulo(date + 3, 7) + 1) as Weekday;
}

/** The Monday of the date's week. */
export function mondayOf(date: LocalDate): LocalDate {
  return date - modulo(date + 3, 7);
}

/** Months since 1970-01: a month of a year as one number. */
export function monthOf(date: LocalDate): number {
  const day = new Date(date * DAY_MS);
  return (day.getUTCFullYear() - 1970) * 12 + day.getUTCMonth();
}

export function firstOfMonth(month: number): LocalDate {
  return Date.UTC(1970, month, 1) / DAY_MS;
}

/** Whether `sorted`, ascending, has the value. */
export function includes(sorted: readonly number[], value: number): boolean {
  return sorted.length > 0 && sorted[firstAbove(sorted, value - 1)] === value;
}

/** The index of the first of `sorted`, ascending, that is greater than `limit`; its length if none is. */
export function firstAbove(sorted: readonly number[], limit: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] as number) > limit) high = middle;
    else low = middle + 1;
  }
  return low;
}
