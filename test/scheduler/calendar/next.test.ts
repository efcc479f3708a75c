/** S2: named cases of the next occurrence, each with the instants written out. */

import { describe, expect, it } from "vitest";
import { InvalidOptionError } from "../../../src/core/options/options.ts";
import { nextInstant } from "../../../src/scheduler/calendar/next.ts";
import type { ParsedSchedule } from "../../../src/scheduler/rule.ts";
import {
  cron,
  daily,
  everyDays,
  everyWeeks,
  interval,
  monthly,
  once,
  scheduled,
} from "./build-rule.ts";

const HOUR_MS = 3_600_000;

/** The next occurrences after a moment, as `2027-03-28T01:00Z`. */
function next(schedule: ParsedSchedule, after: string, count: number, anchor?: number): string[] {
  const found: string[] = [];
  let at: number | null = Date.parse(after);
  while (found.length < count) {
    at = nextInstant(schedule, at, anchor);
    if (at === null) return [...found, "none"];
    found.push(new Date(at).toISOString().replace(":00.000Z", "Z"));
  }
  return found;
}

describe("S2: an occurrence in a gap is at the first instant after it", () => {
  it.each([
    ["Europe/London", "01:30", "2027-03-27T12:00Z", "2027-03-28T01:00Z"],
    ["America/New_York", "02:30", "2027-03-13T12:00Z", "2027-03-14T07:00Z"],
    ["Australia/Lord_Howe", "02:15", "2027-10-02T12:00Z", "2027-10-02T15:30Z"],
    ["Africa/Casablanca", "02:30", "2022-05-07T12:00Z", "2022-05-08T02:00Z"],
    ["America/Sao_Paulo", "00:30", "2017-10-14T12:00Z", "2017-10-15T03:00Z"],
    ["Africa/Cairo", "00:00", "2024-04-25T12:00Z", "2024-04-25T22:00Z"],
    ["Asia/Beirut", "00:15", "2027-03-27T12:00Z", "2027-03-27T22:00Z"],
  ])("%s at %s", (zone, time, after, expected) => {
    expect(next(daily(time, zone), after, 1)).toEqual([expected]);
  });

  it("S2: all local times of a gap and of its end are one occurrence", () => {
    expect(
      next(daily("00:59 01:00 01:30 01:59 02:00 02:01", "Europe/London"), "2027-03-28T00:00Z", 4),
    ).toEqual(["2027-03-28T00:59Z", "2027-03-28T01:00Z", "2027-03-28T01:01Z", "2027-03-28T23:59Z"]);
  });

  it("S2: the occurrence of the day after a gap is at its own time", () => {
    expect(next(daily("02:30", "America/New_York"), "2027-03-13T00:00Z", 3)).toEqual([
      "2027-03-13T07:30Z",
      "2027-03-14T07:00Z",
      "2027-03-15T06:30Z",
    ]);
  });

  it("S2: a cron expression skips the quarters of a gap", () => {
    expect(next(cron("*/15 * * * *", "Europe/London"), "2027-03-28T00:40Z", 3)).toEqual([
      "2027-03-28T00:45Z",
      "2027-03-28T01:00Z",
      "2027-03-28T01:15Z",
    ]);
    expect(next(cron("30 1 * * *", "Europe/London"), "2027-03-27T12:00Z", 1)).toEqual([
      "2027-03-28T01:00Z",
    ]);
  });

  it("S2: `once` in a gap is at the first instant after it", () => {
    expect(next(once("2027-03-28T01:30", "Europe/London"), "2027-01-01T00:00Z", 2)).toEqual([
      "2027-03-28T01:00Z",
      "none",
    ]);
  });
});

