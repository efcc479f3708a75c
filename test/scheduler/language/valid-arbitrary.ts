/** Any valid schedule, in one of its many spellings. */

import fc from "fast-check";
import {
  MONTH_LENGTHS,
  MONTH_NAMES,
  WEEKDAY_NAMES,
} from "../../../src/scheduler/language/vocabulary.ts";

const pad = (value: number, length = 2) => String(value).padStart(length, "0");
const comma = fc.constantFrom(",", ", ", " , ");

/** Different ones, with commas between. */
function listed<T>(item: fc.Arbitrary<T>, selector: (item: T) => unknown = (same) => same) {
  return fc
    .tuple(fc.uniqueArray(item, { minLength: 1, maxLength: 4, selector }), comma)
    .map(([items, separator]) => items.join(separator));
}

const time = fc
  .tuple(fc.nat({ max: 23 }), fc.nat({ max: 59 }))
  .map(([hour, minute]) => `${pad(hour)}:${pad(minute)}`);
const times = listed(time);
const weekday = fc.constantFrom(...WEEKDAY_NAMES.keys());
const weekdays = listed(weekday, (name) => name.slice(0, 3));
const date = fc
  .date({ min: new Date("2000-01-01"), max: new Date("2100-01-01"), noInvalidDate: true })
  .map((day) => day.toISOString().slice(0, 10));
const moment = fc
  .tuple(date, fc.constantFrom("T", " ", undefined), time)
  .map(([day, gap, clock]) => (gap === undefined ? day : `${day}${gap}${clock}`));

const interval = fc.oneof(
  fc.constantFrom("every minute", "every hour", "every 1 minute", "every 1 hour"),
  fc.integer({ min: 2, max: 52_596_000 }).map((count) => `every ${count} minutes`),
  fc.integer({ min: 2, max: 876_600 }).map((count) => `every ${count} hours`),
);

/** Its steps fit, since it is at least 30 minutes long. */
const window = fc
  .tuple(
    fc.integer({ min: 2, max: 30 }),
    fc.nat({ max: 1_439 }),
    fc.integer({ min: 30, max: 1_400 }),
    fc.oneof(
      fc.constantFrom("", " on weekdays", " on weekends", " on every day"),
      weekdays.map((names) => ` on ${names}`),
    ),
  )
  .map(([step, start, length, on]) => {
    const end = (start + length) % 1_440;
    const clock = (minutes: number) => `${pad(Math.floor(minutes / 60))}:${pad(minutes % 60)}`;
    return `every ${step} minutes between ${clock(start)} and ${clock(end)}${on}`;
  });

const monthDay = fc.oneof(
  fc.integer({ min: 2, max: 31 }).map(String),
  fc.constantFrom("first day", "last day", "first weekday", "last weekday"),
  fc
    .tuple(
      fc.constantFrom("first", "second", "third", "fourth", "fifth", "last"),
      fc.constantFrom("monday", "tue", "friday", "sun"),
    )
    .map((words) => words.join(" ")),
);
const yearDay = fc
  .tuple(fc.constantFrom(...MONTH_NAMES), fc.integer({ min: 1, max: 31 }))
  .map(([[name, month], day]) => `${name} ${Math.min(day, MONTH_LENGTHS[month - 1] as number)}`);

const dates = fc.oneof(
  fc.constantFrom("day", "weekday", "weekend", "1 day"),
  fc.integer({ min: 2, max: 366 }).map((count) => `${count} days`),
  weekdays,
  weekdays.map((names) => `week on ${names}`),
  fc.tuple(fc.integer({ min: 2, max: 52 }), weekdays).map(([n, names]) => `${n} weeks on ${names}`),
  fc
    .tuple(fc.constantFrom("month", "quarter"), listed(monthDay))
    .map(([unit, days]) => `${unit} on ${days}`),
  listed(yearDay, (day) => day.replace(/^(...)[a-z]*/, "$1")).map((days) => `year on ${days}`),
);

const cronField = (most: number, least: number) =>
  fc.oneof(
    fc.constant("*"),
    fc.integer({ min: least, max: most }).map(String),
    fc.integer({ min: 2, max: 7 }).map((step) => `*/${step}`),
  );
const cron = fc
  .tuple(cronField(59, 0), cronField(23, 0), cronField(31, 1), cronField(12, 1), cronField(7, 0))
  .map((fields) => `cron ${fields.join(" ")}`);

const form = fc.oneof(
  interval,
  window,
  fc.tuple(dates, times).map(([days, clocks]) => `every ${days} at ${clocks}`),
  cron,
  fc
    .tuple(date, fc.constantFrom("T", " "), time)
    .map(([day, gap, clock]) => `once at ${day}${gap}${clock}`),
);

/** `starting` stands on an early date and `until` on a late one, so that they never cross. */
const suffixes = fc
  .tuple(
    fc.constantFrom(undefined, "in Europe/London", "in America/New_York", "in UTC"),
    fc.option(listed(date), { nil: undefined }),
    fc.option(moment, { nil: undefined }),
    fc.option(moment, { nil: undefined }),
    fc.shuffledSubarray([0, 1, 2, 3], { minLength: 4 }),
  )
  .map(([zone, except, starting, until, order]) => {
    const parts = [
      zone,
      except && `except ${except}`,
      starting && `starting ${starting.replace(/^\d{4}/, "1996")}`,
      until && `until ${until.replace(/^\d{4}/, "2104")}`,
    ];
    return order
      .map((index) => parts[index])
      .filter((part) => part !== undefined)
      .map((part) => ` ${part}`)
      .join("");
  });

/** As people write: lower case, single spaces. */
export const plainText = fc.tuple(form, suffixes).map((parts) => parts.join(""));

/** With any white space and case. */
export const validText = fc
  .tuple(plainText, fc.constantFrom(" ", "  ", "\n", "\t "), fc.boolean())
  .map(([text, space, isLoud]) => {
    const spaced = text.replaceAll(" ", space);
    return isLoud ? spaced.toUpperCase() : spaced;
  });
