/** Parses the days of `every month`, `every quarter` and `every year`. */

import type { Dates, MonthDay, Weekday } from "../rule.ts";
import { listOf, type Reader } from "./reader.ts";
import { readCount } from "./values.ts";
import {
  MONTH_LENGTHS,
  MONTH_NAMES,
  monthName,
  type Nth,
  ORDINAL_NAMES,
  ordinalName,
  WEEKDAY_NAMES,
  weekdayName,
} from "./vocabulary.ts";

/** The dates of a rule, and their text in the usual spelling. */
export type DatesForm = { readonly dates: Dates; readonly text: string };

const ALL_MONTHS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
const FIRST_OF_QUARTER = [1, 4, 7, 10];
const LAST_OF_QUARTER = [3, 6, 9, 12];

/**
 * `on 1,15`, `on last day`, `on first monday`, `on last weekday`, and lists of them. A last day of a quarter is in its last
 * month, all others are in its first.
 */
export function readMonthDays(reader: Reader, period: "month" | "quarter"): DatesForm {
  reader.expect(["on"]);
  const days = listOf(reader, readDay, dayText).sort((one, other) => rank(one) - rank(other));
  const on = days.map((day) => {
    const isLast = "last" in day || ("nth" in day && day.nth === -1);
    const ofQuarter = isLast ? LAST_OF_QUARTER : FIRST_OF_QUARTER;
    return { months: period === "month" ? ALL_MONTHS : ofQuarter, day };
  });
  return { dates: { by: "months", on }, text: `every ${period} on ${days.map(dayText).join(",")}` };
}

/** `on march 1,october 1`. */
export function readYearDays(reader: Reader): DatesForm {
  reader.expect(["on"]);
  const days = listOf(reader, readYearDay, ({ month, day }) => month * 100 + day);
  days.sort((one, other) => one.month - other.month || one.day - other.day);
  const on = days.map(({ month, day }) => ({ months: [month], day: { day } }));
  const names = days.map(({ month, day }) => `${monthName(month)} ${day}`);
  return { dates: { by: "months", on }, text: `every year on ${names.join(",")}` };
}

function readYearDay(reader: Reader): { month: number; day: number } {
  const name = reader.expect([...MONTH_NAMES.keys()], ["a month"]);
  const month = MONTH_NAMES.get(name) as number;
  const length = MONTH_LENGTHS[month - 1] as number;
  return { month, day: readCount(reader, `a day of ${monthName(month)}`, length) };
}

function readDay(reader: Reader): MonthDay {
  const ordinal = reader.accept([...ORDINAL_NAMES.keys()]);
  if (ordinal === undefined) return { day: readCount(reader, "a day", 31) };
  const nth = ORDINAL_NAMES.get(ordinal) as Nth;
  if (nth === 1 && reader.accept(["day"])) return { day: 1 };
  if (nth === -1 && reader.accept(["day"])) return { last: "day" };
  if (reader.accept(["weekday"])) return { nth, weekday: "working" };
  const name = reader.expect([...WEEKDAY_NAMES.keys()], ["a weekday"]);
  return { nth, weekday: WEEKDAY_NAMES.get(name) as Weekday };
}

/** Sorts days by number, then by weekday, the last ones last. */
function rank(day: MonthDay): number {
  if ("day" in day) return day.day;
  if ("last" in day) return 1_000;
  return (day.nth === -1 ? 9 : day.nth) * 100 + (day.weekday === "working" ? 0 : day.weekday);
}

export function dayText(day: MonthDay): string {
  if ("day" in day) return String(day.day);
  if ("last" in day) return "last day";
  const weekday = day.weekday === "working" ? "weekday" : weekdayName(day.weekday);
  return `${ordinalName(day.nth)} ${weekday}`;
}
