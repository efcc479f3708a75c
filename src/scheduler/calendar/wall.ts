/** The local times of a rule, ascending, as if clocks never changed; next.ts maps them to instants. */

import { cronOf } from "../language/cron.ts";
import type { LocalDate, LocalTime, ParsedSchedule, Rule } from "../rule.ts";
import { DAY_MS, dateOf, END_MS, endOf, firstAbove, includes, MINUTE_MS } from "./civil.ts";
import { type DateFinder, dateFinder } from "./dates.ts";

/** The first local time of a rule strictly after `after`; undefined when there is none before the year 10000. */
export type LocalFinder = (after: LocalTime) => LocalTime | undefined;

type WallRule = Exclude<Rule, { readonly form: "interval" }>;

/**
 * Leaves out the excepted dates, and does not apply the schedule's limits.
 *
 * @param isSkipped whether the zone skipped a date: a window that would begin on it does not happen
 */
export function localFinder(
  rule: WallRule,
  { starting, except }: ParsedSchedule,
  isSkipped: (date: LocalDate) => boolean,
): LocalFinder {
  if (rule.form === "dates") {
    const origin = starting === undefined ? undefined : dateOf(starting);
    const next = dateFinder(rule.dates, origin);
    const nextOpen = (from: LocalDate) => {
      let date = next(from);
      while (date !== undefined && includes(except, date)) date = next(date + 1);
      return date;
    };
    return onDates(nextOpen, rule.minutes, isSkipped);
  }
  const next: LocalFinder =
    rule.form === "cron"
      ? byCron(rule.expression)
      : (from) => (rule.at > from ? rule.at : undefined);
  return (after) => {
    let found = next(after);
    while (found !== undefined && includes(except, dateOf(found)))
      found = next(endOf(dateOf(found)));
    return found;
  };
}

function byCron(expression: string): LocalFinder {
  const cron = cronOf(expression);
  return (after) => {
    if (after >= END_MS) return undefined;
    const found = cron.nextRun(new Date(after))?.getTime();
    return found !== undefined && found < END_MS ? found : undefined;
  };
}

function onDates(
  next: DateFinder,
  minutes: readonly number[],
  isSkipped: (date: LocalDate) => boolean,
): LocalFinder {
  const first = minutes[0];
  if (first === undefined) return () => undefined;
  const last = minutes[minutes.length - 1] as number;
  const daysPast = Math.floor((last * MINUTE_MS) / DAY_MS);
  return (after) => {
    let found: LocalTime | undefined;
    // One or two dates; more where windows reach into the following dates.
    for (let from = dateOf(after) - daysPast; ; ) {
      const date = next(from);
      if (date === undefined || date * DAY_MS >= END_MS) return found;
      if (found !== undefined && date * DAY_MS + first * MINUTE_MS >= found) return found;
      const minute = minutes[firstAbove(minutes, (after - date * DAY_MS) / MINUTE_MS)];
      if (minute !== undefined && !(daysPast > 0 && isSkipped(date))) {
        const time = date * DAY_MS + minute * MINUTE_MS;
        if (found === undefined || time < found) found = time;
      }
      if (found !== undefined && daysPast === 0) return found;
      from = date + 1;
    }
  };
}
