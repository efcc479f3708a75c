/**
 * The clock on a zone's wall: which local time it shows at an instant, and at which instant it shows a local time
 * (S2). Offsets are Luxon's; they are looked up once for each stretch of about a year, and kept.
 */

import { invalidOption } from "../../core/options.ts";
import { ZONE_FORMS } from "../language/zones.ts";
import type { LocalDate, LocalTime } from "../rule.ts";
import { BoundedCache } from "./bounded-cache.ts";
import { DAY_MS, dateOf } from "./civil.ts";
import { canonicalZone, offsetsOf } from "./offsets.ts";

/** What is kept for one zone at a time: a Julian year, which is a whole number of seconds. */
const SPAN_MS = 365.25 * DAY_MS;
/** Seen on both sides of a span. No clock is further from UTC, or jumps further, than a day and some hours. */
const MARGIN_MS = 2 * DAY_MS;
/**
 * The shortest time between two changes that cancel each other is just under 7 days (from 1970 to 2100: Recife in
 * 2000, Gaza in 2040), so that none falls between two samples.
 */
const SAMPLE_MS = 3 * DAY_MS;
/** There are about 600 names. */
const MAX_ZONES = 1_000;
/** Of one zone, in less than 700 bytes each: 1990 to 2060 are to fit, so that a pass through them all is as fast as one year. */
const MAX_SPANS = 128;

/** How a local time is met. `instant` is when the clock first shows it, or what comes after it. */
export type Resolved =
  | { readonly kind: "exact"; readonly instant: number }
  /** The clock shows it twice. */
  | { readonly kind: "fold"; readonly instant: number; readonly clock: ClockChange }
  /** The clock goes past it; `instant` is that of the change. */
  | { readonly kind: "gap"; readonly instant: number; readonly clock: ClockChange }
  /** The clock goes past the whole date. */
  | { readonly kind: "skipped-date"; readonly instant: number; readonly clock: ClockChange };

/** What a clock shows where it is changed, just before and just after. */
type ClockChange = { readonly from: LocalTime; readonly to: LocalTime };

/** Times of one offset, ascending, all lists of the same length. */
type Span = {
  /** The instants at which they begin; the first is -Infinity. */
  readonly starts: readonly number[];
  readonly offsets: readonly number[];
  /** The local time at which each ends, exclusive; the last is Infinity. */
  readonly wallEnds: readonly number[];
  /** The greatest of the earlier `wallEnds`: what the clock had reached before. */
  readonly peaks: readonly number[];
};

export class ZoneClock {
  readonly #offsetOf: (instant: number) => number;
  readonly #spans = new BoundedCache<Span, number>(MAX_SPANS);
  #recent: Span | undefined;
  #recentIndex = Number.NaN;

  /** @throws InvalidOptionError when there is no such zone */
  constructor(readonly name: string) {
    if (canonicalZone(name) === undefined) {
      throw invalidOption("timezone", name, ZONE_FORMS);
    }
    this.#offsetOf = offsetsOf(name);
  }

  /** What the clock shows. */
  toLocal(instant: number): LocalTime {
    return instant + this.offsetAt(instant);
  }

  /** Milliseconds that the clock is ahead of UTC. */
  offsetAt(instant: number): number {
    const span = this.#spanAt(instant);
    return span.offsets[indexAt(span, instant)] as number;
  }

  /**
   * The latest local time that the clock has shown until then. It is the time
   * that it shows, but after it went back: what it shows again has been before.
   */
  reached(instant: number): LocalTime {
    const span = this.#spanAt(instant);
    const at = indexAt(span, instant);
    const shown = instant + (span.offsets[at] as number);
    const before = (span.peaks[at] as number) - 1;
    return Math.max(shown, before);
  }

  /**
   * The first instant at which the clock shows `local` or a later time: in a gap
   * its end, in a fold the first of the two (S2). Undefined when the zone
   * skipped the whole date.
   */
  instantOf(local: LocalTime): number | undefined {
    const span = this.#spanAt(local);
    const at = indexReaching(span, local);
    const start = span.starts[at] as number;
    const instant = local - (span.offsets[at] as number);
    if (instant >= start) return instant;
    return isDateSkipped(span, at, dateOf(local)) ? undefined : start;
  }