describe("S2: an occurrence in a fold is once, the first time", () => {
  it.each([
    ["Europe/London", "01:30", "2026-10-24T12:00Z", "2026-10-25T00:30Z", "2026-10-26T01:30Z"],
    ["America/New_York", "01:30", "2026-10-31T12:00Z", "2026-11-01T05:30Z", "2026-11-02T06:30Z"],
    ["Australia/Lord_Howe", "01:45", "2027-04-03T12:00Z", "2027-04-03T14:45Z", "2027-04-04T15:15Z"],
    ["Africa/Casablanca", "02:15", "2022-03-26T12:00Z", "2022-03-27T01:15Z", "2022-03-28T02:15Z"],
    ["Africa/Cairo", "23:30", "2024-10-31T00:00Z", "2024-10-31T20:30Z", "2024-11-01T21:30Z"],
  ])("%s at %s", (zone, time, after, first, second) => {
    expect(next(daily(time, zone), after, 2)).toEqual([first, second]);
    // From within the second time that the clock shows the hour.
    const again = new Date(Date.parse(first) + HOUR_MS / 2 + 1).toISOString();
    expect(next(daily(time, zone), again, 1)).toEqual([second]);
  });

  it("S2: a cron expression does not run while the clock repeats an hour", () => {
    expect(next(cron("*/30 * * * *", "Europe/London"), "2026-10-25T00:00Z", 3)).toEqual([
      "2026-10-25T00:30Z",
      "2026-10-25T02:00Z",
      "2026-10-25T02:30Z",
    ]);
  });

  it("S2: an interval counts real time through gaps and folds", () => {
    expect(next(interval(30 * 60_000), "2026-10-25T00:00Z", 4)).toEqual([
      "2026-10-25T00:30Z",
      "2026-10-25T01:00Z",
      "2026-10-25T01:30Z",
      "2026-10-25T02:00Z",
    ]);
  });
});

describe("S2: a date that a zone skipped has no occurrence", () => {
  it.each([
    // 2011-12-30 was none, and it would have been a Friday.
    ["Pacific/Apia", "2011-12-29T00:00Z", "2011-12-29T22:00Z", "2011-12-30T22:00Z"],
    // 1993-08-21
    ["Pacific/Kwajalein", "1993-08-20T12:00Z", "1993-08-21T00:00Z", "1993-08-22T00:00Z"],
    // 1994-12-31
    ["Pacific/Kiritimati", "1994-12-30T00:00Z", "1994-12-30T22:00Z", "1994-12-31T22:00Z"],
  ])("%s", (zone, after, first, second) => {
    expect(next(daily("12:00", zone), after, 2)).toEqual([first, second]);
  });

  it("S2: a skipped date has no occurrence by weekday, cron or date", () => {
    expect(next(everyWeeks(1, [5], "09:00", "Pacific/Apia"), "2011-12-25T00:00Z", 1)).toEqual([
      "2012-01-05T19:00Z",
    ]);
    expect(next(cron("0 9 30 12 *", "Pacific/Apia"), "2011-06-01T00:00Z", 1)).toEqual([
      "2012-12-29T19:00Z",
    ]);
    expect(next(once("2011-12-30T09:00", "Pacific/Apia"), "2011-06-01T00:00Z", 1)).toEqual([
      "none",
    ]);
  });

  it("S2: a window has no occurrence if it begins on a skipped date, or for its part on it", () => {
    const nightly = daily("22:00 23:00 24:00 25:00", "Pacific/Apia");
    expect(next(nightly, "2011-12-30T07:30Z", 6)).toEqual([
      "2011-12-30T08:00Z",
      "2011-12-30T09:00Z",
      "2011-12-31T08:00Z",
      "2011-12-31T09:00Z",
      "2011-12-31T10:00Z",
      "2011-12-31T11:00Z",
    ]);
  });
});

describe("zones without clock changes", () => {
  it.each([
    ["UTC", "2027-03-28T09:00Z"],
    ["Asia/Kolkata", "2027-03-28T03:30Z"],
    ["Asia/Kathmandu", "2027-03-28T03:15Z"],
    ["Etc/GMT+12", "2027-03-28T21:00Z"],
  ])("S2: an occurrence at 09:00 is exact: %s", (zone, expected) => {
    expect(next(daily("09:00", zone), "2027-03-28T00:00Z", 1)).toEqual([expected]);
  });

  it("S2: an unknown zone is refused", () => {
    expect(() => nextInstant(daily("09:00", "Europe/Lundun"), 0)).toThrow(InvalidOptionError);
    expect(() => nextInstant(daily("09:00", "Europe/Lundun"), 0)).toThrow(/Europe\/Lundun/);
  });
});

