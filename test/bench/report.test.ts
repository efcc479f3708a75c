/** What a run of `npm run bench` says of its numbers, and when it fails. */

import { describe, expect, it } from "vitest";
import { type Found, failuresOf, jsonOf, markdownOf } from "../../bench/report.ts";
import {
  atMost,
  median,
  quantile,
  type Result,
  shareOf,
  slope,
  timesMore,
  verdictOf,
} from "../../bench/result.ts";

const count = (perdure: number, limit = atMost(6)): Result => ({
  what: "one accepted submission",
  unit: "rows written",
  perdure,
  builtIn: 9.5,
  limit,
});

function found(...results: Result[]): Found[] {
  return [{ measure: "submit-cost", does: "counts", results }];
}

describe("a count", () => {
  it("a count above its limit fails the run, and a count at its limit does not", () => {
    expect(verdictOf(count(6))).toBe("ok");
    expect(verdictOf(count(7))).toBe("FAILED");
    expect(failuresOf(found(count(6), count(7)))).toEqual([
      "  FAILED one accepted submission: 7 rows written, built-in 9.5 (at most 6)",
    ]);
  });

  it("a count with a floor fails above the floor, and is no success between goal and floor", () => {
    const limit = atMost(6, { atMost: 8, why: "Two indexes." });
    expect([6, 8, 9].map((rows) => verdictOf(count(rows, limit)))).toEqual([
      "ok",
      "floor",
      "FAILED",
    ]);
  });

  it("a count that could not be measured fails", () => {
    expect(verdictOf(count(Number.NaN))).toBe("FAILED");
  });
});

describe("a time", () => {
  const rate: Result = { what: "accepted", unit: "a second", perdure: 900, builtIn: 300 };

  it("a time is compared with Think's own implementation, and fails the run only below a floor", () => {
    expect(verdictOf(timesMore(rate, 3))).toBe("ok");
    expect(verdictOf(timesMore(rate, 4))).toBe("missed");
    expect(verdictOf(shareOf({ ...rate, perdure: 180 }, 0.6))).toBe("ok");
    expect(verdictOf(shareOf({ ...rate, perdure: 181 }, 0.6))).toBe("missed");
    expect(failuresOf(found(timesMore(rate, 4)))).toEqual([]);
    expect(verdictOf(timesMore(rate, 4, 2))).toBe("missed");
    expect(verdictOf(timesMore(rate, 4, 3.5))).toBe("FAILED");
  });

  it("a time without a value of Think's own implementation is missed", () => {
    expect(verdictOf(timesMore({ ...rate, builtIn: undefined }, 3))).toBe("missed");
  });
});

it("the report has each number with its goal, and the reason of each floor", () => {
  const run = {
    date: "2026-11-22T00:00:00.000Z",
    commit: "abc1234",
    machine: { cores: 2 },
    versions: { agents: "0.32.0" },
    seconds: 1,
    found: found(count(7, atMost(6, { atMost: 8, why: "Two indexes." })), count(9)),
  };
  const text = markdownOf(run);
  expect(text).toContain(
    "| one accepted submission | rows written | 9.5 | 7 | at most 6; floor 8 | floor |",
  );
  expect(text).toContain("The floor of one accepted submission: Two indexes.");
  expect(text).toContain("| FAILED |");
  const [{ results }] = JSON.parse(jsonOf(run)).found;
  expect(results.map(({ verdict }: { verdict: string }) => verdict)).toEqual(["floor", "FAILED"]);
});

it("median, percentile and slope are computed", () => {
  const hundred = Array.from({ length: 100 }, (_, index) => 100 - index);
  expect(median([3, 1, 2])).toBe(2);
  expect(quantile(hundred, 0.5)).toBe(50);
  expect(quantile(hundred, 0.99)).toBe(99);
  expect(slope(hundred)).toBeCloseTo(-1);
  expect(slope([0, 1, 0, 1, 1, 0, 1, 0])).toBeCloseTo(0);
  expect(median([])).toBeNaN();
});
