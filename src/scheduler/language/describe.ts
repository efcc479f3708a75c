/** Describes a rule in plain English. Knows no clock. */

import { MINUTE_MS } from "../calendar/civil.ts";
import type { Dates, DaysOfMonths, LocalTime, ParsedSchedule, Weekday } from "../rule.ts";
import { listed } from "./reader.ts";
import { untilText } from "./suffixes.ts";
import { dateText, dateTimeText, momentText, timeText } from "./values.ts";
import { monthName, ordinalName, weekdayName } from "./vocabulary.ts";

const DAY_MINUTES = 1_440;
/** So many times of day in equal steps are described as steps. */
const STEPS_FROM = 4;

/** One sentence, such as "At 09:00 and 17:30 every day, on Europe/London time, except on 2026-12-25." */
export function describeRule(schedule: ParsedSchedule): string {
  const parts = [ruleWords(schedule)];
  if (schedule.timezone !== undefined) parts.push(`on ${schedule.timezone} time`);
  if (schedule.starting !== undefined) parts.push(`not before ${momentWords(schedule.starting)}`);
  if (schedule.until !== undefined) parts.push(untilWords(schedule.until));
  if (schedule.except.length > 0) {
    parts.push(`except on ${listed(schedule.except.map(dateText), "and")}`);
  }
  return `${parts.join(", ")}.`;
}

function ruleWords({ rule, starting }: ParsedSchedule): string {
  switch (rule.form) {
    case "interval":
      return `Every ${stepWords(rule.ms / MINUTE_MS)}, from one run to the next`;
    case "cron":
      return `Whenever the cron expression "${rule.expression}" matches`;
    case "once":
      return `Once, at ${dateTimeText(rule.at).replace("T", " ")}`;
    case "dates":
      return `${timesWords(rule.minutes)} ${datesWords(rule.dates, starting)}`;
  }
}

function datesWords(dates: Dates, starting: LocalTime | undefined): string {
  switch (dates.by) {
    case "days": {
      if (dates.every === 1) return "every day";
      const from = starting === undefined ? "1970-01-01" : dateTimeText(starting).slice(0, 10);
      return `every ${dates.every} days, counted from ${from}`;
    }
    case "weeks": {
      const days = weekdayWords(dates.weekdays);
      if (dates.every === 1) return days;
      const from = starting === undefined ? "1969-12-29" : dateTimeText(starting).slice(0, 10);
      return `${days}, every ${dates.every} weeks, counted from the week of ${from}`;
    }
    case "months":
      return `on ${listed(dates.on.map(monthDayWords), "and")}`;
  }
}

function weekdayWords(weekdays: readonly Weekday[]): string {
  const key = weekdays.join("");
  if (key === "12345") return "every weekday (Monday to Friday)";
  if (key === "67") return "every Saturday and Sunday";
  if (key === "1234567") return "every day";
  return `every ${listed(weekdays.map(capitalName), "and")}`;
}

function monthDayWords({ months, day }: DaysOfMonths): string {
  const monthNames = months.map((month) => capital(monthName(month)));
  const names = months.length === 12 ? "every month" : listed(monthNames, "and");
  if ("day" in day) {
    return months.length === 1 ? `${names} ${day.day}` : `day ${day.day} of ${names}`;
  }
  if ("last" in day) return `the last day of ${names}`;
  const weekday =
    day.weekday === "working" ? "weekday (Monday to Friday)" : capitalName(day.weekday);
  return `the ${ordinalName(day.nth)} ${weekday} of ${names}`;
}

function timesWords(minutes: readonly number[]): string {
  const [first = 0, second = 0] = minutes;
  const step = second - first;
  const isEven = minutes.every((minute, index) => minute === first + index * step);
  if (minutes.length >= STEPS_FROM && isEven) {
    return `Every ${stepWords(step)} from ${dayTime(first)} to ${dayTime(minutes.at(-1) ?? 0)}`;
  }
  return `At ${listed(minutes.map(dayTime), "and")}`;
}

/** Minutes past the end of the date are of the next date. */
function dayTime(minutes: number): string {
  if (minutes < DAY_MINUTES) return timeText(minutes);
  if (minutes === DAY_MINUTES) return "24:00";
  return `${timeText(minutes - DAY_MINUTES)} on the next day`;
}

function stepWords(minutes: number): string {
  const isHours = minutes % 60 === 0;
  const count = isHours ? minutes / 60 : minutes;
  const unit = isHours ? "hour" : "minute";
  return count === 1 ? unit : `${count} ${unit}s`;
}

function untilWords(until: LocalTime): string {
  const text = untilText(until);
  return text.includes("T") ? `only before ${momentWords(until)}` : `up to and including ${text}`;
}

function momentWords(at: LocalTime): string {
  return momentText(at).replace("T", " ");
}

function capitalName(weekday: Weekday): string {
  return capital(weekdayName(weekday));
}

function capital(word: string): string {
  return word.slice(0, 1).toUpperCase() + word.slice(1);
}