describe("S2: an occurrence is strictly after the given instant", () => {
  it.each([
    ["at it", "2027-06-01T09:00:00.000Z", "2027-06-02T09:00Z"],
    ["a millisecond before it", "2027-06-01T08:59:59.999Z", "2027-06-01T09:00Z"],
    ["a millisecond after it", "2027-06-01T09:00:00.001Z", "2027-06-02T09:00Z"],
  ])("%s", (_, after, expected) => {
    expect(next(daily("09:00", "UTC"), after, 1)).toEqual([expected]);
    expect(next(cron("0 9 * * *", "UTC"), after, 1)).toEqual([expected]);
  });

  it("S2: an occurrence is strictly after the end of a gap and the first time of a fold", () => {
    expect(next(daily("01:30", "Europe/London"), "2027-03-28T01:00Z", 1)).toEqual([
      "2027-03-29T00:30Z",
    ]);
    expect(next(daily("01:30", "Europe/London"), "2026-10-25T00:30Z", 1)).toEqual([
      "2026-10-26T01:30Z",
    ]);
  });

  it("S2: a cron expression with seconds is strictly after the given instant", () => {
    const every20 = cron("*/20 * * * * *", "UTC");
    const found = next(every20, "2027-06-01T00:00:00.500Z", 3);
    expect(found).toEqual([
      "2027-06-01T00:00:20.000Z",
      "2027-06-01T00:00:40.000Z",
      "2027-06-01T00:01Z",
    ]);
  });

  it.each([
    ["days", daily("00:30 02:30", "America/New_York")],
    ["a window past midnight", daily("23:15 23:45 24:15 24:45 25:15 25:45", "Europe/London")],
    ["months", monthly({ day: 31 }, "02:30", "Africa/Cairo")],
    ["cron", cron("7,37 1,2 * * *", "Europe/London")],
    ["an interval", interval(47 * 60_000)],
  ])("S2: a thousand steps each go forward, and skip no occurrence: %s", (_, schedule) => {
    let at = Date.UTC(2024, 0, 1);
    for (let step = 0; step < 1_000; step++) {
      const found = nextInstant(schedule, at, 0) as number;
      expect(found).toBeGreaterThan(at);
      expect(nextInstant(schedule, found - 1, 0)).toBe(found);
      expect(nextInstant(schedule, at + Math.floor((found - at) / 2), 0)).toBe(found);
      at = found;
    }
  });
});

describe("days of a month", () => {
  it("S2: a month without day 31 has no occurrence on 31", () => {
    expect(next(monthly({ day: 31 }, "08:00", "UTC"), "2027-01-31T08:00Z", 3)).toEqual([
      "2027-03-31T08:00Z",
      "2027-05-31T08:00Z",
      "2027-07-31T08:00Z",
    ]);
  });

  it("S2: the last day is the 28th to the 31st", () => {
    expect(next(monthly({ last: "day" }, "18:00", "UTC"), "2028-01-01T00:00Z", 4)).toEqual([
      "2028-01-31T18:00Z",
      "2028-02-29T18:00Z",
      "2028-03-31T18:00Z",
      "2028-04-30T18:00Z",
    ]);
  });

  it("S2: february 29 comes every four years, and after 2096 in 2104", () => {
    expect(next(monthly({ day: 29 }, "09:00", "UTC", [2]), "2026-01-01T00:00Z", 2)).toEqual([
      "2028-02-29T09:00Z",
      "2032-02-29T09:00Z",
    ]);
    expect(next(monthly({ day: 29 }, "09:00", "UTC", [2]), "2096-02-29T09:00Z", 1)).toEqual([
      "2104-02-29T09:00Z",
    ]);
  });

  it("S2: after an excepted february 29 the next one comes, up to sixteen years later", () => {
    const schedule = monthly({ day: 29 }, "09:00", "UTC", [2], {
      except: ["2092-02-29", "2096-02-29"],
    });
    expect(next(schedule, "2088-03-01T00:00Z", 1)).toEqual(["2104-02-29T09:00Z"]);
  });

  it("S2: a day that no month has never comes", () => {
    expect(next(monthly({ day: 31 }, "09:00", "UTC", [4, 6]), "2026-01-01T00:00Z", 1)).toEqual([
      "none",
    ]);
    expect(next(cron("0 0 30 2 *", "UTC"), "2026-01-01T00:00Z", 1)).toEqual(["none"]);
  });

  it.each([
    ["the first monday", { nth: 1, weekday: 1 }, "2027-02-01 2027-03-01 2027-04-05"],
    ["the fifth monday", { nth: 5, weekday: 1 }, "2027-03-29 2027-05-31 2027-08-30"],
    ["the last friday", { nth: -1, weekday: 5 }, "2027-01-29 2027-02-26 2027-03-26"],
    ["the first working day", { nth: 1, weekday: "working" }, "2027-02-01 2027-03-01 2027-04-01"],
    ["the last working day", { nth: -1, weekday: "working" }, "2027-01-29 2027-02-26 2027-03-31"],
    ["the third working day", { nth: 3, weekday: "working" }, "2027-02-03 2027-03-03 2027-04-05"],
  ] as const)("%s", (_, monthDay, dates) => {
    expect(next(monthly(monthDay, "00:00", "UTC"), "2027-01-20T00:00Z", 3)).toEqual(
      dates.split(" ").map((date) => `${date}T00:00Z`),
    );
  });

  it("S2: of several days the earlier one comes first, and equal ones run once", () => {
    const schedule = scheduled(
      {
        form: "dates",
        dates: {
          by: "months",
          on: [
            { months: [2, 3], day: { day: 28 } },
            { months: [2], day: { last: "day" } },
            { months: [2], day: { day: 1 } },
          ],
        },
        minutes: [0],
      },
      "UTC",
    );
    expect(next(schedule, "2027-01-01T00:00Z", 3)).toEqual([
      "2027-02-01T00:00Z",
      "2027-02-28T00:00Z",
      "2027-03-28T00:00Z",
    ]);
  });
});

