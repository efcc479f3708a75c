/** The last occurrence of a stretch of time and their number, against a walk through all of them (S3 counts on both). */

import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { nextInstant } from "../../../src/scheduler/calendar/next.ts";
import { countInstants, latestInstant } from "../../../src/scheduler/calendar/range.ts";
import type { ParsedSchedule } from "../../../src/scheduler/rule.ts";
import { sizeOf } from "../../support/sizes.ts";
import { cron, daily, interval, monthly, once } from "./build-rule.ts";
import { cases } from "./random-rules.ts";

const DAY_MS = 86_400_000;
const seed = sizeOf("SCHEDULE_SEED", 20_261_121);

function walk(schedule: ParsedSchedule, from: number, to: number, anchor: number): number[] {
  const all: number[] = [];
  let at = nextInstant(schedule, from, anchor);
  while (at !== null && at <= to) {
    all.push(at);
    at = nextInstant(schedule, at, anchor);
  }
  return all;
}

describe("the last occurrence and the count of a range", () => {
  it("S2: both equal those of counting one by one, for any schedule and range", () => {
    const length = fc.oneof(fc.integer({ min: 0, max: DAY_MS }), fc.nat({ max: 30 * DAY_MS }));
    const property = fc.property(
      cases(["Europe/London", "Pacific/Apia", "Africa/Cairo"]),
      length,
      fc.integer({ min: 1, max: 50 }),
      ({ schedule, after, anchor = after }, ms, limit) => {
        const all = walk(schedule, after, after + ms, anchor);
        const last = all.at(-1) ?? null;
        expect(latestInstant(schedule, after + ms, after, anchor)).toBe(last);
        const { length } = all;
        expect(countInstants(schedule, after, after + ms, anchor, Number.POSITIVE_INFINITY)).toBe(
          length,
        );
        expect(countInstants(schedule, after, after + ms, anchor, limit)).toBe(
          Math.min(limit, length),
        );
      },
    );
    fc.assert(property, { seed, numRuns: Math.ceil(sizeOf("SCHEDULE_RUNS", 500) / 2.5) });
  });

  it("S2: a range includes its end, and not its start", () => {
    const schedule = daily("09:00", "UTC");
    const first = Date.parse("2027-06-01T09:00Z");
    expect(latestInstant(schedule, first + DAY_MS, first)).toBe(first + DAY_MS);
    expect(latestInstant(schedule, first + DAY_MS - 1, first)).toBeNull();
    expect(latestInstant(schedule, first, first)).toBeNull();
    expect(latestInstant(schedule, first - 5, first)).toBeNull();
    expect(countInstants(schedule, first, first + DAY_MS, undefined, 10)).toBe(1);
    expect(countInstants(schedule, first, first + DAY_MS - 1, undefined, 10)).toBe(0);
  });

  it("S2: an interval without an anchor counts from the start of the range", () => {
    const from = Date.parse("2027-06-01T00:07Z");
    const hourly = interval(3_600_000);
    expect(latestInstant(hourly, from + DAY_MS - 1, from)).toBe(from + 23 * 3_600_000);
    expect(countInstants(hourly, from, from + DAY_MS, undefined, 100)).toBe(24);
  });

  it("S2: the last occurrence of years of minutes is found in few steps", () => {
    const from = Date.parse("2016-06-01T00:00Z");
    const to = Date.parse("2026-06-01T00:00:30Z");
    const each = interval(60_000);
    const floor = vi.spyOn(Math, "floor");
    expect(countInstants(each, from, to, undefined, Number.POSITIVE_INFINITY)).toBe(
      (to - 30_000 - from) / 60_000,
    );
    expect(floor.mock.calls.length).toBeLessThan(100);
    floor.mockClear();
    expect(latestInstant(each, to, from)).toBe(to - 30_000);
    expect(floor.mock.calls.length).toBeLessThan(1_000);
    floor.mockRestore();
  });

  it.each([
    ["yearly", monthly({ day: 1 }, "00:00", "UTC", [1]), "2026-01-01T00:00Z"],
    ["a cron expression", cron("0 0 1 1 *", "UTC"), "2026-01-01T00:00Z"],
    ["long over", once("2017-01-01T09:00", "UTC"), "2017-01-01T09:00Z"],
    ["a burst of each day", daily("00:00 00:01 00:02 00:03", "UTC"), "2026-05-31T00:03Z"],
  ])("S2: the last occurrence of ten years is found: %s", (_, schedule, expected) => {
    const found = latestInstant(
      schedule,
      Date.parse("2026-05-31T20:00Z"),
      Date.parse("2016-06-01T00:00Z"),
    );
    expect(found).toBe(Date.parse(expected));
  });
});
