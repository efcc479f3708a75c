/** The clock of a time zone: maps instants to local times and back. Offsets are kept for spans of about a year. */

import { BoundedCache } from "../../core/bounded-cache.ts";
import { invalidOption } from "../../core/options/options.ts";
import { canonicalZone, offsetsOf, ZONE_FORMS } from "../../core/zone-offsets.ts";
import type { LocalDate, LocalTime } from "../rule.ts";
import { DAY_MS, dateOf } from "./civil.ts";

/** A span of kept offsets: a Julian year, which is a whole number of seconds. */
const SPAN_MS = 365.25 * DAY_MS;
/** Added on both sides of a span: no clock is further from UTC, or jumps further, than a day and some hours. */
const MARGIN_MS = 2 * DAY_MS;
/** Two changes that cancel each other are at least 6 days apart (1970 to 2100), so none falls between two samples. */
const SAMPLE_MS = 3 * DAY_MS;
/** There are about 600 names. */
const MAX_ZONES = 1_000;
/** Of one zone, less than 700 bytes each. 1990 to 2060 fit in. */
const MAX_SPANS = 128;

/** The instant at which the clock first shows a local time, or the first time after it. */
export type Resolved =
  | { readonly kind: "exact"; readonly instant: number }
  | {
      /** The clock shows it twice, skips it (`instant` is that of the change), or skips the whole date. */
      readonly kind: "fold" | "gap" | "skipped-date";
      readonly instant: number;
      readonly clock: ClockChange;
    };

/** The local times just before and just after a change. */
type ClockChange = { readonly from: LocalTime; readonly to: LocalTime };

/** Periods of one offset each, ascending; all lists have the same length. */
type Span = {
  /** The instants at which they begin; the first is -Infinity. */
  readonly starts: readonly number[];
  readonly offsets: readonly number[];
  /** The local time at which each ends, exclusive; the last is Infinity. */
  readonly wallEnds: readonly number[];
  /** The greatest of the earlier `wallEnds`. */
  readonly peaks: readonly number[];
};

export class ZoneClock {
  readonly #offsetOf: (instant: number) => number;
  readonly #spans = new BoundedCache<Span, number>(MAX_SPANS);
  #recent: Span | undefined;
  #recentIndex = Number.NaN;

  /** @throws InvalidOptionError for an unknown zone */
  constructor(readonly name: string) {
    if (canonicalZone(name) === undefined) throw invalidOption("timezone", name, ZONE_FORMS);
    this.#offsetOf = offsetsOf(name);
  }

  toLocal(instant: number): LocalTime {
    return instant + this.offsetAt(instant);
  }

  /** Milliseconds that the clock is ahead of UTC. */
  offsetAt(instant: number): number {
    const span = this.#spanAt(instant);
    return span.offsets[indexAt(span, instant)] as number;
  }

  /** The latest local time that the clock has shown so far: after it went back, later than what it shows. */
  reached(instant: number): LocalTime {
    const span = this.#spanAt(instant);
    const at = indexAt(span, instant);
    const shown = instant + (span.offsets[at] as number);
    const before = (span.peaks[at] as number) - 1;
    return Math.max(shown, before);
  }

  /** The first instant at which the clock shows `local` or later; undefined when the zone skipped the whole date. */
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

  /** The same as `instantOf()`, with the clock change there. */
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

/** @throws InvalidOptionError for an unknown zone */
export function clockOf(timezone: string): ZoneClock {
  return clocks.get(timezone, () => new ZoneClock(timezone));
}

function indexAt({ starts }: Span, instant: number): number {
  let at = starts.length - 1;
  while ((starts[at] as number) > instant) at--;
  return at;
}

/** The first period whose clock reaches `local`. */
function indexReaching({ wallEnds }: Span, local: LocalTime): number {
  let at = 0;
  while ((wallEnds[at] as number) <= local) at++;
  return at;
}

/** Whether the gap before period `at` contains the whole date. */
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

/** The first instant with another offset than at `low`, to the second. `high` has another offset. */
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
