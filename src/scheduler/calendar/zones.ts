/** The clock of a time zone: maps instants to local times and back. Luxon knows the offsets. */

import { IANAZone } from "luxon";
import { BoundedCache } from "../../core/bounded-cache.ts";
import { invalidOption } from "../../core/options/options.ts";
import { canonicalZone, ZONE_FORMS } from "../../core/time-zones.ts";
import type { LocalDate, LocalTime } from "../rule.ts";
import { DAY_MS, dateOf, MINUTE_MS } from "./civil.ts";

/** Days around a date whose periods are kept: no clock is further from UTC, or jumps further, than a day and some hours. */
const MARGIN_DAYS = 2;
/** Two changes that cancel each other are at least 6 days apart (1970 to 2100), so none falls between two samples. */
const SAMPLE_DAYS = 3;
/** There are about 600 names. */
const MAX_ZONES = 1_000;
/** Dates of one zone whose periods are kept, about 100 bytes each. A lookup of an offset takes Luxon some microseconds. */
const MAX_DATES = 500;

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

/** A period with one offset. */
type Period = {
  /** The instant at which it begins; -Infinity for the first one. */
  readonly start: number;
  readonly offset: number;
  /** The local time at which it ends, exclusive; Infinity for the last one. */
  readonly wallEnd: number;
  /** The latest local time that an earlier period has reached, exclusive. */
  readonly peak: number;
};

export class ZoneClock {
  readonly zone: IANAZone;
  readonly #periods = new BoundedCache<readonly Period[], LocalDate>(MAX_DATES);

  /** @throws InvalidOptionError for an unknown zone */
  constructor(readonly name: string) {
    const canonical = canonicalZone(name);
    if (canonical === undefined) throw invalidOption("timezone", name, ZONE_FORMS);
    this.zone = IANAZone.create(canonical);
  }

  toLocal(instant: number): LocalTime {
    return instant + this.offsetAt(instant);
  }

  /** Milliseconds that the clock is ahead of UTC. */
  offsetAt(instant: number): number {
    return periodAt(this.#near(instant), instant).offset;
  }

  /** The latest local time that the clock has shown so far: after it went back, later than what it shows. */
  reached(instant: number): LocalTime {
    const { offset, peak } = periodAt(this.#near(instant), instant);
    return Math.max(instant + offset, peak - 1);
  }

  /** The first instant at which the clock shows `local` or later; undefined when the zone skipped the whole date. */
  instantOf(local: LocalTime): number | undefined {
    const period = periodReaching(this.#near(local), local);
    const instant = local - period.offset;
    if (instant >= period.start) return instant;
    return isSkipped(period, dateOf(local)) ? undefined : period.start;
  }

  /** Whether the zone skipped the whole date. */
  skips(date: LocalDate): boolean {
    return this.instantOf(date * DAY_MS) === undefined;
  }

  /** The same as `instantOf()`, with the clock change there. */
  resolve(local: LocalTime): Resolved {
    const periods = this.#near(local);
    const period = periodReaching(periods, local);
    const { start, offset, peak } = period;
    const instant = local - offset;
    if (instant < start) {
      const kind = isSkipped(period, dateOf(local)) ? "skipped-date" : "gap";
      return { kind, instant: start, clock: { from: peak, to: start + offset } };
    }
    for (let at = periods.indexOf(period) + 1; at < periods.length; at++) {
      const later = periods[at] as Period;
      const to = later.start + later.offset;
      const from = (periods[at - 1] as Period).wallEnd;
      if (to <= local && local < from) return { kind: "fold", instant, clock: { from, to } };
    }
    return { kind: "exact", instant };
  }

  /** The periods around a date, ascending. */
  #near(time: number): readonly Period[] {
    const date = dateOf(time);
    return this.#periods.get(date, () => {
      const offsetAt = (instant: number) => this.zone.offset(instant) * MINUTE_MS;
      const from = (date - MARGIN_DAYS) * DAY_MS;
      const to = (date + 1 + MARGIN_DAYS) * DAY_MS;
      return findPeriods(offsetAt, from, to);
    });
  }
}

const clocks = new BoundedCache<ZoneClock>(MAX_ZONES);

/** @throws InvalidOptionError for an unknown zone */
export function clockOf(timezone: string): ZoneClock {
  return clocks.get(timezone, () => new ZoneClock(timezone));
}

function periodAt(periods: readonly Period[], instant: number): Period {
  return periods.findLast(({ start }) => start <= instant) as Period;
}

/** The first period whose clock reaches `local`. */
function periodReaching(periods: readonly Period[], local: LocalTime): Period {
  return periods.find(({ wallEnd }) => local < wallEnd) as Period;
}

/** Whether the gap before a period contains the whole date. */
function isSkipped({ start, offset, peak }: Period, date: LocalDate): boolean {
  return peak <= date * DAY_MS && start + offset >= (date + 1) * DAY_MS;
}

function findPeriods(offsetAt: (instant: number) => number, from: number, to: number): Period[] {
  const periods = [{ start: Number.NEGATIVE_INFINITY, offset: offsetAt(from) }];
  for (let low = from; low < to; low += SAMPLE_DAYS * DAY_MS) {
    const high = Math.min(low + SAMPLE_DAYS * DAY_MS, to);
    const end = offsetAt(high);
    for (let last = periods.at(-1); last?.offset !== end; last = periods.at(-1)) {
      const start = findChange(offsetAt, Math.max(low, last?.start ?? low), high);
      periods.push({ start, offset: offsetAt(start) });
    }
  }
  let peak = Number.NEGATIVE_INFINITY;
  return periods.map(({ start, offset }, at) => {
    const wallEnd = (periods[at + 1]?.start ?? Number.POSITIVE_INFINITY) + offset;
    const period = { start, offset, wallEnd, peak };
    peak = Math.max(peak, wallEnd);
    return period;
  });
}

/** The first instant with another offset than at `low`, to the second. `high` has another offset. */
function findChange(offsetAt: (instant: number) => number, low: number, high: number): number {
  const offset = offsetAt(low);
  let before = low / 1_000;
  let after = high / 1_000;
  while (after - before > 1) {
    const middle = Math.floor((before + after) / 2);
    if (offsetAt(middle * 1_000) === offset) before = middle;
    else after = middle;
  }
  return after * 1_000;
}
