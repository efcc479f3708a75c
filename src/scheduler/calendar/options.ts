/** Options of the calendar's public functions, checked at the call. */

import { INSTANT_FORMS, type Instant, instantMs } from "../../core/options/instant.ts";
import { checkNames, invalidOption, isPlainObject } from "../../core/options/options.ts";
import { ZONE_FORMS } from "../../core/time-zones.ts";
import { parseSchedule } from "../language/parse.ts";
import type { ParsedSchedule, Rule } from "../rule.ts";
import { END_MS, FIRST_MS } from "./civil.ts";

/** Options of all functions that compute occurrences. */
export type CalendarOptions = {
  /** Occurrences are strictly after this. @default now */
  readonly after?: Instant | undefined;
  /** The IANA zone of a schedule that names none. @default none: a schedule with clock times must name its zone */
  readonly timezone?: string | undefined;
  /** What an interval counts from, in both directions, unless the schedule has `starting`. @default the value of `after` */
  readonly anchor?: Instant | undefined;
};

/**
 * Checks the options that all functions have, and parses the schedule. Checked by hand, not with Zod: a call takes under a
 * microsecond.
 *
 * @param others names of further options of the function
 * @throws InvalidOptionError naming the option
 */
export function readCall(
  name: string,
  given: string | ParsedSchedule,
  options: CalendarOptions,
  others: readonly string[] = [],
) {
  checkNames(name, options, ["after", "timezone", "anchor", ...others]);
  const { timezone, anchor } = options;
  if (timezone !== undefined && typeof timezone !== "string") {
    throw invalidOption("timezone", timezone, ZONE_FORMS);
  }
  return {
    after: options.after === undefined ? Date.now() : instantOf("after", options.after),
    anchor: anchor === undefined ? undefined : instantOf("anchor", anchor),
    schedule: isParsed(given) ? given : parseSchedule(given, { timezone }),
  };
}

const FORMS = ["interval", "dates", "cron", "once"] satisfies Rule["form"][];

/** Whether it is what `parseSchedule()` returns, or a copy of that. */
function isParsed(given: unknown): given is ParsedSchedule {
  return (
    isPlainObject(given) &&
    Array.isArray(given.except) &&
    isPlainObject(given.rule) &&
    FORMS.some((form) => form === (given.rule as Partial<Rule>).form)
  );
}

/** @throws InvalidOptionError for an invalid time, or one outside of the years 1000 to 9999 */
export function instantOf(option: string, value: Instant): number {
  const instant = instantMs(value);
  if (instant !== undefined && instant >= FIRST_MS && instant < END_MS) return instant;
  throw invalidOption(option, value, `${INSTANT_FORMS}, of the years 1000 to 9999`);
}
