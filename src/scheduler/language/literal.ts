/**
 * The schedule language as types: the compiler checks literal schedules. Reads a text as the parser does, left to right, up
 * to the first mistake. Knows less than the parser (no zone names, no duplicates), and accepts all that the parser accepts.
 */

import type { IsWide } from "../../core/text.ts";
import type { CountCheck, DateCheck, ListCheck, MomentCheck, Or } from "./literal-values.ts";

/**
 * The text itself if it is a valid schedule, else a sentence that says what is wrong. A type wider than a literal passes:
 * such texts are checked when they are parsed.
 *
 * @example
 * function everyTime<const Text extends string>(schedule: Schedule<Text>) {}
 */
export type Schedule<Text extends string> = Text extends unknown
  ? IsWide<Text> extends true
    ? Text
    : FormCheck<Plain<Spaced<Lowercase<Text>>>> extends infer Problem extends string
      ? Problem
      : Text
  : never;

/** Whether a text is an interval without dates, also for a pattern such as `every ${number} minutes`. */
export type IsInterval<Text extends string> = Text extends Interval
  ? true
  : Plain<Spaced<Lowercase<Text>>> extends Interval
    ? true
    : false;

type Interval = `every ${"" | `${number} `}${"minute" | "minutes" | "hour" | "hours"}`;

/** Replaces other white space by spaces. One literal each: a union of all three would match any character. */
type Spaced<Text extends string> = Text extends `${infer Head}\n${infer Tail}`
  ? Spaced<`${Head} ${Tail}`>
  : Text extends `${infer Head}\t${infer Tail}`
    ? Spaced<`${Head} ${Tail}`>
    : Text extends `${infer Head}\r${infer Tail}`
      ? Spaced<`${Head} ${Tail}`>
      : Text;

/** With single spaces, and none at commas or at the ends. */
type Plain<Text extends string> = Text extends `${infer Head}, ${infer Tail}`
  ? Plain<`${Head},${Tail}`>
  : Text extends `${infer Head} ,${infer Tail}`
    ? Plain<`${Head},${Tail}`>
    : Text extends `${infer Head}  ${infer Tail}`
      ? Plain<`${Head} ${Tail}`>
      : Text extends ` ${infer Tail}`
        ? Plain<Tail>
        : Text extends `${infer Head} `
          ? Plain<Head>
          : Text;

type First<Text extends string> = Text extends `${infer Word} ${string}` ? Word : Text;
type Rest<Text extends string> = Text extends `${string} ${infer Tail}` ? Tail : "";

/** Each check is a sentence about a mistake, or null for none. */
type FormCheck<Text extends string> =
  First<Text> extends "every"
    ? EveryCheck<Rest<Text>>
    : First<Text> extends "cron"
      ? CronCheck<Rest<Text>>
      : Text extends `once at ${infer Tail}`
        ? OnceCheck<Tail>
        : First<Text> extends "once"
          ? '"once" must be followed by "at", a date and a time'
          : `a schedule begins with every, cron or once, not "${First<Text>}"`;

type EveryCheck<Text extends string> =
  First<Text> extends "minute" | "hour"
    ? StepsCheck<Rest<Text>>
    : First<Text> extends `${number}`
      ? CountedCheck<First<Text>, Rest<Text>>
      : First<Text> extends "day" | "weekday" | "weekend"
        ? AtCheck<Rest<Text>>
        : First<Text> extends "week"
          ? OnWeekdaysCheck<Rest<Text>>
          : First<Text> extends "month" | "quarter"
            ? OnCheck<Rest<Text>, "month day">
            : First<Text> extends "year"
              ? OnCheck<Rest<Text>, "year day">
              : ListCheck<"weekday", First<Text>> extends null
                ? AtCheck<Rest<Text>>
                : `"every" must be followed by a number, minute, hour, day, weekday, weekend, week, month, quarter, year or a weekday, not "${First<Text>}"`;

type CountedCheck<Count extends string, Text extends string> = Or<
  Or<CountCheck<Count>, UnitProblem<Count, First<Text>>>,
  First<Text> extends "day" | "days"
    ? AtCheck<Rest<Text>>
    : First<Text> extends "week" | "weeks"
      ? OnWeekdaysCheck<Rest<Text>>
      : StepsCheck<Rest<Text>>
>;

type Unit = "minute" | "hour" | "day" | "week";

type UnitProblem<Count extends string, Word extends string> = Count extends "1"
  ? Word extends Unit
    ? null
    : Word extends `${infer One extends Unit}s`
      ? `expected "1 ${One}", not "1 ${Word}"`
      : `"1" must be followed by minute, hour, day or week, not "${Word}"`
  : Word extends `${Unit}s`
    ? null
    : Word extends Unit
      ? `expected "${Count} ${Word}s", not "${Count} ${Word}"`
      : `"${Count}" must be followed by minutes, hours, days or weeks, not "${Word}"`;