describe("steps of days and weeks", () => {
  it("S2: steps of days count from 1970-01-01, or from the date of `starting`", () => {
    expect(next(everyDays(3, "07:00", "UTC"), "1970-01-01T07:00Z", 2)).toEqual([
      "1970-01-04T07:00Z",
      "1970-01-07T07:00Z",
    ]);
    const starting = everyDays(3, "07:00", "UTC", { starting: "2026-01-05" });
    expect(next(starting, "2025-01-01T00:00Z", 2)).toEqual([
      "2026-01-05T07:00Z",
      "2026-01-08T07:00Z",
    ]);
  });

  it("S2: steps of weeks count from Monday 1969-12-29, or from the week of `starting`", () => {
    expect(next(everyWeeks(2, [1, 7], "09:00", "UTC"), "1970-01-01T00:00Z", 3)).toEqual([
      "1970-01-04T09:00Z",
      "1970-01-12T09:00Z",
      "1970-01-18T09:00Z",
    ]);
    const starting = everyWeeks(2, [1, 3], "09:00", "UTC", { starting: "2026-01-07" });
    expect(next(starting, "2025-01-01T00:00Z", 3)).toEqual([
      "2026-01-07T09:00Z",
      "2026-01-19T09:00Z",
      "2026-01-21T09:00Z",
    ]);
  });
});

