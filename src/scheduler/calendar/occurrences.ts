/** The calendar's public functions: the next occurrence of a schedule, and a list of them. */

import type { Instant } from "../../core/options/instant.ts";
import { countOf, invalidOption } from "../../core/options/options.ts";
import type { ParsedSchedule } from "../rule.ts";
import { nextInstant } from "./next.ts";
import { type CalendarOptions, instantOf, readCall } from "./options.ts";

/** In the list that one call returns. */
const MAX_OCCURRENCES = 10_000;

/** Where the list ends: exactly one of `count` and `until`. */
export type OccurrencesOptions = CalendarOptions &
  (
    | {
        /** The number of occurrences, 1 to 10,000. */
        readonly count: number;
        readonly until?: undefined;
      }
    | {
        /** The last moment that an occurrence can be at, inclusive. */
        readonly until: Instant;
        readonly count?: undefined;
      }
  );

/** There are more than 10,000 occurrences until `until`. */
export class TooManyOccurrencesError extends RangeError {
  override readonly name = "TooManyOccurrencesError";
  constructor(
    /** The schedule, as text. */
    readonly schedule: string,
    /** The `until` of the call, epoch milliseconds. */
    readonly until: number,
    /** The most that a call returns. */
    readonly limit: number,
    /** The last one that a call may return. */
    readonly reached: number,
  ) {
    super(
      `Invalid until ${new Date(until).toISOString()}: ${JSON.stringify(schedule)} has more than ${limit} occurrences until then. ` +
        `Ask until ${new Date(reached).toISOString()}, then again with that time as \`after\`.`,
    );
  }
}

/**
 * The first occurrence strictly after `after` in epoch milliseconds, or null when there is none before the year 10000.
 *
 * Exact in every IANA zone: a time that clocks skip runs at the first instant after the gap, a time that comes twice runs
 * once, the first time, and a date that the zone skipped has no occurrence.
 *
 * @throws InvalidOptionError for an invalid option
 * @throws ScheduleSyntaxError for an invalid schedule
 *
 * @example nextOccurrence("every weekday at 09:00 in Europe/London", { after: Date.UTC(2027, 2, 26, 12) })
 */
export function nextOccurrence(
  schedule: string | ParsedSchedule,
  options: CalendarOptions = {},
): number | null {
  const call = readCall("nextOccurrence", schedule, options);
  return nextInstant(call.schedule, call.after, call.anchor);
}

/**
 * The occurrences strictly after `after` in epoch milliseconds, ascending: the next `count`, or all `until` a time, that
 * time included. Fewer, or none, where the schedule ends.
 *
 * @throws InvalidOptionError for an invalid option, and for both or neither of `count` and `until`
 * @throws ScheduleSyntaxError for an invalid schedule
 * @throws TooManyOccurrencesError for more than 10,000 until `until`
 */
export function occurrences(
  schedule: string | ParsedSchedule,
  options: OccurrencesOptions = {} as OccurrencesOptions,
): number[] {
  const call = readCall("occurrences", schedule, options, ["count", "until"]);
  const { count, until } = options;
  if (count !== undefined && until !== undefined) {
    throw invalidOption("until", until, "no until beside a count");
  }
  if (until === undefined) {
    if (count === undefined) throw invalidOption("count", count, "a count or an until");
    return instantsOf(call, Infinity, countOf("count", count, MAX_OCCURRENCES));
  }
  const end = instantOf("until", until);
  const found = instantsOf(call, end, MAX_OCCURRENCES + 1);
  if (found.length <= MAX_OCCURRENCES) return found;
  const reached = found[MAX_OCCURRENCES - 1] as number;
  throw new TooManyOccurrencesError(call.schedule.text, end, MAX_OCCURRENCES, reached);
}

function instantsOf(
  { schedule, after, anchor }: ReturnType<typeof readCall>,
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
