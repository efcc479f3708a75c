/**
 * S2: ours against a second calendar, made with Temporal. `npm run prove:schedule` takes every zone and every change
 * from 1990 to 2060; what runs here is drawn from them, by VITE_PERDURE_SCHEDULE_RUNS and _SEED.
 */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { nextInstant } from "../../../src/scheduler/calendar/next.ts";
import { ZoneClock } from "../../../src/scheduler/calendar/zones.ts";
import { sizeOf } from "../../support/sizes.ts";
import { allTransitions, cases, FROM, TO, ZONES } from "./random-rules.ts";
import { offsetOf, referenceNext, transitionsOf } from "./reference.ts";

const YEAR_MS = 366 * 86_400_000;
const QUARTER_DAY_MS = 21_600_000;
const HOURS = 3_600_000;

const runs = sizeOf("SCHEDULE_RUNS", 500);
const seed = sizeOf("SCHEDULE_SEED", 20_261_121);
const isFull = sizeOf("SCHEDULE_FULL", 0) === 1;
const timeout = isFull ? 24 * HOURS : 120_000;

/** That our clock has the same offsets from `from` to `to`, and changes them at the same instants. */
function compareOffsets(zone: string, from: number, to: number): void {
  const clock = new ZoneClock(zone);
  const changes = transitionsOf(zone, from, to);
  // Only what differs: an assertion for each of a hundred thousand moments would take minutes.
  const wrong: { at: number; expected: number; found: number }[] = [];
  const check = (at: number, expected: number) => {
    const found = clock.offsetAt(at);
    if (found !== expected) wrong.push({ at, expected, found });
  };
  for (const { at, before, after } of changes) {
    check(at - 1, before);
    check(at, after);
  }
  const ends = [...changes.map(({ at }) => at), to];
  let begin = from;
  for (const [at, end] of ends.entries()) {
    const offset = changes[at]?.before ?? changes.at(-1)?.after ?? offsetOf(zone, from);
    for (let between = begin; between < end; between += QUARTER_DAY_MS) check(between, offset);
    begin = end;
  }
  expect({ zone, wrong }).toEqual({ zone, wrong: [] });
}

describe("offsets of zones against Temporal", () => {
  if (isFull) {
    it("S2: offsets equal those of Temporal at every change of every zone from 1990 to 2060", {
      timeout,
    }, () => {
      for (const zone of ZONES) compareOffsets(zone, FROM, TO);
    });
  }

  it("S2: offsets equal those of Temporal for any zone and any three years", { timeout }, () => {
    const start = fc.integer({ min: FROM, max: TO - 3 * YEAR_MS });
    const property = fc.property(fc.constantFrom(...ZONES), start, (zone, from) =>
      compareOffsets(zone, from, from + 3 * YEAR_MS),
    );
    fc.assert(property, { seed, numRuns: Math.ceil(runs / 10) });
  });
});

describe("next occurrences against a calendar made with Temporal", () => {
  const agrees = fc.property(cases(isFull ? ZONES : sample(ZONES, 60)), (one) => {
    const { schedule, after, anchor } = one;
    expect(nextInstant(schedule, after, anchor)).toBe(referenceNext(schedule, after, anchor));
  });

  it("S2: next occurrences equal those of Temporal for any schedule, zone and time", {
    timeout,
  }, () => {
    fc.assert(agrees, { seed, numRuns: runs });
  });

  if (isFull) {
    it("S2: next occurrences equal those of Temporal around every change of every zone", {
      timeout,
    }, () => {
      for (const zone of ZONES) {
        for (const [index, { at }] of allTransitions(zone).entries()) {
          const [one] = fc.sample(cases([zone]), { seed: seed ^ (at / 1_000), numRuns: 1 });
          if (one === undefined) throw new Error("no case");
          const { schedule, anchor } = one;
          const after = at + ([-3 * HOURS, -1, 0, HOURS / 2][index % 4] as number);
          const expected = referenceNext(schedule, after, anchor);
          const found = nextInstant(schedule, after, anchor);
          expect({ one, after, found }).toEqual({ one, after, found: expected });
        }
      }
    });
  }
});

/** Evenly spread, and another one for each seed. */
function sample(all: readonly string[], count: number): string[] {
  const step = Math.floor(all.length / count);
  return all.filter((_, at) => (at + seed) % step === 0);
}
