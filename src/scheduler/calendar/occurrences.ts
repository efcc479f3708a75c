/** The calendar's public functions: the next occurrence of a schedule, and all of a stretch of time. */

import type { Instant } from "../../core/instant.ts";
import { countOf, invalidOption } from "../../core/options.ts";
import type { ParsedSchedule } from "../rule.ts";
import { nextInstant } from "./next.ts";
import { type CalendarOptions, instantOf, readOptions, scheduleOf } from "./options.ts";

/** Of one call: a list is held in memory. */
const MAX_OCCURRENCES = 10_000;

/** How far `occurrences()` goes: exactly one of the two. */
export type OccurrencesOptions = CalendarOptions &
  (
    | {
        /** How many at most, 1 to 10,000. */
        readonly count: number;
        readonly until?: undefined;
      }
    | {
        /** The last moment that an occurrence can be at, inclusive. */
        readonly until: Instant;
        readonly count?: undefined;
      }
  );

/** There are more than 10,000 occurrences until the end that was asked for. */
export class TooManyOccurrencesError extends RangeError {
  override readonly name = "TooManyOccurrencesError";
  constructor(
    /** The schedule, as text. */
    readonly schedule: string,
    /** The end that was asked for, epoch milliseconds. */
    readonly until: number,
    /** How many a call returns at most. */
    readonly limit: number,
    /** The last one that a call may return. */
    readonly reached: number,
  ) {
    super(
      `${JSON.stringify(schedule)} has more than ${limit} occurrences until ${new Date(until).toISOString()}; ask until ` +
        `${new Date(reached).toISOString()} at most, and from there again with it as \`after\`.`,
    );
  }
}

/**
 * The first occurrence strictly after `after`, or null when there is none, or
 * none before the year 10000. In epoch milliseconds.
 *
 * Exact in every IANA zone (S2): in a gap, at the first instant after it; in a
 * fold, once, the first; a date that a zone skipped whole has none.
 *
 * @throws InvalidOptionError for an option that cannot be meant
 * @throws ScheduleSyntaxError for a text that is no schedule
 *
 * @example nextOccurrence("every weekday at 09:00 in Europe/London", { after: Date.UTC(2027, 2, 26, 12) })
 */
export function nextOccurrence(
  schedule: string | ParsedSchedule,
  options: CalendarOptions = {},
): number | null {
  const { after, timezone, anchor } = readOptions("nextOccurrence", options, Date.now);
  return nextInstant(scheduleOf(schedule, timezone), after, anchor);
}

/**
 * The occurrences strictly after `after` in epoch milliseconds, in order (S2): the next `count`, or
 * all `until` a moment, that moment included. Fewer, or none, where the
 * schedule ends.
 *
 * @throws InvalidOptionError for an option that cannot be meant, and for both or neither of `count` and `until`
 * @throws ScheduleSyntaxError for a text that is no schedule
 * @throws TooManyOccurrencesError for more than 10,000 until `until`
 */
export function occurrences(
  schedule: string | ParsedSchedule,
  options: OccurrencesOptions = {} as OccurrencesOptions,
): number[] {
  const { after, timezone, anchor } = readOptions("occurrences", options, Date.now, [
    "count",
    "until",
  ]);
  const parsed = scheduleOf(schedule, timezone);
  const { count, until } = options;
  if (count !== undefined && until !== undefined) {
    throw invalidOption("until", until, "it left out where there is a count");
  }
  if (until === undefined) {
    if (count === undefined) throw invalidOption("count", count, "a count, or an until");
    const most = countOf("count", count, MAX_OCCURRENCES);
    return instantsOf(parsed, after, anchor, Number.POSITIVE_INFINITY, most);
  }
  const end = instantOf("until", until);
  const found = instantsOf(parsed, after, anchor, end, MAX_OCCURRENCES + 1);
  if (found.length <= MAX_OCCURRENCES) return found;
  const reached = found[MAX_OCCURRENCES - 1] as number;
  throw new TooManyOccurrencesError(parsed.text, end, MAX_OCCURRENCES, reached);
}

function instantsOf(
  schedule: ParsedSchedule,
  after: number,
  anchor: number | undefined,
  end: number,
  most: number,
): number[] {
  const instants: number[] = [];
  let at = nextInstant(schedule, after, anchor);
  while (at !== null && at <= end && instants.length < most) {
    instants.push(at);
    at = nextInstant(schedule, at, anchor);
  }
  return instants;
}
