/** S5: a schedule explains its next occurrences, and what the clock does at them. */

import { describe, expect, it } from "vitest";
import { explainSchedule } from "../../../src/scheduler/calendar/explain.ts";
import type { ParsedSchedule } from "../../../src/scheduler/rule.ts";
import { cron, daily, interval, monthly, once } from "./build-rule.ts";

function explain(schedule: ParsedSchedule, after: string, count: number) {
  return explainSchedule(schedule, { after: new Date(after), count });
}

/** The one that has a note. */
function noted(schedule: ParsedSchedule, after: string) {
  return explain(schedule, after, 3).occurrences.find(({ note }) => note !== undefined);
}

describe("explainSchedule()", () => {
  it("S5: it returns the next ten occurrences in local time with the offset", () => {
    const { occurrences, timezone, omitted } = explainSchedule(daily("02:30", "Europe/Paris"), {
      after: Date.parse("2027-03-26T00:00Z"),
    });
    expect(timezone).toBe("Europe/Paris");
    expect(omitted).toEqual([]);
    expect(occurrences).toHaveLength(10);
    expect(occurrences.slice(0, 4)).toEqual([
      { at: Date.parse("2027-03-26T01:30Z"), local: "2027-03-26T02:30+01:00" },
      { at: Date.parse("2027-03-27T01:30Z"), local: "2027-03-27T02:30+01:00" },
      {
        at: Date.parse("2027-03-28T01:00Z"),
        local: "2027-03-28T03:00+02:00",
        note: "02:30 does not exist on 2027-03-28: clocks go from 02:00 to 03:00; it runs at 03:00",
      },
      { at: Date.parse("2027-03-29T00:30Z"), local: "2027-03-29T02:30+02:00" },
    ]);
  });

  it.each([
    [
      "a fold",
      daily("01:30", "Europe/London"),
      "2026-10-24T12:00Z",
      "2026-10-25T01:30+01:00",
      "01:30 comes twice on 2026-10-25: clocks go back from 02:00 to 01:00; it runs the first time",
    ],
    [
      "a gap, for cron",
      cron("0 2 * * *", "America/New_York"),
      "2027-03-13T12:00Z",
      "2027-03-14T03:00-04:00",
      "02:00 does not exist on 2027-03-14: clocks go from 02:00 to 03:00; it runs at 03:00",
    ],
    [
      "a gap at midnight",
      daily("00:15", "Africa/Cairo"),
      "2024-04-25T12:00Z",
      "2024-04-26T01:00+03:00",
      "00:15 does not exist on 2024-04-26: clocks go from 00:00 to 01:00; it runs at 01:00",
    ],
    [
      "a fold at midnight, with its dates",
      daily("23:30", "Africa/Cairo"),
      "2024-10-31T12:00Z",
      "2024-10-31T23:30+03:00",
      "23:30 comes twice on 2024-10-31: clocks go back from 2024-11-01 00:00 to 2024-10-31 23:00; it runs the first time",
    ],
  ])("S5: a clock change is explained in words: %s", (_, schedule, after, local, note) => {
    expect(noted(schedule, after)).toMatchObject({ local, note });
  });

  it("S5: it explains a skipped date, an exception, and a month without the day", () => {
    expect(explain(daily("09:00", "Pacific/Apia"), "2011-12-29T00:00Z", 2).omitted).toEqual([
      { date: "2011-12-30", reason: "there was no such date in Pacific/Apia" },
    ]);
    const except = { except: ["2027-06-01", "2027-07-09"] };
    expect(explain(daily("09:00", "UTC", except), "2027-05-31T00:00Z", 3).omitted).toEqual([
      { date: "2027-06-01", reason: "it is an exception" },
    ]);
    const on31 = monthly({ day: 31 }, "09:00", "UTC", undefined, { except: ["2027-03-31"] });
    expect(explain(on31, "2027-01-31T12:00Z", 1).omitted).toEqual([
      { date: "2027-02", reason: "february has no day 31" },
      { date: "2027-03-31", reason: "it is an exception" },
      { date: "2027-04", reason: "april has no day 31" },
    ]);
    const fifth = monthly({ nth: 5, weekday: 1 }, "09:00", "UTC", [1, 2, 3]);
    expect(explain(fifth, "2027-01-01T00:00Z", 1).omitted).toEqual([
      { date: "2027-01", reason: "january has no fifth monday" },
      { date: "2027-02", reason: "february has no fifth monday" },
    ]);
  });

  it("S5: it lists at most twenty dates without an occurrence, over any number of years", () => {
    const leap = monthly({ day: 29 }, "09:00", "UTC", [2]);
    const { omitted } = explain(leap, "2000-03-01T00:00Z", 10);
    expect(omitted).toHaveLength(20);
    expect(omitted.at(-1)).toEqual({ date: "2026-02", reason: "february has no day 29" });
  });

  it("S5: it explains why there is no occurrence", () => {
    const skipped = explain(once("2011-12-30T09:00", "Pacific/Apia"), "2011-12-01T00:00Z", 3);
    expect(skipped.occurrences).toEqual([]);
    expect(skipped.omitted).toEqual([
      { date: "2011-12-30", reason: "there was no such date in Pacific/Apia" },
    ]);
    expect(String(skipped)).toContain("no occurrence");
  });

  it("S5: an interval without a zone is in UTC, and an offset with seconds is cut", () => {
    const { timezone, occurrences } = explain(interval(90_500), "2027-01-01T00:00Z", 1);
    expect(timezone).toBe("UTC");
    expect(occurrences[0]?.local).toBe("2027-01-01T00:01:30.500+00:00");
    const old = explain(daily("09:00", "Europe/London"), "1840-01-01T00:00Z", 1);
    expect(old.occurrences[0]?.local).toBe("1840-01-01T09:00-00:01");
  });

  it("S5: the explanation is readable as text", () => {
    const schedule = daily("01:30", "Europe/London", { except: ["2027-03-29"] });
    expect(
      explain({ ...schedule, text: "every day at 01:30" }, "2027-03-27T12:00Z", 2).toString(),
    ).toMatch(
      /^.+\nOn the clock of Europe\/London, and in UTC:\n {2}2027-03-28T02:00\+01:00 {2}2027-03-28T01:00:00.000Z {2}01:30 does not exist .+\n {2}2027-03-30T01:30\+01:00 {2}2027-03-30T00:30:00.000Z\n {2}not on 2027-03-29: it is an exception$/,
    );
  });

  it("S5: invalid options are refused", () => {
    const schedule = daily("09:00", "UTC");
    expect(() => explainSchedule(schedule, { count: 0 })).toThrow(/Invalid count 0/);
    expect(() => explainSchedule(schedule, { count: 1_001 })).toThrow(/Invalid count 1001/);
    expect(() => explainSchedule(schedule, { after: Number.NaN })).toThrow(/Invalid after NaN/);
    expect(() => explainSchedule(schedule, { limit: 3 } as never)).toThrow(
      /Unknown option "limit"/,
    );
  });
});
