/** S2, S5: what the public functions take, give and refuse. */

import { afterEach, describe, expect, it, vi } from "vitest";
import { InvalidOptionError } from "../../../src/core/options/options.ts";
import { explainSchedule } from "../../../src/scheduler/calendar/explain.ts";
import {
  nextOccurrence,
  type OccurrencesOptions,
  occurrences,
  TooManyOccurrencesError,
} from "../../../src/scheduler/calendar/occurrences.ts";
import { ScheduleSyntaxError } from "../../../src/scheduler/language/errors.ts";
import { daily, interval, once } from "./build-rule.ts";

const NINE = daily("09:00", "Europe/London");
const AFTER = Date.parse("2027-03-26T12:00Z");

describe("S2: a schedule that is neither a text nor parsed is refused", () => {
  it.each([
    [{}],
    [[]],
    [new Date()],
    [null],
    [5],
    [{ rule: {}, except: [] }],
    [{ rule: { form: "x" }, except: [] }],
  ])("%j", (schedule) => {
    for (const call of [nextOccurrence, explainSchedule]) {
      const refused = () => call(schedule as never, { after: AFTER });
      expect(refused).toThrow(ScheduleSyntaxError);
      expect(refused).toThrow(/^Invalid schedule ".*": expected a string such as/);
    }
  });

  it("a copy of a parsed one is as good", () => {
    expect(nextOccurrence(structuredClone(NINE), { after: AFTER })).toBe(
      nextOccurrence(NINE, { after: AFTER }),
    );
  });
});

describe("nextOccurrence()", () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  it("S2: it takes a Date, a text or milliseconds, and returns milliseconds", () => {
    const expected = Date.parse("2027-03-27T09:00Z");
    expect(nextOccurrence(NINE, { after: AFTER })).toEqual(expected);
    expect(nextOccurrence(NINE, { after: new Date(AFTER) })).toEqual(expected);
    expect(nextOccurrence(NINE, { after: "2027-03-26T13:00+01:00" })).toEqual(expected);
  });

  it("S2: it is after now by default", () => {
    vi.useFakeTimers({ now: AFTER });
    expect(nextOccurrence(NINE)).toBe(Date.parse("2027-03-27T09:00Z"));
    expect(nextOccurrence(NINE, {})).toBe(Date.parse("2027-03-27T09:00Z"));
  });

  it("S2: it is null when there is no occurrence", () => {
    expect(nextOccurrence(once("2027-01-01T09:00", "UTC"), { after: AFTER })).toBeNull();
  });

  it("S2: each occurrence leads to a later one, also from fractions of milliseconds", () => {
    const anchor = AFTER + 0.5;
    const first = nextOccurrence(interval(60_000), { after: AFTER - 0.1, anchor }) ?? 0;
    expect(first).toBe(AFTER);
    const second = nextOccurrence(interval(60_000), { after: first, anchor });
    expect(second).toBe(AFTER + 60_000);
  });

  it("S2: it counts an interval from its anchor", () => {
    const anchor = AFTER + 5_000;
    expect(nextOccurrence(interval(60_000), { after: AFTER, anchor })).toEqual(anchor);
  });

  it.each([
    ["after", { after: new Date(Number.NaN) }, /Invalid after Invalid Date/],
    ["after", { after: Number.NaN }, /Invalid after NaN/],
    ["after", { after: "2027-01-01" as never }, /Invalid after "2027-01-01"/],
    ["after", { after: 8.64e15 }, /years 1000 to 9999/],
    ["anchor", { anchor: Number.POSITIVE_INFINITY }, /Invalid anchor Infinity/],
    ["timezone", { timezone: 5 as never }, /Invalid timezone 5/],
    ["from", { from: 5 } as never, /Unknown option "from".*after, timezone, anchor/],
    ["nextOccurrence", "now" as never, /Invalid nextOccurrence "now"/],
  ])("S2: an invalid %s is refused: %j", (option, options, message) => {
    expect(() => nextOccurrence(NINE, options)).toThrow(InvalidOptionError);
    expect(() => nextOccurrence(NINE, options)).toThrow(expect.objectContaining({ option }));
    expect(() => nextOccurrence(NINE, options)).toThrow(message);
  });
});

describe("occurrences()", () => {
  const three = ["2027-03-27T09:00Z", "2027-03-28T08:00Z", "2027-03-29T08:00Z"].map((text) =>
    Date.parse(text),
  );

  it("S2: it returns a number of occurrences, or all until a time, that time included", () => {
    expect(occurrences(NINE, { after: AFTER, count: 3 })).toEqual(three);
    expect(occurrences(NINE, { after: AFTER, until: three[2] ?? 0 })).toEqual(three);
    expect(occurrences(NINE, { after: AFTER, until: Number(three[2]) - 1 })).toHaveLength(2);
    expect(occurrences(NINE, { after: AFTER, until: AFTER })).toEqual([]);
  });

  it("S2: its type takes either count or until", () => {
    // @ts-expect-error neither of them
    const neither: OccurrencesOptions = { after: AFTER };
    // @ts-expect-error both of them
    const both: OccurrencesOptions = { count: 1, until: AFTER };
    expect(() => occurrences(NINE, neither)).toThrow(InvalidOptionError);
    expect(() => occurrences(NINE, both)).toThrow(InvalidOptionError);
  });

  it("S2: it returns fewer when the schedule ends", () => {
    const schedule = daily("09:00", "UTC", { until: "2027-03-28" });
    expect(occurrences(schedule, { after: AFTER, count: 10_000 })).toHaveLength(1);
  });

  it("S2: more than 10,000 are refused, with the time up to which a call may ask", () => {
    const minutely = interval(60_000);
    const last = AFTER + 10_000 * 60_000;
    expect(occurrences(minutely, { after: AFTER, until: last })).toHaveLength(10_000);
    const more = () => occurrences(minutely, { after: AFTER, until: last + 60_000 });
    expect(more).toThrow(TooManyOccurrencesError);
    expect(more).toThrow(
      expect.objectContaining({
        name: "TooManyOccurrencesError",
        schedule: minutely.text,
        limit: 10_000,
        until: last + 60_000,
        reached: last,
      }),
    );
    expect(more).toThrow(new Date(last).toISOString());
  });

  it.each([
    ["count", { count: 0 }, /Invalid count 0: expected a whole number from 1 to 10000/],
    ["count", { count: 10_001 }, /Invalid count 10001/],
    ["count", { count: Number.POSITIVE_INFINITY }, /Invalid count Infinity/],
    ["count", { count: 1.5 }, /Invalid count 1.5/],
    ["count", {}, /Invalid count undefined: expected a count or an until/],
    ["until", { count: 1, until: 5 }, /Invalid until 5: expected no until beside a count/],
    ["until", { until: Number.NaN }, /Invalid until NaN/],
    ["limit", { limit: 1, count: 1 }, /Unknown option "limit"/],
  ])("S2: an invalid %s is refused: %j", (option, options, message) => {
    const call = () => occurrences(NINE, { after: AFTER, ...options } as OccurrencesOptions);
    expect(call).toThrow(InvalidOptionError);
    expect(call).toThrow(expect.objectContaining({ option }));
    expect(call).toThrow(message);
  });
});
