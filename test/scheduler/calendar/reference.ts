/**
 * The calendar a second time, with Temporal, to hold ours against: slow, plain, and without a line of src/. It goes
 * through dates one by one, makes every occurrence near them, and takes the first that is late enough.
 */

import { Temporal } from "@js-temporal/polyfill";
import type { Dates, MonthDay, ParsedSchedule, Rule } from "../../../src/scheduler/rule.ts";

const DAY_MS = 86_400_000;
/** Nothing of a date is further from it: windows past midnight, and zones. */
const REACH_DAYS = 4;
/** February 29, and the exceptions of a test. */
const MAX_DAYS = 9 * 366;

export type Transition = {
  readonly at: number;
  /** Milliseconds ahead of UTC. */
  readonly before: number;
  readonly after: number;
};

/** The changes of a zone's offset after `from` and not after `to`. */
export function transitionsOf(zone: string, from: number, to: number): Transition[] {
  const found: Transition[] = [];
  for (let at = nextChange(zone, from); at !== null && at <= to; at = nextChange(zone, at)) {
    found.push({ at, before: offsetOf(zone, at - 1), after: offsetOf(zone, at) });
  }
  return found;
}

/**
 * By the runtime's own Temporal, where it has one: the polyfill looks for changes in steps of two weeks, and misses two
 * that cancel each other within one (America/Boa_Vista in October 2000, Asia/Gaza in 2040).
 */
function nextChange(zone: string, after: number): number | null {
  const { Temporal: own = Temporal } = globalThis as { readonly Temporal?: typeof Temporal };
  const at = own.Instant.fromEpochMilliseconds(after).toZonedDateTimeISO(zone);
  return at.getTimeZoneTransition("next")?.epochMilliseconds ?? null;
}

/** Milliseconds ahead of UTC. */
export function offsetOf(zone: string, instant: number): number {
  return inZone(instant, zone).offsetNanoseconds / 1e6;
}

/** The first occurrence after `after`; null when there is none within nine years. */
export function referenceNext(
  schedule: ParsedSchedule,
  after: number,
  anchor?: number,
): number | null {
  const { rule } = schedule;
  if (rule.form === "interval") return nextOfInterval(schedule, rule.ms, after, anchor);
  const zone = schedule.timezone ?? "UTC";
  if (rule.form === "once") return nextOfTimes(schedule, zone, [plain(rule.at)], after);
  const runsOn = predicate(schedule, rule);
  const minutes = minutesOf(rule);
  const { starting } = schedule;
  const begin = starting === undefined ? after : Math.max(after, starting);
  let date = plain(begin).toPlainDate().subtract({ days: REACH_DAYS });
  let found: number | null = null;
  let left = MAX_DAYS;
  while (left > 0 && (schedule.until === undefined || wallOf(date) < schedule.until)) {
    if (runsOn(date) && !isExcepted(schedule, date) && !isSkipped(date, zone)) {
      const midnight = date.toPlainDateTime();
      const times = minutes.map((minutes) => midnight.add({ minutes }));
      const next = nextOfTimes(schedule, zone, times, after);
      if (next !== null && (found === null || next < found)) {
        found = next;
        left = Math.min(left, REACH_DAYS);
      }
    }
    date = date.add({ days: 1 });
    left--;
  }
  return found;
}

/** The first of some local times. */
function nextOfTimes(
  schedule: ParsedSchedule,
  zone: string,
  times: readonly Temporal.PlainDateTime[],
  after: number,
): number | null {
  const { rule, starting, until } = schedule;
  let found: number | null = null;
  for (const time of times) {
    const wall = wallOf(time);
    if (starting !== undefined && wall < starting) continue;
    if (until !== undefined && wall >= until) continue;
    // Too far away to look up its zone for.
    if (wall < after - 2 * DAY_MS || (found !== null && wall > found + 2 * DAY_MS)) continue;
    const date = time.toPlainDate();
    if (isSkipped(date, zone)) continue;
    if (rule.form !== "dates" && isExcepted(schedule, date)) continue;
    const instant = instantOf(time, zone);
    if (instant > after && (found === null || instant < found)) found = instant;
  }
  return found;
}

/** In a fold the first, in a gap its end. */
function instantOf(time: Temporal.PlainDateTime, zone: string): number {
  const earlier = time.toZonedDateTime(zone, { disambiguation: "earlier" });
  if (earlier.toPlainDateTime().equals(time)) return earlier.epochMilliseconds;
  const end = nextChange(zone, earlier.epochMilliseconds);
  if (end === null) throw new Error(`${time} is in a gap of ${zone} that has no end`);
  return end;
}

function isSkipped(date: Temporal.PlainDate, zone: string): boolean {
  return !date.toZonedDateTime({ timeZone: zone }).toPlainDate().equals(date);
}

function isExcepted({ except }: ParsedSchedule, date: Temporal.PlainDate): boolean {
  return except.includes(wallOf(date) / DAY_MS);
}

