/** The words of the schedule language, and other words that are corrected to them. */

import type { MonthDay, Weekday } from "../rule.ts";

const WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split(" ");

const MONTHS =
  "january february march april may june july august september october november december".split(
    " ",
  );

/** The most days that each month can have, by month - 1. */
export const MONTH_LENGTHS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] as const;

export type Nth = Extract<MonthDay, { nth: unknown }>["nth"];

/** Numbers from 1 by name. Full names first: corrections take the first that fits. */
function numbered(names: readonly string[]): ReadonlyMap<string, number> {
  const short = names.map((name) => name.slice(0, 3));
  return new Map([...names, ...short].map((name, at) => [name, (at % names.length) + 1]));
}

export const WEEKDAY_NAMES = numbered(WEEKDAYS) as ReadonlyMap<string, Weekday>;

export const MONTH_NAMES = numbered(MONTHS);

export const ORDINAL_NAMES: ReadonlyMap<string, Nth> = new Map([
  ["first", 1],
  ["second", 2],
  ["third", 3],
  ["fourth", 4],
  ["fifth", 5],
  ["last", -1],
]);

export function weekdayName(weekday: Weekday): string {
  return WEEKDAYS[weekday - 1] as string;
}

export function monthName(month: number): string {
  return MONTHS[month - 1] as string;
}

export function ordinalName(nth: Nth): string {
  return [...ORDINAL_NAMES].find(([, value]) => value === nth)?.[0] as string;
}

/** Words of other schedule languages, and their corrections. */
export const FOREIGN: ReadonlyMap<string, string> = new Map([
  ["daily", "every day"],
  ["everyday", "every day"],
  ["hourly", "every hour"],
  ["weekly", "every week on monday"],
  ["monthly", "every month on 1"],
  ["quarterly", "every quarter on first day"],
  ["yearly", "every year on january 1"],
  ["annually", "every year on january 1"],
  ["weekdays", "every weekday"],
  ["weekends", "every weekend"],
  ["each", "every"],
  ["other", "2"],
  ["morning", "day at 09:00"],
  ["noon", "day at 12:00"],
  ["afternoon", "day at 15:00"],
  ["evening", "day at 18:00"],
  ["night", "day at 22:00"],
  ["midnight", "day at 00:00"],
  ["seconds", "minutes"],
  ["second", "minute"],
  ["and", ","],
  ["&", ","],
  ["from", "starting"],
  ["since", "starting"],
  ["skip", "except"],
  ["without", "except"],
  ...WEEKDAYS.map((name) => [`${name}s`, `every ${name}`] as const),
]);
