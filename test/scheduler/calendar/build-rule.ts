/** Schedules as data, made by hand: tests of the calendar need no language. */

import type {
  Dates,
  MonthDay,
  ParsedSchedule,
  Rule,
  Weekday,
} from "../../../src/scheduler/rule.ts";

const EVERY_MONTH = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];

export type Limits = {
  /** e.g. `2026-01-05`, or with a time. */
  readonly starting?: string;
  /** The first moment after it, e.g. `2026-01-06`. */
  readonly until?: string;
  readonly except?: readonly string[];
};

/** The milliseconds of a local date or time. */
export function local(text: string): number {
  return Date.parse(`${text}${text.includes("T") ? "" : "T00:00"}Z`);
}

function day(text: string): number {
  return local(text) / 86_400_000;
}

/** Minutes of `09:00` or `25:30`. */
function minute(text: string): number {
  const [hours, minutes] = text.split(":");
  return Number(hours) * 60 + Number(minutes);
}

export function scheduled(rule: Rule, timezone?: string, limits: Limits = {}): ParsedSchedule {
  return {
    text: `${JSON.stringify(rule)} ${JSON.stringify(limits)}`,
    kind: rule.form === "interval" ? "interval" : "wall-clock",
    timezone,
    rule,
    starting: limits.starting === undefined ? undefined : local(limits.starting),
    until: limits.until === undefined ? undefined : local(limits.until),
    except: (limits.except ?? []).map(day),
  };
}

function onDates(dates: Dates, times: string, timezone: string, limits: Limits | undefined) {
  return scheduled(
    { form: "dates", dates, minutes: times.split(" ").map(minute) },
    timezone,
    limits,
  );
}

/** @param times e.g. `09:00 17:30` */
export function daily(times: string, timezone: string, limits?: Limits): ParsedSchedule {
  return onDates({ by: "days", every: 1 }, times, timezone, limits);
}

export function everyDays(every: number, times: string, timezone: string, limits?: Limits) {
  return onDates({ by: "days", every }, times, timezone, limits);
}

export function everyWeeks(
  every: number,
  weekdays: readonly Weekday[],
  times: string,
  timezone: string,
  limits?: Limits,
) {
  return onDates({ by: "weeks", every, weekdays }, times, timezone, limits);
}

export function monthly(
  monthDay: MonthDay,
  times: string,
  timezone: string,
  months: readonly number[] = EVERY_MONTH,
  limits?: Limits,
) {
  return onDates({ by: "months", on: [{ months, day: monthDay }] }, times, timezone, limits);
}

export function cron(expression: string, timezone: string, limits?: Limits): ParsedSchedule {
  return scheduled({ form: "cron", expression }, timezone, limits);
}

export function once(at: string, timezone: string, limits?: Limits): ParsedSchedule {
  return scheduled({ form: "once", at: local(at) }, timezone, limits);
}

export function interval(ms: number, timezone?: string, limits?: Limits): ParsedSchedule {
  return scheduled({ form: "interval", ms }, timezone, limits);
}
