/** `parseSchedule()`: parses a text of the schedule language, or throws an error with the nearest valid text. */

import { InvalidOptionError, invalidOption } from "../../core/options/options.ts";
import { ZONE_FORMS } from "../../core/time-zones.ts";
import type { ParsedSchedule } from "../rule.ts";
import { ScheduleSyntaxError, unreadable } from "./errors.ts";
import { readForm } from "./forms.ts";
import { mismatchOf, nearestTo } from "./nearest.ts";
import { Mismatch, Reader } from "./reader.ts";
import { readSuffixes, suffixText } from "./suffixes.ts";
import { nearestZones, zoneOf } from "./zones.ts";

const MAX_LENGTH = 1_000;
const IN_UTC = " in UTC";
const ZONE_NEEDED =
  "a time zone for its clock times (end it with `in Europe/London`, or set `timezone`, getDefaultTimezone() of an agent, or `defaultTimezone` of a Scheduler)";

export type ParseOptions = {
  /** The time zone of a schedule without `in`: an IANA name, or an offset such as `+02:00`. No default. */
  readonly timezone?: string | undefined;
};

/** Most schedules take less than a kilobyte, one with 1,441 times of day takes twelve. */
const MAX_KEPT = 2_000;
/** By zone, then by text: a key of both would be joined and hashed at each call (245 ns instead of 70). */
const kept = new Map<string, Map<string, ParsedSchedule>>();
let keptCount = 0;

/**
 * Parses a schedule to data, deeply frozen. The same text and zone give the same object, until 2,000 others were parsed.
 *
 * Words may be in any case, with any white space between them. A zone in the text (`in Europe/London`) wins over `timezone`.
 *
 * @throws ScheduleSyntaxError for an invalid schedule, or one of clock times without a time zone
 * @throws InvalidOptionError for an invalid `timezone`
 */
export function parseSchedule(text: string, options: ParseOptions = {}): ParsedSchedule {
  if (typeof text !== "string") {
    throw unreadable(text, 'a string such as "every day at 09:00 in Europe/London"');
  }
  if (text.length > MAX_LENGTH) {
    throw unreadable(text, `at most ${MAX_LENGTH} characters (there are ${text.length})`);
  }
  const timezone = options.timezone === undefined ? undefined : readZone(options.timezone);
  const known = kept.get(timezone ?? "")?.get(text);
  if (known) return known;
  const schedule = parsed(text, timezone);
  // To find the oldest entry among several zones would take longer.
  if (keptCount === MAX_KEPT) {
    kept.clear();
    keptCount = 0;
  }
  const ofZone = kept.get(timezone ?? "") ?? new Map<string, ParsedSchedule>();
  kept.set(timezone ?? "", ofZone.set(text, schedule));
  keptCount += 1;
  return schedule;
}

function parsed(text: string, timezone: string | undefined): ParsedSchedule {
  try {
    return readSchedule(text, timezone);
  } catch (error) {
    if (!(error instanceof Mismatch)) throw error;
    throw new ScheduleSyntaxError(text, error.expected, {
      position: error.tokens[error.index]?.start ?? text.length,
      nearest: nearest(text, timezone),
    });
  }
}

/** A missing zone is added last, so that it does not count as a difference. */
function nearest(text: string, timezone: string | undefined): string | undefined {
  const room = timezone === undefined ? IN_UTC.length : 0;
  const found = nearestTo(text, MAX_LENGTH - room, (attempt) =>
    readSchedule(attempt, timezone ?? "UTC"),
  );
  if (found === undefined) return undefined;
  const mismatch = mismatchOf(found, (attempt) => readSchedule(attempt, timezone));
  return mismatch === undefined ? found : found + IN_UTC;
}

/** @throws Mismatch */
function readSchedule(source: string, defaultZone: string | undefined): ParsedSchedule {
  const reader = new Reader(source);
  const { rule, text: form } = readForm(reader);
  const suffixes = readSuffixes(reader);
  const text = `${form}${suffixText(suffixes)}`;
  const { starting, until, except } = suffixes;
  const hasDates = starting !== undefined || until !== undefined || except.length > 0;
  const kind = rule.form === "interval" ? "interval" : "wall-clock";
  const needsZone = kind === "wall-clock" || hasDates;
  const timezone = needsZone ? (suffixes.timezone ?? defaultZone) : undefined;
  if (needsZone && timezone === undefined) {
    reader.refuse(reader.index, ZONE_NEEDED, () => [IN_UTC.trim()]);
  }
  return deepFreeze({ text, kind, timezone, rule, starting, until, except });
}

/** The name of a zone in its usual spelling. @throws InvalidOptionError for an unknown zone */
export function readZone(timezone: unknown, option = "timezone"): string {
  const zone = typeof timezone === "string" ? zoneOf(timezone) : undefined;
  if (zone !== undefined) return zone;
  const [nearest] = typeof timezone === "string" ? nearestZones(timezone) : [];
  const meant = nearest === undefined ? "" : ` Did you mean ${JSON.stringify(nearest)}?`;
  const { message } = invalidOption(option, timezone, ZONE_FORMS);
  throw new InvalidOptionError(option, `${message}${meant}`);
}

function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const part of Object.values(value)) deepFreeze(part);
  }
  return value;
}
