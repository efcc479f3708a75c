/** Random schedules, zones and instants, with more of what is near a change of the clock than there is in life. */

import fc from "fast-check";
import type {
  Dates,
  MonthDay,
  ParsedSchedule,
  Rule,
  Weekday,
} from "../../../src/scheduler/rule.ts";
import { type Transition, transitionsOf } from "./reference.ts";

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

export const FROM = Date.UTC(1990, 0, 1);
export const TO = Date.UTC(2061, 0, 1);

/** Names that lead to another one, or to a fixed offset; they are not among those that Intl lists. */
const ALIASES = [
  "UTC",
  "GMT",
  "Etc/UTC",
  "Etc/GMT+12",
  "Etc/GMT-14",
  "EST5EDT",
  "US/Eastern",
  "Asia/Calcutta",
  "Asia/Katmandu",
  "Europe/Kiev",
  "America/Buenos_Aires",
  "Pacific/Enderbury",
  "Pacific/Samoa",
];

export const ZONES: readonly string[] = [
  ...new Set([...Intl.supportedValuesOf("timeZone"), ...ALIASES, "+05:30", "-09:30"]),
];

const transitions = new Map<string, Transition[]>();

/** All of a zone from 1990 to 2060. */
export function allTransitions(zone: string): Transition[] {
  let known = transitions.get(zone);
  if (known === undefined) {
    known = transitionsOf(zone, FROM, TO);
    transitions.set(zone, known);
  }
  return known;
}

const weekday = fc.integer({ min: 1, max: 7 }) as fc.Arbitrary<Weekday>;
const month = fc.integer({ min: 1, max: 12 });

const monthDay: fc.Arbitrary<MonthDay> = fc.oneof(
  fc.record({ day: fc.integer({ min: 1, max: 31 }) }),
  fc.constant({ last: "day" as const }),
  fc.record({
    nth: fc.constantFrom(1 as const, 2 as const, 3 as const, 4 as const, 5 as const, -1 as const),
    weekday: fc.oneof(weekday, fc.constant("working" as const)),
  }),
);

const dates: fc.Arbitrary<Dates> = fc.oneof(
  fc.record({
    by: fc.constant("days" as const),
    every: fc.oneof(fc.constant(1), fc.integer({ min: 2, max: 40 })),
  }),
  fc.record({
    by: fc.constant("weeks" as const),
    every: fc.integer({ min: 1, max: 5 }),
    weekdays: fc.uniqueArray(weekday, { minLength: 1, maxLength: 7 }),
  }),
  fc.record({
    by: fc.constant("months" as const),
    on: fc.array(
      fc.record({ months: fc.uniqueArray(month, { minLength: 1, maxLength: 12 }), day: monthDay }),
      { minLength: 1, maxLength: 3 },
    ),
  }),
);

/** What begins and ends between 23:00 and 03:30 is what clocks are changed at. */
const timeOfDay = fc.oneof(fc.integer({ min: 0, max: 210 }), fc.integer({ min: 0, max: 1439 }));

const minutes = fc.oneof(
  fc
    .uniqueArray(timeOfDay, { minLength: 1, maxLength: 4 })
    .map((some) => some.sort((one, other) => one - other)),
  // A window, of which half go past midnight.
  fc
    .record({
      first: fc.integer({ min: 0, max: 1439 }),
      step: fc.constantFrom(15, 30, 60, 97),
      length: fc.integer({ min: 0, max: 1439 }),
    })
    .map(({ first, step, length }) =>
      Array.from({ length: Math.floor(length / step) + 1 }, (_, at) => first + at * step),
    ),
);

function field(from: number, to: number): fc.Arbitrary<string> {
  const value = fc.integer({ min: from, max: to });
  return fc.oneof(
    fc.constant("*"),
    fc.constantFrom("*/2", "*/5", "*/7"),
    value.map(String),
    fc.uniqueArray(value, { minLength: 2, maxLength: 4 }).map((some) => some.join(",")),
    fc.tuple(value, value).map(([one, other]) => `${Math.min(one, other)}-${Math.max(one, other)}`),
  );
}

const expression = fc
  .tuple(field(0, 59), field(0, 23), field(1, 28), field(1, 12), field(0, 6))
  .map((fields) => fields.join(" "));

export type Case = {
  readonly schedule: ParsedSchedule;
  readonly after: number;
  readonly anchor: number | undefined;
};

/** A moment of a zone; three of four are within two days of a change, and some of those at it. */
function instantIn(zone: string): fc.Arbitrary<number> {
  const any = fc.integer({ min: FROM, max: TO - 1 });
  const known = allTransitions(zone).map(({ at }) => at);
  if (known.length === 0) return any;
  const near = fc.oneof(
    fc.constantFrom(-1, 0, 1),
    fc.integer({ min: -5 * HOUR_MS, max: 5 * HOUR_MS }),
    fc.integer({ min: -2 * DAY_MS, max: 2 * DAY_MS }),
  );
  return fc.oneof(
    any,
    ...[near, near, near].map((some) =>
      fc.tuple(fc.constantFrom(...known), some).map(([at, by]) => at + by),
    ),
  );
}

function ruleNear(after: number): fc.Arbitrary<Rule> {
  const onDates = fc.record({ form: fc.constant("dates" as const), dates, minutes });
  return fc.oneof(
    { weight: 6, arbitrary: onDates },
    { weight: 2, arbitrary: fc.record({ form: fc.constant("cron" as const), expression }) },
    {
      weight: 1,
      arbitrary: fc.record({
        form: fc.constant("once" as const),
        at: fc
          .integer({ min: -3 * 24 * 60, max: 3 * 24 * 60 })
          .map((by) => Math.floor(after / 60_000 + by) * 60_000),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        form: fc.constant("interval" as const),
        ms: fc.oneof(
          fc.integer({ min: 1, max: 600 }).map((count) => count * 60_000),
          fc.integer({ min: 60_000, max: 90 * DAY_MS }),
        ),
      }),
    },
  );
}

function scheduleNear(after: number, timezone: string): fc.Arbitrary<ParsedSchedule> {
  const today = Math.floor(after / DAY_MS);
  const near = fc.integer({ min: -40, max: 40 }).map((by) => today + by);
  const limit = fc.option(
    fc.oneof(
      near.map((date) => date * DAY_MS),
      fc.tuple(near, timeOfDay).map(([date, minute]) => date * DAY_MS + minute * 60_000),
    ),
    { nil: undefined, freq: 3 },
  );
  return fc
    .record({
      rule: ruleNear(after),
      starting: limit,
      until: limit,
      except: fc.oneof(
        fc.constant<number[]>([]),
        fc.uniqueArray(fc.integer({ min: -3, max: 12 }), { maxLength: 8 }),
      ),
    })
    .map(({ rule, starting, until, except }) => ({
      text: "",
      kind: rule.form === "interval" ? ("interval" as const) : ("wall-clock" as const),
      timezone,
      rule,
      starting,
      until,
      except: except.map((by) => today + by).sort((one, other) => one - other),
    }));
}

/** @param zones those to draw from */
export function cases(zones: readonly string[]): fc.Arbitrary<Case> {
  return fc.constantFrom(...zones).chain((zone) =>
    instantIn(zone).chain((after) =>
      fc.record({
        schedule: scheduleNear(after, zone),
        after: fc.constant(after),
        anchor: fc.option(fc.integer({ min: FROM, max: TO }), { nil: undefined }),
      }),
    ),
  );
}