describe("limits and exceptions", () => {
  it("S2: `starting` is inclusive, `until` is exclusive", () => {
    const schedule = daily("09:00 17:00", "Europe/London", {
      starting: "2027-06-01T17:00",
      until: "2027-06-03T09:00",
    });
    expect(next(schedule, "2020-01-01T00:00Z", 4)).toEqual([
      "2027-06-01T16:00Z",
      "2027-06-02T08:00Z",
      "2027-06-02T16:00Z",
      "none",
    ]);
  });

  it("S2: limits and exceptions apply to cron expressions and `once`", () => {
    const limits = { starting: "2027-06-01", until: "2027-06-02", except: ["2027-06-01"] };
    expect(next(cron("0 9 * * *", "UTC", limits), "2020-01-01T00:00Z", 1)).toEqual(["none"]);
    expect(next(once("2027-06-01T09:00", "UTC", limits), "2020-01-01T00:00Z", 1)).toEqual(["none"]);
    expect(
      next(cron("0 */12 * * *", "UTC", { except: ["2027-06-02"] }), "2027-06-01T12:00Z", 1),
    ).toEqual(["2027-06-03T00:00Z"]);
  });

  it("S2: a schedule whose dates are all excepted has no occurrence", () => {
    const schedule = daily("09:00", "UTC", {
      starting: "2027-06-01",
      until: "2027-06-04",
      except: ["2027-06-01", "2027-06-02", "2027-06-03"],
    });
    expect(next(schedule, "2020-01-01T00:00Z", 1)).toEqual(["none"]);
  });

  it("S2: a window past midnight belongs to the date on which it begins", () => {
    const schedule = daily("22:00 23:00 24:00 25:00", "UTC", { except: ["2027-06-02"] });
    expect(next(schedule, "2027-06-01T22:30Z", 4)).toEqual([
      "2027-06-01T23:00Z",
      "2027-06-02T00:00Z",
      "2027-06-02T01:00Z",
      "2027-06-03T22:00Z",
    ]);
  });

  it("S2: a window past midnight has one occurrence for all times in a gap", () => {
    const schedule = daily("23:30 24:30 25:15 25:45 26:30", "Europe/London");
    expect(next(schedule, "2027-03-27T23:00Z", 5)).toEqual([
      "2027-03-27T23:30Z",
      "2027-03-28T00:30Z",
      "2027-03-28T01:00Z",
      "2027-03-28T01:30Z",
      "2027-03-28T22:30Z",
    ]);
  });

  it("S2: `once` in the past has no next occurrence", () => {
    expect(next(once("2027-06-01T09:00", "UTC"), "2027-06-01T09:00Z", 1)).toEqual(["none"]);
  });

  it("S2: there is no occurrence after the year 9999 or before 1000", () => {
    expect(next(daily("09:00", "UTC"), "9999-12-31T09:00Z", 1)).toEqual(["none"]);
    expect(nextInstant(daily("09:00", "UTC"), Number.POSITIVE_INFINITY)).toBeNull();
    expect(nextInstant(cron("0 9 * * *", "UTC"), 8.64e15)).toBeNull();
    expect(nextInstant(daily("09:00", "UTC"), -8.64e15)).toBe(Date.parse("1000-01-01T09:00Z"));
  });
});

describe("an interval", () => {
  const every20 = 20 * 60_000;

  it("S2: an interval counts from its anchor in both directions, or from `after`", () => {
    const anchor = Date.parse("2027-06-01T00:07Z");
    expect(next(interval(every20), "2027-06-01T01:00Z", 2, anchor)).toEqual([
      "2027-06-01T01:07Z",
      "2027-06-01T01:27Z",
    ]);
    expect(next(interval(every20), "2027-05-31T23:30Z", 2, anchor)).toEqual([
      "2027-05-31T23:47Z",
      "2027-06-01T00:07Z",
    ]);
    expect(next(interval(every20), "2027-06-01T01:01Z", 2)).toEqual([
      "2027-06-01T01:21Z",
      "2027-06-01T01:41Z",
    ]);
  });

  it("S2: an interval's occurrence is strictly after the given instant", () => {
    const anchor = Date.parse("2027-06-01T00:00Z");
    expect(nextInstant(interval(every20), anchor, anchor)).toBe(anchor + every20);
    expect(nextInstant(interval(every20), anchor - 1, anchor)).toBe(anchor);
  });

  it("S2: an interval first occurs at `starting`, whatever its anchor, and not at `until`", () => {
    const schedule = interval(every20, "Europe/London", {
      starting: "2027-06-01T09:10",
      until: "2027-06-01T09:50",
    });
    expect(next(schedule, "2027-01-01T00:00Z", 3, 0)).toEqual([
      "2027-06-01T08:10Z",
      "2027-06-01T08:30Z",
      "none",
    ]);
  });

  it("S2: an interval skips the excepted dates of its zone, and keeps its grid", () => {
    const schedule = interval(7 * HOUR_MS, "Europe/London", {
      starting: "2027-06-01T20:00",
      except: ["2027-06-02", "2027-06-03"],
    });
    expect(next(schedule, "2027-06-01T00:00Z", 2)).toEqual([
      "2027-06-01T19:00Z",
      "2027-06-04T03:00Z",
    ]);
  });

  it("S2: an interval skips an excepted date that the clock enters again", () => {
    // At 24:00 of 2024-10-31 the clock of Cairo goes back to 23:00.
    const schedule = interval(every20, "Africa/Cairo", { except: ["2024-10-31"] });
    expect(next(schedule, "2024-10-31T20:50Z", 1, 0)).toEqual(["2024-10-31T22:00Z"]);
  });
});
