import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { InvalidOptionError } from "../../../src/core/options/options.ts";
import { nextOccurrence } from "../../../src/scheduler/calendar/occurrences.ts";
import { cronOf } from "../../../src/scheduler/language/cron.ts";
import { parseSchedule } from "../../../src/scheduler/language/parse.ts";
import type { Dates, Rule } from "../../../src/scheduler/rule.ts";
import { validText } from "./valid-arbitrary.ts";
import { VALID } from "./valid-texts.ts";

const UTC = { timezone: "UTC" };
const RUNS = { numRuns: 2_000 };
const DAY = 86_400_000;

const ruleOf = (text: string): Rule => parseSchedule(text, UTC).rule;
const datesOf = (text: string): Dates => {
  const rule = ruleOf(text);
  if (rule.form !== "dates") throw new Error(`${text} has no dates`);
  return rule.dates;
};
const day = (text: string) => Date.parse(`${text}T00:00:00Z`) / DAY;

describe("the forms", () => {
  it.each(Object.entries(VALID))("S2 %j is spelled %j", (text, normal) => {
    expect(parseSchedule(text, UTC).text).toBe(normal);
  });

  it("S2: an interval counts real time, and has a zone only if it has dates", () => {
    expect(parseSchedule("every 90 minutes", UTC)).toEqual({
      text: "every 90 minutes",
      kind: "interval",
      timezone: undefined,
      rule: { form: "interval", ms: 5_400_000 },
      starting: undefined,
      until: undefined,
      except: [],
    });
    expect(parseSchedule("every minute").rule).toEqual({ form: "interval", ms: 60_000 });
    expect(parseSchedule("every 1 hour").rule).toEqual({ form: "interval", ms: 3_600_000 });
    expect(parseSchedule("every hour in Europe/Paris").timezone).toBeUndefined();
    const limited = parseSchedule("every hour until 2026-12-24 in Europe/Paris");
    expect(limited).toMatchObject({ kind: "interval", timezone: "Europe/Paris" });
  });

  it("S2: times of a day are sorted minutes", () => {
    expect(ruleOf("every day at 17:30, 09:00,00:00")).toEqual({
      form: "dates",
      dates: { by: "days", every: 1 },
      minutes: [0, 540, 1_050],
    });
  });

  it("S2: days and weeks count in steps", () => {
    expect(datesOf("every 3 days at 07:00")).toEqual({ by: "days", every: 3 });
    expect(datesOf("every 2 weeks on sun,mon at 07:00")).toEqual({
      by: "weeks",
      every: 2,
      weekdays: [1, 7],
    });
    expect(datesOf("every weekday at 07:00")).toMatchObject({
      every: 1,
      weekdays: [1, 2, 3, 4, 5],
    });
    expect(datesOf("every weekend at 07:00")).toMatchObject({ every: 1, weekdays: [6, 7] });
    expect(datesOf("every monday at 07:00")).toEqual(datesOf("every week on mon at 07:00"));
  });

  it("S2: days of months keep their kind", () => {
    const months = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
    const text = "every month on last day,31,first weekday,first day,last fri,second tue at 08:00";
    expect(datesOf(text)).toEqual({
      by: "months",
      on: [
        { day: 1 },
        { day: 31 },
        { nth: 1, weekday: "working" },
        { nth: 2, weekday: 2 },
        { nth: -1, weekday: 5 },
        { last: "day" },
      ].map((monthDay) => ({ months, day: monthDay })),
    });
  });

  it("S2: a last day of a quarter is in its last month, all others are in its first", () => {
    const text = "every quarter on 15,last day,first mon,last mon,last weekday at 00:00";
    const first = [1, 4, 7, 10];
    const last = [3, 6, 9, 12];
    expect(datesOf(text)).toEqual({
      by: "months",
      on: [
        { months: first, day: { day: 15 } },
        { months: first, day: { nth: 1, weekday: 1 } },
        { months: last, day: { nth: -1, weekday: "working" } },
        { months: last, day: { nth: -1, weekday: 1 } },
        { months: last, day: { last: "day" } },
      ],
    });
  });

  it("S2: days of years are sorted, with 29 February", () => {
    expect(datesOf("every year on oct 1,february 29,mar 1 at 09:00")).toEqual({
      by: "months",
      on: [
        { months: [2], day: { day: 29 } },
        { months: [3], day: { day: 1 } },
        { months: [10], day: { day: 1 } },
      ],
    });
  });

  it("S2: a window has steps from its start, both ends included", () => {
    expect(ruleOf("every 20 minutes between 09:00 and 10:00")).toMatchObject({
      dates: { by: "days", every: 1 },
      minutes: [540, 560, 580, 600],
    });
    expect(ruleOf("every 45 minutes between 09:00 and 10:00")).toMatchObject({
      minutes: [540, 585],
    });
    expect(ruleOf("every 8 hours between 00:00 and 24:00 on weekends")).toMatchObject({
      dates: { by: "weeks", every: 1, weekdays: [6, 7] },
      minutes: [0, 480, 960, 1_440],
    });
  });

  it("S2: a window past midnight belongs to the date on which it begins", () => {
    expect(ruleOf("every 4 hours between 22:00 and 06:00 on fri")).toEqual({
      form: "dates",
      dates: { by: "weeks", every: 1, weekdays: [5] },
      minutes: [1_320, 1_560, 1_800],
    });
  });

  it("S2: once is a local time", () => {
    const at = Date.parse("2026-12-24T09:00:00Z");
    expect(ruleOf("once at 2026-12-24T09:00")).toEqual({ form: "once", at });
    expect(ruleOf("once at 2026-12-24 09:00")).toEqual({ form: "once", at });
  });

  it("S2: cron matches the day of the month or the day of the week", () => {
    expect(ruleOf("cron  0 9 1 , 15 * mon")).toEqual({
      form: "cron",
      expression: "0 9 1,15 * MON",
    });
    const runs = cronOf("0 9 1 * 1").nextRuns(3, new Date("2026-01-01T00:00:00Z"));
    expect(runs.map((run) => run.toISOString())).toEqual([
      "2026-01-01T09:00:00.000Z",
      "2026-01-05T09:00:00.000Z",
      "2026-01-12T09:00:00.000Z",
    ]);
    expect(cronOf("0 9 1 * 1")).toBe(cronOf("0 9 1 * 1"));
    expect(() => cronOf("2026-12-24T09:00:00")).toThrow(TypeError);
    expect(() => cronOf("0 0 9 1 1 * 2030")).toThrow(TypeError);
  });

  it.each([
    ["0 9 */2 * 1", ["05", "19"]],
    ["0 0 9 */2 * MON", ["05", "19"]],
    ["0 9 2 * */2", []],
    ["0 9 *,5 * 1", ["05", "12", "19", "26"]],
    ["0 9 3-31/2 * */6", ["03", "11", "17", "25", "31"]],
  ])("S2: a day field that begins with a star is unrestricted in cron %s", (expression, days) => {
    const runs = cronOf(expression).nextRuns(20, new Date("2026-01-01T00:00:00Z"));
    const inJanuary = runs.map((run) => run.toISOString()).filter((run) => run < "2026-02");
    expect(inJanuary.map((run) => run.slice(8, 10))).toEqual(days);
  });

  it("S2: a star behind a comma leaves a cron day field restricted, as in crontab", () => {
    const [first, second] = cronOf("0 9 5,*/10 * 3").nextRuns(9, new Date("2026-01-01T12:00:00Z"));
    expect([first, second].map((run) => run?.getUTCDate())).toEqual([5, 7]);
  });

  it("S2: cron with + before the weekday requires both days", () => {
    const [run] = cronOf("0 9 13 * +5").nextRuns(1, new Date("2026-01-01T00:00:00Z"));
    expect(run?.toISOString()).toBe("2026-02-13T09:00:00.000Z");
  });
});

