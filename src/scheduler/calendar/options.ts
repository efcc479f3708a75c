/** Options of the calendar's public functions, checked at the call. */

import { INSTANT_FORMS, type Instant, instantMs } from "../../core/instant.ts";
import { InvalidOptionError, invalidOption, problemOfNames } from "../../core/options.ts";
import { parseSchedule } from "../language/parse.ts";
import { ZONE_FORMS } from "../language/zones.ts";
import type { ParsedSchedule } from "../rule.ts";
import { END_MS, FIRST_MS } from "./civil.ts";

/** What the functions that compute occurrences have in common. */
export type CalendarOptions = {
  /**
   * Occurrences are strictly after this.
   * @default now
   */
  readonly after?: Instant | undefined;
  /**
   * The IANA zone of a schedule that names none.
   * @default none: what reads a clock on a wall has to name its zone
   */
  readonly timezone?: string | undefined;
  /**
   * A moment that an interval's occurrences are counted from, in both
   * directions, unless the schedule says `starting`.
   * @default the value of `after`
   */
  readonly anchor?: Instant | undefined;
};

export type ReadOptions = {
  readonly after: number;
  readonly timezone: string | undefined;
  readonly anchor: number | undefined;
};

const NAMES = ["after", "timezone", "anchor"] as const satisfies readonly (keyof CalendarOptions)[];

/**
 * @param others names of options that the function has besides
 * @throws InvalidOptionError naming the option
 */
export function readOptions(
  what: string,
  options: CalendarOptions,
  now: () => number,
  others: readonly string[] = [],
): ReadOptions {
  const unknown = problemOfNames(what, options, [...NAMES, ...others]);
  if (unknown) throw new InvalidOptionError(unknown.name, unknown.message);
  const { after, timezone, anchor } = options;
  if (timezone !== undefined && typeof timezone !== "string") {
    throw invalidOption("timezone", timezone, ZONE_FORMS);
  }
  return {
    after: after === undefined ? now() : instantOf("after", after),
    timezone,
    anchor: anchor === undefined ? undefined : instantOf("anchor", anchor),
  };
}

/**
 * The millisecond that a moment is in.
 *
 * @throws InvalidOptionError for what is no moment of the years 1000 to 9999
 */
export function instantOf(option: string, value: Instant): number {
  const instant = instantMs(value);
  if (instant !== undefined && instant >= FIRST_MS && instant < END_MS) return instant;
  throw invalidOption(option, value, `${INSTANT_FORMS}, of the years 1000 to 9999`);
}

/** A text is parsed; what has been parsed is taken as it is. */
export function scheduleOf(
  schedule: string | ParsedSchedule,
  timezone: string | undefined,
): ParsedSchedule {
  return typeof schedule === "object" && schedule !== null
    ? schedule
    : parseSchedule(schedule, { timezone });
}
