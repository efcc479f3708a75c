/** S2: what a zone's clock does at a local time, and how often it is looked up. */

import { Cron } from "croner";
import { afterEach, describe, expect, it, vi } from "vitest";
import { InvalidOptionError } from "../../../src/core/options/options.ts";
import { nextInstant } from "../../../src/scheduler/calendar/next.ts";
import { clockOf, ZoneClock } from "../../../src/scheduler/calendar/zones.ts";
import { cron, daily, everyWeeks, interval, local, monthly } from "./build-rule.ts";

const text = (time: number) => new Date(time).toISOString().slice(0, 16);

describe("local times and clock changes", () => {
  it.each([
    ["Europe/London", "2027-03-28T01:30", "gap", "2027-03-28T01:00", "01:00", "02:00"],
    ["Europe/London", "2026-10-25T01:30", "fold", "2026-10-25T00:30", "02:00", "01:00"],
    ["America/New_York", "2027-03-14T02:30", "gap", "2027-03-14T07:00", "02:00", "03:00"],
    ["Australia/Lord_Howe", "2027-04-04T01:45", "fold", "2027-04-03T14:45", "02:00", "01:30"],
    ["Africa/Cairo", "2024-04-26T00:30", "gap", "2024-04-25T22:00", "00:00", "01:00"],
    ["Africa/Cairo", "2024-10-31T23:30", "fold", "2024-10-31T20:30", "00:00", "23:00"],
    ["Pacific/Apia", "2011-12-30T12:00", "skipped-date", "2011-12-30T10:00", "00:00", "00:00"],
    ["Pacific/Kwajalein", "1993-08-21T00:00", "skipped-date", "1993-08-21T12:00", "00:00", "00:00"],
    ["Pacific/Kwajalein", "1969-09-30T12:00", "fold", "1969-09-30T01:00", "00:00", "01:00"],
  ])("S2: %s at %s is a %s", (zone, time, kind, instant, from, to) => {
    const met = clockOf(zone).resolve(local(time));
    expect(met).toMatchObject({ kind });
    expect(text(met.instant)).toBe(instant);
    if (met.kind === "exact") throw new Error("no change");
    expect([met.clock.from, met.clock.to].map((side) => text(side).slice(11))).toEqual([from, to]);
  });

  it.each(["2027-03-28T00:59", "2027-03-28T02:00", "2026-10-25T00:59", "2026-10-25T02:00"])(
    "S2: a local time just outside of a gap or a fold is exact: %s",
    (time) => {
      const clock = clockOf("Europe/London");
      const met = clock.resolve(local(time));
      expect(met.kind).toBe("exact");
      expect(clock.toLocal(met.instant)).toBe(local(time));
    },
  );

  it("S2: a clock that went back has reached the times that it shows again", () => {
    const clock = clockOf("Europe/London");
    const back = Date.parse("2026-10-25T01:00Z");
    expect(text(clock.toLocal(back))).toBe("2026-10-25T01:00");
    expect(clock.reached(back)).toBe(local("2026-10-25T02:00") - 1);
    expect(clock.reached(back + 3_600_000)).toBe(local("2026-10-25T02:00"));
    expect(clock.reached(back - 1)).toBe(local("2026-10-25T02:00") - 1);
  });

  it.each([
    ["America/Recife", "2000-10-08T03:00Z", "2000-10-15T02:00Z"],
    ["Asia/Gaza", "2040-10-20T00:00Z", "2040-10-26T23:00Z"],
  ])(
    "S2: two changes within a week that cancel each other are found: %s",
    (zone, first, second) => {
      const clock = clockOf(zone);
      const offsets = [first, second].flatMap((text) => {
        const at = Date.parse(text);
        return [clock.offsetAt(at - 1), clock.offsetAt(at)];
      });
      expect(new Set(offsets).size).toBe(2);
      expect(offsets[1]).toBe(offsets[2]);
      expect(offsets[0]).toBe(offsets[3]);
      expect(offsets[0]).not.toBe(offsets[1]);
    },
  );

  it("S2: offsets may have seconds, before standard time", () => {
    expect(clockOf("Europe/London").offsetAt(Date.UTC(1840, 0, 1))).toBe(-75_000);
    // Less than an hour behind: there is no hour to carry the sign.
    expect(clockOf("Africa/Monrovia").offsetAt(Date.UTC(1971, 5, 1))).toBe(-(44 * 60 + 30) * 1_000);
  });

  it("S2: an unknown zone is refused with its name", () => {
    expect(() => clockOf("Mars/Olympus")).toThrow(InvalidOptionError);
    expect(() => clockOf("Mars/Olympus")).toThrow(/"Mars\/Olympus".*Europe\/London/);
  });
});

describe("the work of a call", () => {
  afterEach(() => vi.restoreAllMocks());

  it.each([
    ["days", daily("01:30", "Europe/Paris")],
    ["weeks", everyWeeks(2, [1, 3], "09:00", "America/Denver")],
    ["months", monthly({ nth: -1, weekday: "working" }, "18:00", "Asia/Tokyo")],
    ["a window past midnight", daily("22:00 23:00 24:00 25:00", "Africa/Nairobi")],
    ["an interval with dates", interval(3_600_000, "Asia/Dubai", { except: ["2090-06-01"] })],
  ])("a call looks up no offset once its dates are known: %s", (_, schedule) => {
    const offset = vi.spyOn(Intl.DateTimeFormat.prototype, "formatToParts");
    // No other test has been there.
    const from = Date.UTC(2090, 1, 1);
    const month = () => {
      for (let hour = 0; hour < 700; hour++) nextInstant(schedule, from + hour * 3_600_000);
    };
    month();
    expect(offset).toHaveBeenCalled();
    offset.mockClear();
    month();
    expect(offset).not.toHaveBeenCalled();
  });

  it("an excepted date of a cron expression is passed in one step", () => {
    const nextRun = vi.spyOn(Cron.prototype, "nextRun");
    const each = cron("* * * * * *", "UTC", { except: ["2027-06-02", "2027-06-03"] });
    const found = nextInstant(each, Date.parse("2027-06-01T23:59:59Z"));
    expect(found).toBe(Date.parse("2027-06-04T00:00:00Z"));
    expect(nextRun.mock.calls.length).toBeLessThanOrEqual(3);
  });

  it("a date takes at most four lookups of offsets, once, and forty where the clock changes", () => {
    const offset = vi.spyOn(Intl.DateTimeFormat.prototype, "formatToParts");
    const clock = new ZoneClock("Europe/London");
    clock.toLocal(Date.UTC(2031, 5, 1));
    expect(offset.mock.calls.length).toBeLessThanOrEqual(4);
    offset.mockClear();
    clock.toLocal(Date.UTC(2031, 2, 30));
    expect(offset.mock.calls.length).toBeLessThanOrEqual(40);
  });

  it("500 dates stay cached, and others are computed again", () => {
    const offset = vi.spyOn(Intl.DateTimeFormat.prototype, "formatToParts");
    const clock = new ZoneClock("Europe/London");
    const first = Date.UTC(2027, 0, 1);
    const days = (from: number, to: number) => {
      for (let day = from; day < to; day++) clock.offsetAt(first + day * 86_400_000);
    };
    days(0, 500);
    offset.mockClear();
    days(0, 500);
    expect(offset).not.toHaveBeenCalled();
    days(500, 501);
    offset.mockClear();
    days(0, 1);
    expect(offset).toHaveBeenCalled();
  });
});
