/** A schedule, explained: its rule in words, its next occurrences, and what the clock does at them. */

import { DateTime } from "luxon";
import { countOf } from "../../core/options/options.ts";
import { describeRule } from "../language/describe.ts";
import { dayText } from "../language/month-days.ts";
import { dateText } from "../language/values.ts";
import { monthName } from "../language/vocabulary.ts";
import type { LocalDate, LocalTime, ParsedSchedule } from "../rule.ts";
import { DAY_MS, dateOf, endOf, firstOfMonth, includes, modulo, monthOf } from "./civil.ts";
import { dateInMonth } from "./dates.ts";
import { nextInstant, nextNominal } from "./next.ts";
import { type CalendarOptions, readCall } from "./options.ts";
import { localFinder } from "./wall.ts";
import { clockOf, type ZoneClock } from "./zones.ts";

/** Of one call. */
const MAX_EXPLAINED = 1_000;
const MAX_OMITTED = 20;
/** How far to look in a schedule that ends without an `until`. */
const MAX_DAYS = 3_660;

export type ExplainOptions = CalendarOptions & {
  /** How many occurrences, 1 to 1,000. @default 10 */
  readonly count?: number | undefined;
};

export type ExplainedOccurrence = {
  /** Epoch milliseconds. */
  readonly at: number;
  /** The same on the zone's clock: ISO 8601 with the offset, e.g. `2027-03-28T02:00+01:00`. */
  readonly local: string;
  /** The clock change there, in words; missing where there is none. */
  readonly note?: string;
};

type OmittedDate = {
  /** `2011-12-30`, or `2027-02` for a month that has no such day. */
  readonly date: string;
  readonly reason: string;
};

export type ScheduleExplanation = {
  /** The schedule in words. */
  readonly rule: string;
  /** The zone that the local times are of: `UTC` for an interval without one. */
  readonly timezone: string;
  readonly occurrences: readonly ExplainedOccurrence[];
  /** Dates of the rule that have no occurrence, up to the last occurrence; 20 at most. */
  readonly omitted: readonly OmittedDate[];
  /** All of it as text, in several lines. */
  toString(): string;
};

/**
 * Explains a schedule: its rule in words, its next occurrences, and the clock changes at them.
 *
 * @throws InvalidOptionError for an invalid option
 * @throws ScheduleSyntaxError for an invalid schedule
 */
export function explainSchedule(
  schedule: string | ParsedSchedule,
  options: ExplainOptions = {},
): ScheduleExplanation {
  const call = readCall("explainSchedule", schedule, options, ["count"]);
  const { schedule: parsed, after, anchor } = call;
  const count = countOf("count", options.count ?? 10, MAX_EXPLAINED);
  const clock = clockOf(parsed.timezone ?? "UTC");
  const found: ExplainedOccurrence[] = [];
  let last = after;
  while (found.length < count) {
    const instant = nextInstant(parsed, last, anchor);
    if (instant === null) break;
    const nominal = nextNominal(parsed, last);
    const note = nominal === null ? undefined : noteOf(clock, nominal);
    const occurrence = {
      at: instant,
      local: DateTime.fromMillis(instant, { zone: clock.zone }).toISO(SHORT) as string,
    };
    found.push(note === undefined ? occurrence : { ...occurrence, note });
    last = instant;
  }
  const omitted = omittedDates(parsed, clock, after, found.length < count ? undefined : last);
  const rule = describeRule(parsed);
  const explanation = { rule, timezone: clock.name, occurrences: found, omitted };
  return { ...explanation, toString: () => textOf(explanation) };
}

function noteOf(clock: ZoneClock, nominal: LocalTime): string | undefined {
  const met = clock.resolve(nominal);
  if (met.kind === "exact") return undefined;
  const { from, to } = met.clock;
  const day = dateText(dateOf(nominal));
  // A change across midnight needs its dates.
  const textOf = dateOf(from) === dateOf(to) ? timeText : momentText;
  const [before, after] = [textOf(from), textOf(to)];
  if (met.kind === "fold") {
    return `${timeText(nominal)} comes twice on ${day}: clocks go back from ${before} to ${after}; it runs the first time`;
  }
  return `${timeText(nominal)} does not exist on ${day}: clocks go from ${before} to ${after}; it runs at ${after}`;
}

function textOf({ rule, timezone, occurrences, omitted }: Omit<ScheduleExplanation, "toString">) {
  const lines = [rule, `On the clock of ${timezone}, and in UTC:`];
  for (const { local, at, note } of occurrences) {
    lines.push(`  ${local}  ${new Date(at).toISOString()}${note === undefined ? "" : `  ${note}`}`);
  }
  if (occurrences.length === 0) lines.push("  no occurrence");
  for (const { date, reason } of omitted) lines.push(`  not on ${date}: ${reason}`);
  return lines.join("\n");
}

/** To the minute, with seconds and milliseconds where they are not 0. */
const SHORT = { suppressSeconds: true, suppressMilliseconds: true } as const;

function momentText(local: LocalTime): string {
  return `${dateText(dateOf(local))} ${timeText(local)}`;
}

function timeText(local: LocalTime): string {
  const time = DateTime.fromMillis(local, { zone: "utc" });
  return time.toISOTime({ ...SHORT, includeOffset: false }) as string;
}

/**
 * Dates of the rule that have no occurrence: ascending, 20 at most; none for an interval, which has no dates.
 *
 * @param last the last occurrence that was asked for; undefined when the schedule ended before
 */
function omittedDates(
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
