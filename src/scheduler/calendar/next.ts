/**
 * The next occurrence of a schedule: applies its limits, and maps local times to instants. Never searched for in steps of
 * time: a call takes under a microsecond, one of a cron expression as long as Croner takes.
 */

import type { LocalTime, ParsedSchedule } from "../rule.ts";
import { DAY_MS, dateOf, END_MS, endOf, FIRST_MS, includes } from "./civil.ts";
import { type LocalFinder, localFinder } from "./wall.ts";
import { clockOf, type ZoneClock } from "./zones.ts";

type PreparedWall = {
  readonly form: "wall";
  readonly clock: ZoneClock;
  readonly next: LocalFinder;
  readonly starting: LocalTime;
  /** Exclusive. */
  readonly until: LocalTime;
};

export type PreparedInterval = {
  readonly form: "interval";
  readonly ms: number;
  readonly starting: number | undefined;
  /** Exclusive. */
  readonly until: number;
  readonly clock: ZoneClock;
};

type Prepared = PreparedWall | PreparedInterval;

/** What is looked up once for each schedule. */
const prepared = new WeakMap<ParsedSchedule, Prepared>();

/**
 * The first occurrence strictly after `after`, or null when there is none before the year 10000.
 * Local times in one gap of the clock are one occurrence at its end; one that comes twice runs the first time.
 *
 * @param schedule must not change after its first use
 * @param anchor one instant of an interval's grid, used unless the schedule has a `starting`, which is its first
 *   occurrence. With neither, an interval counts from `after`. Other schedules ignore it
 * @throws InvalidOptionError for an unknown zone
 */
export function nextInstant(
  schedule: ParsedSchedule,
  after: number,
  anchor?: number,
): number | null {
  const rules = preparedOf(schedule);
  const from = boundOf(after);
  if (rules.form === "interval") return nextOfInterval(rules, schedule, from, anchor);
  const local = nextLocal(rules, from);
  return local === null ? null : (rules.clock.instantOf(local) ?? null);
}

/** The local time that the rule names for its next occurrence after `after`; null for an interval, which names none. */
export function nextNominal(schedule: ParsedSchedule, after: number): LocalTime | null {
  const rules = preparedOf(schedule);
  return rules.form === "interval" ? null : nextLocal(rules, boundOf(after));
}

/** In whole milliseconds, within the years that the calendar covers. */
function boundOf(after: number): number {
  return Math.min(Math.max(Math.floor(after), FIRST_MS - 1), END_MS);
}

function nextLocal({ clock, next, starting, until }: PreparedWall, from: number): LocalTime | null {
  let after = Math.max(clock.reached(from), starting - 1);
  for (;;) {
    const found = next(after);
    if (found === undefined || found >= until) return null;
    if (clock.instantOf(found) !== undefined) return found;
    after = endOf(dateOf(found));
  }
}

/** The grid of an interval, or undefined for another schedule. */
export function intervalOf(schedule: ParsedSchedule): PreparedInterval | undefined {
  const rules = preparedOf(schedule);
  return rules.form === "interval" ? rules : undefined;
}

function nextOfInterval(
  { ms, starting, until, clock }: PreparedInterval,
  { except }: ParsedSchedule,
  from: number,
  anchor: number | undefined,
): number | null {
  const origin = starting ?? anchor ?? from;
  let after = starting === undefined ? from : Math.max(from, starting - 1);
  for (;;) {
    const found = origin + (Math.floor((after - origin) / ms) + 1) * ms;
    if (found >= until) return null;
    const date = dateOf(clock.toLocal(found));
    if (!includes(except, date)) return found;
    // Not before `found`: a clock that goes back over midnight enters the date again.
    after = Math.max(found, clock.resolve((date + 1) * DAY_MS).instant - 1);
  }
}

function preparedOf(schedule: ParsedSchedule): Prepared {
  const known = prepared.get(schedule);
  if (known !== undefined) return known;
  const fresh = prepare(schedule);
  prepared.set(schedule, fresh);
  return fresh;
}

function prepare(schedule: ParsedSchedule): Prepared {
  const { rule, timezone = "UTC", starting, until } = schedule;
  const clock = clockOf(timezone);
  if (rule.form !== "interval") {
    return {
      form: "wall",
      clock,
      next: localFinder(rule, schedule, (date) => clock.skips(date)),
      starting: starting ?? Number.NEGATIVE_INFINITY,
      until: Math.min(until ?? END_MS, END_MS),
    };
  }
  return {
    form: "interval",
    clock,
    ms: rule.ms,
    starting: starting === undefined ? undefined : clock.resolve(starting).instant,
    until: until === undefined ? END_MS : Math.min(clock.resolve(until).instant, END_MS),
  };
}