describe("the suffixes", () => {
  it("S2: a date alone starts at its first instant and ends at its last", () => {
    const parsed = parseSchedule("every day at 09:00 until 2026-01-05 starting 2026-01-05", UTC);
    expect(parsed).toMatchObject({
      starting: day("2026-01-05") * DAY,
      until: day("2026-01-06") * DAY,
    });
    const timed = parseSchedule("every day at 09:00 until 2026-01-05T10:00", UTC);
    expect(timed.until).toBe(Date.parse("2026-01-05T10:00:00Z"));
  });

  it("S2: exceptions are sorted dates", () => {
    const { except } = parseSchedule("every day at 09:00 except 2027-01-01,2024-02-29", UTC);
    expect(except).toEqual([day("2024-02-29"), day("2027-01-01")]);
  });

  it("S2: a zone in the text wins, and keeps its name in the usual case", () => {
    const zoneOf = (text: string, timezone?: string) => parseSchedule(text, { timezone }).timezone;
    expect(zoneOf("every day at 09:00 in asia/KOLKATA", "UTC")).toBe("Asia/Kolkata");
    expect(zoneOf("every day at 09:00 in Asia/Calcutta")).toBe("Asia/Calcutta");
    expect(zoneOf("every day at 09:00 in us/pacific")).toBe("US/Pacific");
    expect(zoneOf("every day at 09:00 in ETC/GMT+5")).toMatch(/^etc\/gmt\+5$/i);
    expect(zoneOf("every day at 09:00", "europe/london")).toBe("Europe/London");
    expect(zoneOf("every day at 09:00", "utc")).toBe("UTC");
  });

  it("S2: an offset is a zone, in the text and in the options", () => {
    const zoneOf = (text: string, timezone?: string) => parseSchedule(text, { timezone }).timezone;
    expect(zoneOf("every day at 09:00", "+02:00")).toBe("+02:00");
    expect(zoneOf("every day at 09:00 in +0530", "UTC")).toBe("+05:30");
    expect(zoneOf("cron 0 9 * * 1 in -03")).toBe("-03:00");
    expect(() => parseSchedule("every day at 09:00 in +2")).toThrow('an offset such as "+02:00"');
    const after = Date.UTC(2026, 5, 1);
    const next = nextOccurrence("every day at 09:00 in -09:30", { after });
    expect(next).toBe(Date.UTC(2026, 5, 1, 18, 30));
  });

  it("S2: an unknown zone in the options is an error of the options", () => {
    const parse = (timezone: unknown) => () =>
      parseSchedule("every hour", { timezone: timezone as string });
    expect(parse("Europe/Lodon")).toThrow(InvalidOptionError);
    expect(parse("Europe/Lodon")).toThrow('Did you mean "Europe/London"?');
    expect(parse("+25:00")).toThrow('or an offset such as "+02:00"');
    expect(parse("")).toThrow(InvalidOptionError);
    expect(parse(7)).toThrow("Invalid timezone 7: ");
    expect(parse(null)).toThrow("Invalid timezone null: ");
  });
});

