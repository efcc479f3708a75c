/** Parses the suffixes of a schedule: `in`, `except`, `starting`, `until`. */

import { ZONE_FORMS } from "../../core/time-zones.ts";
import { DAY_MS } from "../calendar/civil.ts";
import type { LocalDate, LocalTime } from "../rule.ts";
import { listOf, type Reader } from "./reader.ts";
import { dateText, localTime, momentText, readDate, readDateTime } from "./values.ts";
import { nearestZones, zoneOf } from "./zones.ts";

export const SUFFIXES = ["in", "except", "starting", "until"] as const;

export type Suffixes = {
  readonly timezone: string | undefined;
  readonly starting: LocalTime | undefined;
  readonly until: LocalTime | undefined;
  readonly except: readonly LocalDate[];
};

/** All that is left of the text. @throws Mismatch */
export function readSuffixes(reader: Reader): Suffixes {
  let timezone: string | undefined;
  let starting: LocalTime | undefined;
  let until: LocalTime | undefined;
  let except: LocalDate[] = [];
  let untilIndex = 0;
  const left = new Set<(typeof SUFFIXES)[number]>(SUFFIXES);
  while (!reader.atEnd) {
    const suffix = left.size > 0 ? reader.accept([...left]) : undefined;
    if (suffix === undefined) return reader.fail("the end", () => []);
    left.delete(suffix);
    if (suffix === "in") {
      timezone = reader.value(ZONE_FORMS, nearestZones, ({ raw }) => zoneOf(raw));
    }
    if (suffix === "except") except = listOf(reader, readDate).sort((one, other) => one - other);
    if (suffix === "starting") starting = readLimit(reader, 0);
    if (suffix === "until") {
      untilIndex = reader.index;
      until = readLimit(reader, 1);
    }
  }
  if (starting !== undefined && until !== undefined && until <= starting) {
    // As a last date, the date of the start is never too early.
    const first = dateText(Math.floor(starting / DAY_MS));
    const expected = `a date or time after its start at ${momentText(starting)}`;
    reader.refuse(untilIndex, expected, () => [first]);
  }
  return { timezone, starting, until, except };
}

/** In their usual order and spelling, with a space before each. */
export function suffixText({ starting, until, except }: Omit<Suffixes, "timezone">): string {
  const parts: string[] = [];
  if (except.length > 0) parts.push(` except ${except.map(dateText).join(",")}`);
  if (starting !== undefined) parts.push(` starting ${momentText(starting)}`);
  if (until !== undefined) parts.push(` until ${untilText(until)}`);
  return parts.join("");
}

/** An end at 00:00 is written as the date before. */
export function untilText(until: LocalTime): string {
  return until % DAY_MS === 0 ? dateText(until / DAY_MS - 1) : momentText(until);
}

/** A date without a time is its start, or with `wholeDays` 1 its end. */
function readLimit(reader: Reader, wholeDays: 0 | 1): LocalTime {
  const { date, time } = readDateTime(reader);
  return time === undefined ? (date + wholeDays) * DAY_MS : localTime(date, time);
}
