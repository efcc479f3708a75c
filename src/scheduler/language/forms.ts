/** Parses the forms of the language, up to the suffixes, to their rules. */

import type { Rule, Weekday } from "../rule.ts";
import { readCron } from "./cron.ts";
import { type DatesForm, readMonthDays, readYearDays } from "./month-days.ts";
import { listOf, type Reader } from "./reader.ts";
import { dateTimeText, localTime, readCount, readDateTime, readTime, timeText } from "./values.ts";
import { WEEKDAY_NAMES, weekdayName } from "./vocabulary.ts";

/** A rule, and its text in the usual spelling. */
export type Form = { readonly rule: Rule; readonly text: string };

const EVERY_DAY: DatesForm = { dates: { by: "days", every: 1 }, text: "every day" };
const WORKING_DAYS: DatesForm = { ...weekly(1, [1, 2, 3, 4, 5]), text: "every weekday" };
const WEEKEND: DatesForm = { ...weekly(1, [6, 7]), text: "every weekend" };
/** The longest steps: a century of minutes or hours (the last alarm is in 2188), about a year of days or weeks. */
const LONGEST = { minute: 52_596_000, hour: 876_600, day: 366, week: 52 } as const;

const SECONDS = 'for seconds "cron */30 * * * * *"';
const UNITS = ['"minutes"', '"hours"', '"days"', '"weeks"', SECONDS];
const ONE_UNIT = ['"minute"', '"hour"', '"day"', '"week"', SECONDS];

type Unit = keyof typeof LONGEST;

/** @throws Mismatch */
export function readForm(reader: Reader): Form {
  if (reader.atEnd) {
    const example = "every day at 09:00";
    reader.refuse(0, `a schedule such as "${example}"`, () => [example]);
  }
  switch (reader.expect(["every", "cron", "once"])) {
    case "cron":
      return readCron(reader);
    case "once": {
      reader.expect(["at"]);
      const { date, time } = readDateTime(reader);
      const at = localTime(date, time ?? readTime(reader));
      return { rule: { form: "once", at }, text: `once at ${dateTimeText(at)}` };
    }
    default:
      return readEvery(reader);
  }
}

function readEvery(reader: Reader): Form {
  if (/^\d/.test(reader.token?.word ?? "")) return readCounted(reader);
  const word = reader.accept(["day", "weekday", "weekend", "week", "month", "quarter", "year"]);
  if (word !== undefined) return atTimes(reader, readDates(reader, word));
  const unit = reader.accept(["minute", "hour"]);
  if (unit !== undefined) return readSteps(reader, unit, 1, reader.index - 1);
  // Weekdays last: a mistyped word is more often "day" than one of seven names.
  return atTimes(reader, weekly(1, readWeekdays(reader, ["a number"])));
}

function readDates(
  reader: Reader,
  word: "day" | "weekday" | "weekend" | "week" | "month" | "quarter" | "year",
): DatesForm {
  switch (word) {
    case "day":
      return EVERY_DAY;
    case "weekday":
      return WORKING_DAYS;
    case "weekend":
      return WEEKEND;
    case "week":
      reader.expect(["on"]);
      return weekly(1, readWeekdays(reader));
    case "month":
    case "quarter":
      return readMonthDays(reader, word);
    case "year":
      return readYearDays(reader);
  }
}

/** `15 minutes`, `3 days at`, `2 weeks on monday at`. */
function readCounted(reader: Reader): Form {
  const { index } = reader;
  const count = readCount(reader, "a number", LONGEST.minute);
  const unit =
    count === 1
      ? reader.expect(["minute", "hour", "day", "week"], ONE_UNIT)
      : (reader.expect(["minutes", "hours", "days", "weeks"], UNITS).slice(0, -1) as Unit);
  const most = LONGEST[unit];
  if (count > most) reader.refuse(index, `at most ${most} ${unit}s`, () => [String(most)]);
  if (unit === "minute" || unit === "hour") return readSteps(reader, unit, count, index);
  if (unit === "day") {
    const dates = { by: "days", every: count } as const;
    return atTimes(reader, count === 1 ? EVERY_DAY : { dates, text: `every ${count} days` });
  }
  reader.expect(["on"]);
  return atTimes(reader, weekly(count, readWeekdays(reader)));
}

