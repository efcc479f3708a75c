import { describe, expect, it } from "vitest";
import { describeRule } from "../../../src/scheduler/language/describe.ts";
import { parseSchedule } from "../../../src/scheduler/language/parse.ts";
import { VALID_TEXTS } from "./valid-texts.ts";

const LONDON = { timezone: "Europe/London" };
const words = (text: string) => describeRule(parseSchedule(text, LONDON));

describe("describeRule", () => {
  it.each([
    ["every 15 minutes", "Every 15 minutes, from one run to the next."],
    ["every minute", "Every minute, from one run to the next."],
    ["every 60 minutes", "Every hour, from one run to the next."],
    [
      "every day at 09:00, 17:30 except 2026-12-25",
      "At 09:00 and 17:30 every day, on Europe/London time, except on 2026-12-25.",
    ],
    [
      "every 3 days at 07:00",
      "At 07:00 every 3 days, counted from 1970-01-01, on Europe/London time.",
    ],
    [
      "every 2 weeks on monday at 09:00 starting 2026-01-05",
      "At 09:00 every Monday, every 2 weeks, counted from the week of 2026-01-05, on Europe/London time, not before 2026-01-05.",
    ],
    [
      "every 2 weeks on monday,friday at 09:00",
      "At 09:00 every Monday and Friday, every 2 weeks, counted from the week of 1969-12-29, on Europe/London time.",
    ],
    ["every weekday at 09:00", "At 09:00 every weekday (Monday to Friday), on Europe/London time."],
    ["every weekend at 10:00", "At 10:00 every Saturday and Sunday, on Europe/London time."],
    [
      "every month on 1,last day,first monday,last weekday at 08:00",
      "At 08:00 on day 1 of every month, the first Monday of every month, the last weekday (Monday to Friday) of every month and the last day of every month, on Europe/London time.",
    ],
    [
      "every quarter on last day at 00:00",
      "At 00:00 on the last day of March, June, September and December, on Europe/London time.",
    ],
    [
      "every year on march 1,october 1 at 09:00",
      "At 09:00 on March 1 and October 1, on Europe/London time.",
    ],
    [
      "every 15 minutes between 09:00 and 17:00 on weekdays",
      "Every 15 minutes from 09:00 to 17:00 every weekday (Monday to Friday), on Europe/London time.",
    ],
    [
      "every 4 hours between 22:00 and 06:00",
      "At 22:00, 02:00 on the next day and 06:00 on the next day every day, on Europe/London time.",
    ],
    [
      "cron 0 9 * * 1-5",
      'Whenever the cron expression "0 9 * * 1-5" matches, on Europe/London time.',
    ],
    ["once at 2026-12-24T00:00", "Once, at 2026-12-24 00:00, on Europe/London time."],
    [
      "every hour starting 2026-01-05T10:30 until 2026-12-31",
      "Every hour, from one run to the next, on Europe/London time, not before 2026-01-05 10:30, up to and including 2026-12-31.",
    ],
    [
      "every hour until 2026-12-31T12:00",
      "Every hour, from one run to the next, on Europe/London time, only before 2026-12-31 12:00.",
    ],
  ])("S5: %j is described in plain words", (text, expected) => {
    expect(words(text)).toBe(expected);
  });

  it("S5: every form has one sentence", () => {
    for (const text of VALID_TEXTS) {
      expect(words(text)).toMatch(/^[A-Z].*\.$/);
      expect(words(text)).not.toContain("undefined");
    }
  });
});