function predicate(
  schedule: ParsedSchedule,
  rule: Exclude<Rule, { form: "interval" | "once" }>,
): (date: Temporal.PlainDate) => boolean {
  if (rule.form === "cron") return cronDates(rule.expression);
  const origin =
    schedule.starting === undefined ? undefined : plain(schedule.starting).toPlainDate();
  return (date) => isDateOf(rule.dates, date, origin);
}

function isDateOf(
  dates: Dates,
  date: Temporal.PlainDate,
  origin: Temporal.PlainDate | undefined,
): boolean {
  if (dates.by === "days") {
    const from = origin ?? Temporal.PlainDate.from("1970-01-01");
    return from.until(date, { largestUnit: "day" }).days % dates.every === 0;
  }
  if (dates.by === "weeks") {
    if (!dates.weekdays.some((weekday) => weekday === date.dayOfWeek)) return false;
    const from = origin ?? Temporal.PlainDate.from("1970-01-01");
    const weeks = mondayOf(from).until(mondayOf(date), { largestUnit: "week" }).weeks;
    return weeks % dates.every === 0;
  }
  return dates.on.some(({ months, day }) => months.includes(date.month) && isDayOf(day, date));
}

function isDayOf(rule: MonthDay, date: Temporal.PlainDate): boolean {
  if ("day" in rule) return date.day === rule.day;
  if ("last" in rule) return date.day === date.daysInMonth;
  const all: number[] = [];
  for (let day = 1; day <= date.daysInMonth; day++) {
    const { dayOfWeek } = date.with({ day });
    if (rule.weekday === "working" ? dayOfWeek <= 5 : dayOfWeek === rule.weekday) all.push(day);
  }
  return date.day === all.at(rule.nth === -1 ? -1 : rule.nth - 1);
}

function mondayOf(date: Temporal.PlainDate): Temporal.PlainDate {
  return date.subtract({ days: date.dayOfWeek - 1 });
}

function minutesOf(rule: Exclude<Rule, { form: "interval" | "once" }>): readonly number[] {
  if (rule.form === "dates") return rule.minutes;
  const [minutes = "", hours = ""] = rule.expression.split(" ");
  const ofHour = valuesOf(minutes, 0, 59);
  return valuesOf(hours, 0, 23).flatMap((hour) => ofHour.map((minute) => hour * 60 + minute));
}

/** Five fields of plain cron. Either day matches where neither field begins with a star, else both have to: crontab(5). */
function cronDates(expression: string): (date: Temporal.PlainDate) => boolean {
  const [, , days = "", months = "", weekdays = ""] = expression.split(" ");
  const ofMonths = valuesOf(months, 1, 12);
  const ofDays = valuesOf(days, 1, 31);
  const ofWeekdays = valuesOf(weekdays, 0, 6);
  return (date) => {
    if (!ofMonths.includes(date.month)) return false;
    const isDay = ofDays.includes(date.day);
    const isWeekday = ofWeekdays.includes(date.dayOfWeek % 7);
    if (days.startsWith("*") || weekdays.startsWith("*")) return isDay && isWeekday;
    return isDay || isWeekday;
  };
}

/** Of `*`, or a list of values, ranges and steps. */
function valuesOf(field: string, from: number, to: number): number[] {
  const values: number[] = [];
  for (const part of field.split(",")) {
    const [range = "", step = "1"] = part.split("/");
    const [first = "", last = first] = range === "*" ? [`${from}`, `${to}`] : range.split("-");
    for (let value = Number(first); value <= Number(last); value += Number(step))
      values.push(value);
  }
  return values.sort((one, other) => one - other);
}

function nextOfInterval(
  schedule: ParsedSchedule,
  ms: number,
  after: number,
  anchor: number | undefined,
): number | null {
  const zone = schedule.timezone ?? "UTC";
  const starting =
    schedule.starting === undefined ? undefined : instantOf(plain(schedule.starting), zone);
  const until =
    schedule.until === undefined
      ? Number.POSITIVE_INFINITY
      : instantOf(plain(schedule.until), zone);
  const origin = BigInt(starting ?? anchor ?? after);
  let at = origin - ((origin - BigInt(after)) / BigInt(ms)) * BigInt(ms) - 2n * BigInt(ms);
  for (;;) {
    at += BigInt(ms);
    const instant = Number(at);
    if (instant >= until) return null;
    if (instant <= after || (starting !== undefined && instant < starting)) continue;
    if (!isExcepted(schedule, inZone(instant, zone).toPlainDate())) return instant;
  }
}

function inZone(instant: number, zone: string): Temporal.ZonedDateTime {
  return Temporal.Instant.fromEpochMilliseconds(instant).toZonedDateTimeISO(zone);
}

/** What a local date or time is in a schedule. */
function wallOf(time: Temporal.PlainDate | Temporal.PlainDateTime): number {
  const { year, month, day } = time;
  if (time instanceof Temporal.PlainDate) return Date.UTC(year, month - 1, day);
  const { hour, minute, second, millisecond } = time;
  return Date.UTC(year, month - 1, day, hour, minute, second, millisecond);
}

function plain(wall: number): Temporal.PlainDateTime {
  return inZone(wall, "UTC").toPlainDateTime();
}