/** An interval of real time, or with `between` times of day. */
function readSteps(reader: Reader, unit: "minute" | "hour", count: number, index: number): Form {
  const step = unit === "hour" ? count * 60 : count;
  const text = `every ${count} ${count === 1 ? unit : `${unit}s`}`;
  if (reader.accept(["between"]) === undefined) {
    if (reader.token?.word === "on") {
      const expected = '"between" with two times before "on"';
      reader.refuse(reader.index, expected, () => ["between 09:00 and 17:00"]);
    }
    return { rule: { form: "interval", ms: step * 60_000 }, text };
  }
  const start = readTime(reader);
  reader.expect(["and"]);
  const named = readTime(reader, "24:00");
  if (named === start) {
    const later = start === 0 ? "24:00" : timeText((start + 480) % 1_440);
    const expected = "a time other than the start of the window";
    reader.refuse(reader.index - 1, expected, () => [later]);
  }
  // An end before the start is on the next date; 00:00 is the end of the date.
  const end = named < start ? named + 1_440 : named;
  if (step > end - start) {
    const most = Math.floor((end - start) / (unit === "hour" ? 60 : 1));
    const shorter = most === 0 ? `${end - start} minutes` : String(most);
    const minutes = `${end - start} ${end - start === 1 ? "minute" : "minutes"}`;
    const expected = `a step of at most ${minutes}, the length of the window`;
    reader.refuse(index, expected, () => [shorter]);
  }
  const minutes = Array.from(
    { length: Math.floor((end - start) / step) + 1 },
    (_, index) => start + index * step,
  );
  const on = readWindowDates(reader);
  const window = `between ${timeText(start)} and ${timeText(end === 1_440 ? end : end % 1_440)}`;
  return {
    rule: { form: "dates", dates: on.dates, minutes },
    text: `${text} ${window}${on.text}`,
  };
}

function readWindowDates(reader: Reader): DatesForm {
  if (reader.accept(["on"]) === undefined) return { ...EVERY_DAY, text: "" };
  switch (reader.accept(["weekdays", "weekends", "every"])) {
    case "weekdays":
      return { ...WORKING_DAYS, text: " on weekdays" };
    case "weekends":
      return { ...WEEKEND, text: " on weekends" };
    case "every":
      reader.expect(["day"]);
      return { ...EVERY_DAY, text: "" };
    default: {
      const weekdays = readWeekdays(reader);
      return { ...weekly(1, weekdays), text: ` on ${weekdayList(weekdays)}` };
    }
  }
}

function atTimes(reader: Reader, { dates, text }: DatesForm): Form {
  reader.expect(["at"]);
  const minutes = listOf(reader, () => readTime(reader)).sort((one, other) => one - other);
  return {
    rule: { form: "dates", dates, minutes },
    text: `${text} at ${minutes.map(timeText).join(",")}`,
  };
}

function readWeekdays(reader: Reader, alternatives: readonly string[] = []): Weekday[] {
  const names = [...WEEKDAY_NAMES.keys()];
  const expected = [...alternatives, "a weekday"];
  const read = () => WEEKDAY_NAMES.get(reader.expect(names, expected)) as Weekday;
  return listOf(reader, read).sort((one, other) => one - other);
}

function weekly(every: number, weekdays: readonly Weekday[]): DatesForm {
  const weeks = every === 1 ? "every week" : `every ${every} weeks`;
  return { dates: { by: "weeks", every, weekdays }, text: `${weeks} on ${weekdayList(weekdays)}` };
}

function weekdayList(weekdays: readonly Weekday[]): string {
  return weekdays.map(weekdayName).join(",");
}
