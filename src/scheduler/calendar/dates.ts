/** The dates of a rule: the first one from any date on. Knows neither clock nor zone. */

import type { Dates, DaysOfMonths, LocalDate, MonthDay, Weekday } from "../rule.ts";
import { firstOfMonth, modulo, mondayOf, monthOf, weekdayOf } from "./civil.ts";

/** The first date of a rule that is not before `from`; undefined when there is none. */
export type DateFinder = (from: LocalDate) => LocalDate | undefined;

/** The next February 29 is at most 8 years away, every other day of a month at most one. */
const MAX_MONTHS = 12 * 8;
/** The Monday before 1970-01-01, from which weeks count. */
const FIRST_MONDAY = -3;

/** @param origin the date, or the date's week, that steps count from; undefined for 1970-01-01 */
export function dateFinder(dates: Dates, origin: LocalDate | undefined): DateFinder {
  if (dates.by === "days") return (from) => from + modulo((origin ?? 0) - from, dates.every);
  if (dates.by === "months") return inMonths(dates.on);
  const monday = origin === undefined ? FIRST_MONDAY : mondayOf(origin);
  return everyWeeks(dates.every, dates.weekdays, monday);
}

function everyWeeks(every: number, weekdays: readonly Weekday[], origin: LocalDate): DateFinder {
  const [first] = weekdays;
  if (first === undefined) return () => undefined;
  const cycle = every * 7;
  // Days from the cycle's Monday to each date of it; the first of the next cycle follows the last.
  const days = weekdays.map((weekday) => weekday - 1).sort((one, other) => one - other);
  const next = (days[0] as number) + cycle;
  return (from) => {
    const past = modulo(from - origin, cycle);
    if (past < 7) {
      for (const day of days) if (day >= past) return from - past + day;
    }
    return from - past + next;
  };
}

function inMonths(on: readonly DaysOfMonths[]): DateFinder {
  const rules = on.map(({ months, day }) => ({
    months: months.reduce((bits, month) => bits | (1 << month), 0),
    day,
  }));
  const any = rules.reduce((bits, { months }) => bits | months, 0);
  return (from) => {
    const begin = monthOf(from);
    for (let month = begin; month <= begin + MAX_MONTHS; month++) {
      const bit = 2 ** (modulo(month, 12) + 1);
      if ((any & bit) === 0) continue;
      let found: LocalDate | undefined;
      for (const rule of rules) {
        if ((rule.months & bit) === 0) continue;
        const date = dateInMonth(month, rule.day);
        if (date !== undefined && date >= from && (found === undefined || date < found))
          found = date;
      }
      if (found !== undefined) return found;
    }
    return undefined;
  };
}

/** The date of a month, counted from 1970-01; undefined when it has no such day. */
export function dateInMonth(month: number, rule: MonthDay): LocalDate | undefined {
  const first = firstOfMonth(month);
  if ("day" in rule && rule.day <= 28) return first + rule.day - 1;
  const end = firstOfMonth(month + 1);
  if ("last" in rule) return end - 1;
  const date =
    "day" in rule ? first + rule.day - 1 : nthDate(first, end - 1, rule.nth, rule.weekday);
  return date < end ? date : undefined;
}

/** May be past the month's end: then the month has no such day. */
function nthDate(
  first: LocalDate,
  last: LocalDate,
  nth: number,
  weekday: Weekday | "working",
): LocalDate {
  if (nth < 0) return firstOf(weekday, last, -1);
  let date = firstOf(weekday, first, 1);
  for (let left = nth - 1; left > 0; left--) date = firstOf(weekday, date + 1, 1);
  return date;
}

/** The nearest date of a weekday from `date` on, forwards or backwards. */
function firstOf(weekday: Weekday | "working", date: LocalDate, step: 1 | -1): LocalDate {
  if (weekday !== "working") return date + step * modulo(step * (weekday - weekdayOf(date)), 7);
  let found = date;
  while (weekdayOf(found) > 5) found += step;
  return found;
}
