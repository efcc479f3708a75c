import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { InvalidOptionError } from "../../../src/core/options/options.ts";
import { ScheduleSyntaxError } from "../../../src/scheduler/language/errors.ts";
import { parseSchedule } from "../../../src/scheduler/language/parse.ts";
import { ANY_CHARACTER } from "../../support/characters.ts";
import { plainText } from "./valid-arbitrary.ts";

const LONDON = { timezone: "Europe/London" };

function errorOf(text: unknown, options: { timezone?: string } = LONDON): ScheduleSyntaxError {
  try {
    parseSchedule(text as string, options);
  } catch (error) {
    if (error instanceof ScheduleSyntaxError) return error;
    throw error;
  }
  throw new Error(`${String(text)} was parsed`);
}

describe("ScheduleSyntaxError", () => {
  it("S2: the error has the text, the position, what was expected and the nearest text", () => {
    const error = errorOf("every week on mondey at 09:00");
    expect(error).toMatchObject({
      name: "ScheduleSyntaxError",
      schedule: "every week on mondey at 09:00",
      position: 14,
      expected: "a weekday",
      nearest: "every week on monday at 09:00",
    });
    expect(error.message.split("\n")).toEqual([
      'Invalid schedule "every week on mondey at 09:00": expected a weekday at position 14, got "mondey". Did you mean "every week on monday at 09:00"?',
      "  every week on mondey at 09:00",
      "                ^",
    ]);
  });

  it("S2: the caret points at the character in a text of several lines", () => {
    const error = errorOf("every\n day\tat 9:00");
    expect(error.position).toBe(14);
    expect(error.message.split("\n").slice(1)).toEqual([
      "  every  day at 9:00",
      "                ^",
    ]);
    expect(error.nearest).toBe("every\n day\tat 09:00");
  });

  it.each([
    ["every dya at 09:00", 6, "every day at 09:00"],
    ["every day at 9:00", 13, "every day at 09:00"],
    ["every day at 9am", 13, "every day at 09:00"],
    ["every day at 5pm", 13, "every day at 17:00"],
    ["every day at 25:00", 13, "every day at 23:00"],
    ["every day at 24:00", 13, "every day at 00:00"],
    ["every day at 09:60", 13, "every day at 09:59"],
    ["every day at noon", 13, "every day at 12:00"],
    ["every day 09:00", 10, "every day at 09:00"],
    ["every day at at 09:00", 13, "every day at 09:00"],
    ["every day at 09:00 and 17:30", 19, "every day at 09:00, 17:30"],
    ["every day at 09:00 17:30", 19, "every day at 09:00, 17:30"],
    ["every day at 09:00,09:00", 19, "every day at 09:00"],
    ["every monday", 12, "every monday at 09:00"],
    ["every week on monday,mon at 09:00", 21, "every week on monday at 09:00"],
    ["daily at 09:00", 0, "every day at 09:00"],
    ["everyday at 09:00", 0, "every day at 09:00"],
    ["every week day at 09:00", 11, "every weekday at 09:00"],
    ["every morning", 6, "every day at 09:00"],
    ["every 1 hours", 8, "every 1 hour"],
    ["every 2 hour", 8, "every 2 hours"],
    ["every 0 minutes", 6, "every 1 minute"],
    ["every 015 minutes", 6, "every 15 minutes"],
    ["every 100000000 minutes", 6, "every 52596000 minutes"],
    ["every 52596001 minutes", 6, "every 52596000 minutes"],
    ["every 999999 hours", 6, "every 876600 hours"],
    ["every 367 days at 09:00", 6, "every 366 days at 09:00"],
    ["every 53 weeks on monday at 09:00", 6, "every 52 weeks on monday at 09:00"],
    ["every 30 seconds", 9, "every 30 minutes"],
    ["every other week on monday at 09:00", 6, "every 2 weeks on monday at 09:00"],
    ["every mon on first monday at 09:00", 10, "every month on first monday at 09:00"],
    ["every month on 32 at 09:00", 15, "every month on 31 at 09:00"],
    ["every month on 1,first day at 09:00", 17, "every month on 1 at 09:00"],
    ["every year on february 30 at 09:00", 23, "every year on february 29 at 09:00"],
    ["every year on june 31 at 09:00", 19, "every year on june 30 at 09:00"],
    ["every hour between 09:00 and 09:30", 6, "every 30 minutes between 09:00 and 09:30"],
    ["every 9 hours between 09:00 and 17:00", 6, "every 8 hours between 09:00 and 17:00"],
    ["every hour between 09:00 and 09:00", 29, "every hour between 09:00 and 17:00"],
    ["every hour between 00:00 and 00:00", 29, "every hour between 00:00 and 24:00"],
    ["every hour between 24:00 and 06:00", 19, "every hour between 00:00 and 06:00"],
    ["every 2 hours on weekdays", 14, "every 2 hours between 09:00 and 17:00 on weekdays"],
    ["every day at 09:00 in Europe/Lodon", 22, "every day at 09:00 in Europe/London"],
    ["every day at 09:00 in london", 22, "every day at 09:00 in Europe/London"],
    ["every day at 09:00 in UTC in UTC", 26, "every day at 09:00 in UTC"],
    ["every day at 09:00 until 2026-02-30", 25, "every day at 09:00 until 2026-02-28"],
    ["every day at 09:00 except 2026-1-5", 26, "every day at 09:00 except 2026-01-05"],
    [
      "every day at 09:00 starting 2026-03-01 until 2026-02-01",
      45,
      "every day at 09:00 starting 2026-03-01 until 2026-03-01",
    ],
    ["once at 2026-12-24", 18, "once at 2026-12-24 09:00"],
    ["cron 0 9 * *", 12, "cron 0 9 * * *"],
    ["cron 0 25 * * *", 7, "cron 0 23 * * *"],
    ["cron 0 9 1, 40 * *", 12, "cron 0 9 1, 31 * *"],
    ["cron 0 9 0 * *", 9, "cron 0 9 1 * *"],
    ["cron 0/15 * * * *", 5, "cron */15 * * * *"],
    ["cron 5/15 * * * *", 5, "cron 5-59/15 * * * *"],
    ["cron 0 22-2 * * *", 7, "cron 0 22-23,0-2 * * *"],
    ["cron 0 9 * 11-2 *", 11, "cron 0 9 * 11-12,1-2 *"],
    ["cron 0 9 * * 5-1", 13, "cron 0 9 * * 5-7,1-1"],
    ["cron 0 22-99 * * *", 7, "cron 0 * * * *"],
    ["cron 0 9 * * * untill 2026-12-24", 15, "cron 0 9 * * * until 2026-12-24"],
    ["cron @dayly", 5, "cron @daily"],
    ["0 9 * * 1-5", 0, "cron 0 9 * * 1-5"],
    ["", 0, "every day at 09:00"],
    ["no such thing by any stretch", 0, undefined],
  ])("S2: %j is invalid at %i, and the nearest text is %j", (text, position, nearest) => {
    const { position: found, nearest: meant } = errorOf(text);
    expect({ position: found, nearest: meant }).toEqual({ position, nearest });
  });

  it("S2: an invalid cron field is refused with its range, or with croner's message", () => {
    expect(errorOf("cron 0 9 32 * *").expected).toBe("a day of the month from 1 to 31");
    expect(errorOf("cron 0 9 * 13 *").expected).toBe("a month from 1 to 12");
    expect(errorOf("cron 60 0 25 * * *").expected).toBe("a second from 0 to 59");
    expect(errorOf("cron 0 9 L-3 * *").expected).toContain("L has to be a value of its own");
  });

  it("S2: a schedule without a zone is refused with the ways to set one", () => {
    for (const text of ["every day at 09:00", "every hour until 2026-12-24", "cron 0 9 * * *"]) {
      const error = errorOf(text, {});
      expect(error.position).toBe(text.length);
      expect(error.expected).toMatch(/in Europe\/London.*`timezone`.*getDefaultTimezone\(\)/);
      expect(parseSchedule(error.nearest as string).timezone).toBe("UTC");
    }
    // The zone that is missing as well does not make another schedule seem nearer.
    expect(errorOf("every monday", {}).nearest).toBe("every monday at 09:00 in UTC");
  });

  it("S2: a value that is no text, or is too long, is refused", () => {
    for (const [given, shown] of [
      [undefined, "undefined"],
      [null, "null"],
      [15, "15"],
      [Symbol("s"), "Symbol(s)"],
      [{ every: "day" }, "an object"],
      [Object.create(null), "an object"],
    ] as const) {
      expect(errorOf(given)).toMatchObject({ schedule: shown, position: 0, nearest: undefined });
    }
    const long = errorOf("every day at 09:00".padEnd(1_001));
    expect(long.expected).toBe("at most 1000 characters (there are 1001)");
    expect(long.message.length).toBeLessThan(500);
    expect(parseSchedule("every day at 09:00".padEnd(1_000), LONDON).text).toBe(
      "every day at 09:00",
    );
  });
});

