/** S2: the schedule language and its calendar in the Workers runtime, which has its own zones and its own Intl. */

import { describe, expect, it } from "vitest";
import {
  explainSchedule,
  nextOccurrence,
  occurrences,
  parseSchedule,
  ScheduleSyntaxError,
} from "../../src/scheduler/index.ts";

function next(schedule: string, after: string, count: number): string[] {
  return occurrences(schedule, { after: new Date(after), count }).map((at) =>
    new Date(at).toISOString(),
  );
}

describe("the calendar in workerd", () => {
  it.each([
    [
      "in a gap, the first instant after it",
      "every day at 01:30 in Europe/London",
      "2027-03-27T12:00Z",
      ["2027-03-28T01:00:00.000Z", "2027-03-29T00:30:00.000Z"],
    ],
    [
      "in a gap of half an hour",
      "every day at 02:15 in Australia/Lord_Howe",
      "2027-10-02T12:00Z",
      ["2027-10-02T15:30:00.000Z", "2027-10-03T15:15:00.000Z"],
    ],
    [
      "in a fold, once, the first",
      "every day at 01:30 in America/New_York",
      "2026-10-31T12:00Z",
      ["2026-11-01T05:30:00.000Z", "2026-11-02T06:30:00.000Z"],
    ],
    [
      "a date that a zone skipped whole has none",
      "every day at 12:00 in Pacific/Apia",
      "2011-12-29T00:00Z",
      ["2011-12-29T22:00:00.000Z", "2011-12-30T22:00:00.000Z"],
    ],
    [
      "for cron, too",
      "cron */30 0-2 * * * in Europe/Dublin",
      "2026-10-25T00:00Z",
      ["2026-10-25T00:30:00.000Z", "2026-10-25T02:00:00.000Z"],
    ],
    [
      "a month without day 31 has no run on 31",
      "every month on 31 at 08:00 in Asia/Kolkata",
      "2027-01-31T12:00Z",
      ["2027-03-31T02:30:00.000Z", "2027-05-31T02:30:00.000Z"],
    ],
  ])("%s", (_, schedule, after, expected) => {
    expect(next(schedule, after, 2)).toEqual(expected);
  });

  it("S2: every zone of the runtime has its next occurrence at its own 09:00", () => {
    const after = Date.UTC(2027, 5, 1);
    for (const timezone of Intl.supportedValuesOf("timeZone")) {
      const at = nextOccurrence("every day at 09:00", { after, timezone });
      const shown = new Intl.DateTimeFormat("en-GB", { timeZone: timezone, timeStyle: "short" });
      expect({ timezone, at: at && shown.format(at) }).toEqual({ timezone, at: "09:00" });
    }
  });

  it("S2: a gap is explained in words", () => {
    const explained = explainSchedule("every day at 02:30 in Europe/Paris", {
      after: new Date("2027-03-27T12:00Z"),
    });
    expect(explained.occurrences).toHaveLength(10);
    expect(explained.occurrences[0]).toEqual({
      at: Date.parse("2027-03-28T01:00Z"),
      local: "2027-03-28T03:00+02:00",
      note: "02:30 does not exist on 2027-03-28: clocks go from 02:00 to 03:00; it runs at 03:00",
    });
  });

  it.each([
    ["every week on mondey at 09:00", 14, "every week on monday at 09:00"],
    ["every day at 09:00 in Europe/Lodon", 22, "every day at 09:00 in Europe/London"],
    ["cron 0 9 32 * *", 9, "cron 0 9 31 * *"],
  ])(
    "S2: an invalid schedule is refused with its position and the nearest text: %s",
    (text, position, nearest) => {
      const parse = () => parseSchedule(text, { timezone: "UTC" });
      expect(parse).toThrow(ScheduleSyntaxError);
      expect(parse).toThrow(expect.objectContaining({ position, nearest }));
    },
  );
});
