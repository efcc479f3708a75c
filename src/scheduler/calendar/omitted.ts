/** Dates of a rule that have no occurrence, with the reason in words. */

import { dayText } from "../language/month-days.ts";
import { dateText } from "../language/values.ts";
import { monthName } from "../language/vocabulary.ts";
import type { LocalDate, ParsedSchedule } from "../rule.ts";
import { DAY_MS, dateOf, endOf, firstOfMonth, includes, modulo, monthOf } from "./civil.ts";
import { dateInMonth } from "./dates.ts";
import { localFinder } from "./wall.ts";
import type { ZoneClock } from "./zones.ts";

export type OmittedDate = {
  /** `2011-12-30`, or `2027-02` for a month that has no such day. */
  readonly date: string;
  readonly reason: string;
};

const MAX_OMITTED = 20;
/** How far to look in a schedule that ends without an `until`. */
const MAX_DAYS = 3_660;

/**
 * Ascending, 20 at most; none for an interval, which has no dates.
 *
 * @param last the last occurrence that was asked for; undefined when the schedule ended before
 */
export function omittedDates(
  schedule: ParsedSchedule,
  clock: ZoneClock,
  after: number,
  last: number | undefined,
): OmittedDate[] {
  const { rule, starting, until } = schedule;
  if (rule.form === "interval") return [];
  const begin = dateOf(Math.max(clock.toLocal(after), starting ?? -Infinity));
  const limit = until === undefined ? begin + MAX_DAYS : dateOf(until - 1);
  const end = last === undefined ? limit : dateOf(clock.toLocal(last));
  const next = localFinder(rule, { ...schedule, except: [] }, () => false);
  const found = new Map<number, OmittedDate>();
  for (let local = next(begin * DAY_MS - 1); local !== undefined && found.size < MAX_OMITTED; ) {
    const date = dateOf(local);
    if (date > end) break;
    const isException = includes(schedule.except, date);
    if (isException || clock.skips(date)) {
      const reason = isException ? "it is an exception" : `there was no such date in ${clock.name}`;
      found.set(date, { date: dateText(date), reason });
    }
    local = next(endOf(date));
  }
  for (const [date, omitted] of monthsWithout(schedule, begin, end)) found.set(date, omitted);
  const inOrder = [...found].sort(([one], [other]) => one - other);
  return inOrder.slice(0, MAX_OMITTED).map(([, omitted]) => omitted);
}

/** With numbers that sort them after the month's last date. */
function monthsWithout(
  { rule }: ParsedSchedule,
  begin: LocalDate,
  end: LocalDate,
): [number, OmittedDate][] {
  if (rule.form !== "dates" || rule.dates.by !== "months") return [];
  const found: [number, OmittedDate][] = [];
  const last = monthOf(end);
  for (let month = monthOf(begin); month <= last && found.length < MAX_OMITTED; month++) {
    const ofYear = modulo(month, 12) + 1;
    const missing = rule.dates.on
      .filter(({ months, day }) => months.includes(ofYear) && dateInMonth(month, day) === undefined)
      .map(({ day }) => ("day" in day ? `day ${day.day}` : dayText(day)));
    if (missing.length === 0) continue;
    const closing = firstOfMonth(month + 1) - 1;
    const reason = `${monthName(ofYear)} has no ${missing.join(", no ")}`;
    found.push([closing + 0.5, { date: dateText(closing).slice(0, 7), reason }]);
  }
  return found;
}
