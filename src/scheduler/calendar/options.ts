/** Options of the calendar's public functions, checked at the call. */

import { INSTANT_FORMS, type Instant, instantMs } from "../../core/instant.ts";
import { InvalidOptionError, invalidOption, problemOfNames } from "../../core/options.ts";
import { parseSchedule } from "../language/parse.ts";
import { ZONE_FORMS } from "../language/zones.ts";
import type { ParsedSchedule } from "../rule.ts";
import { END_MS, FIRST_MS } from "./civil.ts";

/** Options of all functions that compute occurrences. */
export type CalendarOptions = {
  /**
   * Occurrences are strictly after this.
   * @default now
   */
  readonly after?: Instant | undefined;
  /**
   * The IANA zone of a schedule that names none.
   * @default none: a schedule with clock times must name its zone
   */
  readonly timezone?: string | undefined;
  /**
   * The time that an interval counts from, in both directions, unless the schedule has `starting`.
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
 * Checked by hand, not with Zod: a call takes under a microsecond.
 *
 * @param others names of further options of the function
 * @throws InvalidOptionError naming the option
 */
export function readCalendarOptions(
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

/** @throws InvalidOptionError for an invalid time, or one outside of the years 1000 to 9999 */
export function instantOf(option: string, value: Instant): number {
  const instant = instantMs(value);
  if (instant !== undefined && instant >= FIRST_MS && instant < END_MS) return instant;
  throw invalidOption(option, value, `${INSTANT_FORMS}, of the years 1000 to 9999`);
}

/** Parses a text; a parsed schedule stays as it is. */
export function parsedOf(
  schedule: string | ParsedSchedule,
  timezone: string | undefined,
): ParsedSchedule {
  return typeof schedule === "object" && schedule !== null
    ? schedule
    : parseSchedule(schedule, { timezone });
}