const LETTERS = [..."abcdefghijklmnopqrstuvwxyz"];

/** A valid text in which one letter of one word is dropped, doubled, changed or swapped with the next. */
const typo = fc
  .tuple(
    plainText,
    fc.nat(),
    fc.constantFrom("drop", "double", "change", "swap"),
    fc.constantFrom(...LETTERS),
  )
  .map(([text, at, mistake, letter]) => {
    const places = Array.from(text.matchAll(/[a-z](?=[a-z])/g), ({ index }) => index);
    const place = places[at % places.length] as number;
    const [one, next] = text.slice(place, place + 2);
    const wrong = { drop: "", double: `${one}${one}`, change: letter, swap: `${next}${one}` };
    const end = mistake === "swap" ? place + 2 : place + 1;
    return { text, wrong: `${text.slice(0, place)}${wrong[mistake]}${text.slice(end)}` };
  });

describe("the nearest text", () => {
  it("S2: the nearest text of a mistyped one always parses", () => {
    fc.assert(
      fc.property(typo, ({ wrong }) => {
        let error: unknown;
        try {
          parseSchedule(wrong, LONDON);
          return;
        } catch (thrown) {
          error = thrown;
        }
        if (!(error instanceof ScheduleSyntaxError)) throw error;
        expect(error.position).toBeLessThanOrEqual(wrong.length);
        expect(error.expected).not.toBe("");
        expect(error.nearest).toBeDefined();
        expect(() => parseSchedule(error.nearest as string, LONDON)).not.toThrow();
      }),
      { numRuns: 1_000 },
    );
  });

  it("S2: the nearest text of a mistyped one is usually the original", () => {
    let mended = 0;
    let same = 0;
    for (const { text, wrong } of fc.sample(typo, { numRuns: 500, seed: 7 })) {
      try {
        parseSchedule(wrong, LONDON);
      } catch (error) {
        mended += 1;
        const { nearest } = error as ScheduleSyntaxError;
        const meant = parseSchedule(text, LONDON);
        if (nearest !== undefined && parseSchedule(nearest, LONDON).text === meant.text) same += 1;
      }
    }
    expect(mended).toBeGreaterThan(300);
    expect(same / mended).toBeGreaterThan(0.97);
  });

  it("S2: the name of an object's property is refused like any other word, at each place", () => {
    const names = ["__proto__", ...Object.getOwnPropertyNames(Object.prototype)];
    const mistaken = fc
      .tuple(plainText, fc.constantFrom(...names), fc.nat(), fc.constantFrom(0, 1))
      .map(([text, name, at, replaced]) => {
        const words = text.split(" ");
        return words.toSpliced(at % (words.length + 1), replaced, name).join(" ");
      });
    fc.assert(
      fc.property(mistaken, (text) => {
        const error = errorOf(text);
        expect(error.message).toContain(text);
        if (error.nearest !== undefined) parseSchedule(error.nearest, LONDON);
      }),
      {
        examples: [
          ["every constructor at 09:00"],
          ["every day at constructor"],
          ["every day at __proto__"],
          ["once at 2027-01-05 toString"],
          ["once at constructorTtoString"],
          ["every month on hasOwnProperty at 09:00"],
        ],
      },
    );
    for (const timezone of names) {
      expect(() => parseSchedule("every day at 09:00", { timezone })).toThrow(InvalidOptionError);
    }
  });

  it("S2: the search for the nearest text is bounded for any text", () => {
    fc.assert(
      fc.property(fc.string({ unit: ANY_CHARACTER, maxLength: 1_000 }), (text) => {
        expect(() => parseSchedule(text, LONDON)).toThrow(ScheduleSyntaxError);
      }),
      { numRuns: 100 },
    );
    const nearlyFull = `every day at 9:00 except ${"2026-12-25 ".padEnd(975)}`;
    expect(nearlyFull.length).toBe(1_000);
    const { nearest } = errorOf(nearlyFull);
    expect(() => parseSchedule(nearest as string, LONDON)).not.toThrow();
  });

  it.each([
    ["words of the language", "every and ", ""],
    ["one mistake many times", "janury 1,", "every year on "],
    ["days that are none", "frst mnday,", "every month on "],
    ["a name that is too long for a zone's", "europe_", "every day at 09:00 in "],
    ["values that cron does not take", "32,", "cron */10 0 9 "],
    ["letters that grow in lower case", "\u0130", ""],
  ])("S2: the error for a thousand characters comes soon: %s", (_, part, before) => {
    const timeOf = (length: number) => {
      const text = (before + part.repeat(length)).slice(0, length);
      errorOf(text);
      const started = performance.now();
      errorOf(text);
      return performance.now() - started;
    };
    // At most 50 ms, and 10 for a hundred; without a bound for long texts it was up to 1,700.
    expect(timeOf(1_000)).toBeLessThan(25 * Math.max(timeOf(100), 10));
  });
});