type AtCheck<Text extends string> =
  First<Text> extends "at"
    ? First<Rest<Text>> extends ""
      ? 'expected "at" and a time (HH:MM)'
      : Or<ListCheck<"time", First<Rest<Text>>>, SuffixesCheck<Rest<Rest<Text>>>>
    : First<Text> extends ""
      ? 'expected "at" and a time (HH:MM)'
      : `expected "at" and a time, not "${Text}"`;

type OnWeekdaysCheck<Text extends string> =
  First<Text> extends "on"
    ? Or<ListCheck<"weekday", First<Rest<Text>>>, AtCheck<Rest<Rest<Text>>>>
    : `expected "on" and weekdays, not "${Text}"`;

type OnCheck<
  Text extends string,
  Of extends "month day" | "year day",
> = Text extends `on ${string} at`
  ? AtCheck<"at">
  : Text extends `on ${infer Days} at ${infer Tail}`
    ? Or<ListCheck<Of, Days>, AtCheck<`at ${Tail}`>>
    : `expected "on", days, "at" and a time, not "${Text}"`;

/** Nothing, suffixes, or a window. */
type StepsCheck<Text extends string> =
  First<Text> extends "between"
    ? Text extends `between ${infer Start} and ${infer Tail}`
      ? Or<
          ListCheck<"time", Start>,
          First<Tail> extends "24:00"
            ? WindowDaysCheck<Rest<Tail>>
            : Or<ListCheck<"time", First<Tail>>, WindowDaysCheck<Rest<Tail>>>
        >
      : '"between" must be followed by a time, "and" and another time'
    : SuffixesCheck<Text>;

type WindowDaysCheck<Text extends string> =
  First<Text> extends "on"
    ? Text extends "on every day" | `on every day ${string}`
      ? SuffixesCheck<Rest<Rest<Rest<Text>>>>
      : First<Rest<Text>> extends "weekdays" | "weekends"
        ? SuffixesCheck<Rest<Rest<Text>>>
        : Or<ListCheck<"weekday", First<Rest<Text>>>, SuffixesCheck<Rest<Rest<Text>>>>
    : SuffixesCheck<Text>;

type OnceCheck<Text extends string> =
  First<Text> extends `${string}t${string}`
    ? Or<MomentCheck<First<Text>>, SuffixesCheck<Rest<Text>>>
    : Or<
        DateCheck<First<Text>>,
        First<Rest<Text>> extends ""
          ? `expected a time (HH:MM) after ${First<Text>}`
          : Or<ListCheck<"time", First<Rest<Text>>>, SuffixesCheck<Rest<Rest<Text>>>>
      >;

type Suffix = "in" | "except" | "starting" | "until";

/** Counts the fields up to the first suffix. Croner checks them at run time. */
type CronCheck<
  Text extends string,
  Fields extends readonly string[] = [],
> = Text extends `@${string}`
  ? SuffixesCheck<Rest<Text>>
  : First<Text> extends "" | Suffix
    ? Fields["length"] extends 5 | 6
      ? SuffixesCheck<Text>
      : `there are ${Fields["length"]} cron fields: expected 5, or 6 with seconds first`
    : Fields["length"] extends 7
      ? "there are more than 6 cron fields: expected 5, or 6 with seconds first"
      : CronCheck<Rest<Text>, [...Fields, First<Text>]>;

type SuffixesCheck<Text extends string, Left extends Suffix = Suffix> = Text extends ""
  ? null
  : First<Text> extends infer Word extends Suffix
    ? Word extends Left
      ? SuffixCheck<Word, Rest<Text>, Exclude<Left, Word>>
      : `"${Word}" is repeated`
    : `expected in, except, starting, until or the end, not "${First<Text>}"`;

type SuffixCheck<Word extends Suffix, Text extends string, Left extends Suffix> = Text extends ""
  ? `"${Word}" must be followed by ${Word extends "in" ? "a time zone" : "a date"}`
  : Word extends "in"
    ? SuffixesCheck<Rest<Text>, Left>
    : Word extends "except"
      ? Or<ListCheck<"date", First<Text>>, SuffixesCheck<Rest<Text>, Left>>
      : Or<MomentCheck<First<Text>>, AfterDate<Rest<Text>, Left>>;

/** A date may be followed by its time. */
type AfterDate<Text extends string, Left extends Suffix> =
  First<Text> extends `${number}:${string}`
    ? Or<ListCheck<"time", First<Text>>, SuffixesCheck<Rest<Text>, Left>>
    : SuffixesCheck<Text, Left>;