  /** Whether the zone skipped the whole date. */
  skips(date: LocalDate): boolean {
    return this.instantOf(date * DAY_MS) === undefined;
  }

  /** The same as `instantOf()`, with what the clock does there. */
  resolve(local: LocalTime): Resolved {
    const span = this.#spanAt(local);
    const at = indexReaching(span, local);
    const start = span.starts[at] as number;
    const offset = span.offsets[at] as number;
    const instant = local - offset;
    if (instant < start) {
      const clock = { from: span.peaks[at] as number, to: start + offset };
      const kind = isDateSkipped(span, at, dateOf(local)) ? "skipped-date" : "gap";
      return { kind, instant: start, clock };
    }
    for (let later = at + 1; later < span.starts.length; later++) {
      const to = (span.starts[later] as number) + (span.offsets[later] as number);
      const from = span.wallEnds[later - 1] as number;
      if (to <= local && local < from) return { kind: "fold", instant, clock: { from, to } };
    }
    return { kind: "exact", instant };
  }

  #spanAt(instant: number): Span {
    const index = Math.floor(instant / SPAN_MS);
    if (index === this.#recentIndex && this.#recent !== undefined) return this.#recent;
    this.#recent = this.#spans.get(index, () =>
      spanOf(this.#offsetOf, index * SPAN_MS - MARGIN_MS, (index + 1) * SPAN_MS + MARGIN_MS),
    );
    this.#recentIndex = index;
    return this.#recent;
  }
}

const clocks = new BoundedCache<ZoneClock>(MAX_ZONES);

/**
 * The clock of a zone, the same one for each call.
 *
 * @throws InvalidOptionError when there is no such zone
 */
export function clockOf(timezone: string): ZoneClock {
  return clocks.get(timezone, () => new ZoneClock(timezone));
}

function indexAt({ starts }: Span, instant: number): number {
  let at = starts.length - 1;
  while ((starts[at] as number) > instant) at--;
  return at;
}

/** The first stretch whose clock gets to `local`. */
function indexReaching({ wallEnds }: Span, local: LocalTime): number {
  let at = 0;
  while ((wallEnds[at] as number) <= local) at++;
  return at;
}

/** Whether the gap before stretch `at` holds the date from its first to its last moment. */
function isDateSkipped(span: Span, at: number, date: LocalDate): boolean {
  const to = (span.starts[at] as number) + (span.offsets[at] as number);
  return (span.peaks[at] as number) <= date * DAY_MS && to >= (date + 1) * DAY_MS;
}

function spanOf(offsetOf: (instant: number) => number, from: number, to: number): Span {
  const starts = [Number.NEGATIVE_INFINITY];
  const offsets = [offsetOf(from)];
  for (let low = from; low < to; low += SAMPLE_MS) {
    const high = Math.min(low + SAMPLE_MS, to);
    const last = offsetOf(high);
    while (offsets.at(-1) !== last) {
      const start = changeIn(offsetOf, Math.max(low, starts.at(-1) as number), high);
      starts.push(start);
      offsets.push(offsetOf(start));
    }
  }
  const ends = [...starts.slice(1), Number.POSITIVE_INFINITY];
  const wallEnds = ends.map((end, at) => end + (offsets[at] as number));
  const peaks: number[] = [];
  let peak = Number.NEGATIVE_INFINITY;
  for (const wallEnd of wallEnds) {
    peaks.push(peak);
    peak = Math.max(peak, wallEnd);
  }
  return { starts, offsets, wallEnds, peaks };
}

/** The first instant of another offset than that at `low`, to the second, where `high` has another. */
function changeIn(offsetOf: (instant: number) => number, low: number, high: number): number {
  const offset = offsetOf(low);
  let before = low / 1_000;
  let after = high / 1_000;
  while (after - before > 1) {
    const middle = Math.floor((before + after) / 2);
    if (offsetOf(middle * 1_000) === offset) before = middle;
    else after = middle;
  }
  return after * 1_000;
}