describe("parsed schedules", () => {
  it("S2: the usual spelling parses to the same schedule", () => {
    fc.assert(
      fc.property(validText, (text) => {
        const parsed = parseSchedule(text, { timezone: "Europe/Paris" });
        const again = parseSchedule(parsed.text, { timezone: parsed.timezone ?? "Europe/Paris" });
        expect(again).toEqual(parsed);
      }),
      RUNS,
    );
  });

  it("a parsed schedule is deeply frozen and cached", () => {
    const parsed = parseSchedule("every month on first monday at 09:00 except 2026-01-05", UTC);
    const check = (value: unknown): void => {
      if (typeof value !== "object" || value === null) return;
      expect(Object.isFrozen(value)).toBe(true);
      Object.values(value).forEach(check);
    };
    check(parsed);
    expect(parseSchedule("every month on first monday at 09:00 except 2026-01-05", UTC)).toBe(
      parsed,
    );
  });

  it("S2: a thousand texts, and one text in each zone, are cached", () => {
    const texts = Array.from({ length: 1_000 }, (_, count) => `every ${count + 2} minutes`);
    const all = () => [
      ...texts.map((text) => parseSchedule(text, UTC)),
      ...Intl.supportedValuesOf("timeZone").map((timezone) =>
        parseSchedule("every day at 09:00", { timezone }),
      ),
    ];
    all();
    // What was kept before may have filled up in between.
    const second = all();
    const third = all();
    expect(third.filter((schedule, index) => schedule !== second[index])).toEqual([]);
  });

  it("the platform is called once for each zone", () => {
    const asked = vi.spyOn(Intl, "DateTimeFormat");
    const zones = Intl.supportedValuesOf("timeZone");
    for (const timezone of [...zones, ...zones]) parseSchedule("every hour", { timezone });
    expect(asked.mock.calls.length).toBeLessThanOrEqual(zones.length);
    asked.mockRestore();
  });

  it("parsed schedules are cached by zone, up to a limit", () => {
    const text = "every day at 09:00";
    const parsed = parseSchedule(text, UTC);
    expect(parseSchedule(text, { timezone: "Europe/Paris" }).timezone).toBe("Europe/Paris");
    for (let count = 2; count < 2_100; count += 1) parseSchedule(`every ${count} minutes`, UTC);
    expect(parseSchedule(text, UTC)).not.toBe(parsed);
    expect(parseSchedule(text, UTC)).toEqual(parsed);
  });
});
