import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readOptions } from "../../../src/core/options/option-schemas.ts";
import { countRate, dollarRate, ruleOf } from "../../../src/features/limits/declared/rates.ts";
import { ANY_CHARACTER } from "../../support/characters.ts";

const counted = (text: unknown) => readOptions(countRate(), text, "requests");
const paid = (text: unknown) => readOptions(dollarRate(), text, "usd");

const spans = ["second", "minute", "hour", "day", "month"] as const;
const anySpan = fc.constantFrom(...spans);

describe("a rate", () => {
  it("has an amount and a window", () => {
    expect(ruleOf(counted("1000 per minute"))).toEqual({ amount: 1_000, window: { ms: 60_000 } });
    expect(ruleOf(counted("1 per second"))).toEqual({ amount: 1, window: { ms: 1_000 } });
    expect(ruleOf(counted("5 per hour"))).toEqual({ amount: 5, window: { ms: 3_600_000 } });
    expect(ruleOf(paid("20 per day"))).toEqual({
      amount: 20_000_000_000,
      window: { calendar: "day", zone: "UTC" },
    });
    expect(ruleOf(paid("0.5 per month"), "Europe/Berlin")).toEqual({
      amount: 500_000_000,
      window: { calendar: "month", zone: "Europe/Berlin" },
    });
  });

  it("may have underscores between digits, as numbers in code", () => {
    expect(counted("2_000_000 per minute").amount).toBe(2_000_000);
    expect(paid("1_000.50 per month").amount).toBe(1_000_500_000_000);
  });

  it("says what is wrong with an invalid text, the value and the valid forms", () => {
    expect(() => counted("1000 per fortnight")).toThrow(
      'Invalid requests "1000 per fortnight": expected a whole number from 1 to 1000000000000 without commas, then "per" and second, minute, hour, day or month, such as "1000 per minute" or "2_000_000 per minute".',
    );
    expect(() => paid("$20 per day")).toThrow(
      'Invalid usd "$20 per day": expected dollars from 0.000001 to 1000000 without a sign or commas, then "per" and second, minute, hour, day or month, such as "20 per day" or "0.50 per hour".',
    );
  });

  it.each([
    "0 per minute",
    "-1 per minute",
    "0.5 per minute",
    "1,000 per minute",
    "1__0 per minute",
    "_1 per minute",
    "1e3 per minute",
    "Infinity per minute",
    "1000000000001 per minute",
    "10 per minutes",
    "10  per minute",
    "10 per",
    "10",
    "",
    " 10 per minute",
    `${"1".repeat(100_000)} per minute`,
    10,
    null,
    ["10 per minute"],
  ])("refuses %j for requests", (text) => {
    expect(() => counted(text)).toThrow(/^Invalid requests/);
  });

  it.each([
    "0 per day",
    "0.0000001 per day",
    "1000000.000001 per day",
    "1. per day",
    ".5 per day",
    "-0 per day",
  ])("refuses %j for dollars", (text) => {
    expect(() => paid(text)).toThrow(/^Invalid usd/);
  });

  it("has money exact to the millionth of a dollar", () => {
    const anyMicrodollars = fc.integer({ min: 1, max: 1_000_000_000_000 });
    fc.assert(
      fc.property(anyMicrodollars, anySpan, (micro, per) => {
        const digits = String(micro).padStart(7, "0");
        const text = `${digits.slice(0, -6)}.${digits.slice(-6)} per ${per}`;
        expect(paid(text)).toEqual({ amount: micro * 1_000, per });
      }),
    );
    expect(paid("1000000 per day").amount).toBe(1e15);
    expect(paid("0.000001 per day").amount).toBe(1_000);
  });

  it("reads any whole number, and refuses any other text with an error of its option", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1e12 }), anySpan, (amount, per) => {
        expect(counted(`${amount} per ${per}`)).toEqual({ amount, per });
      }),
    );
    const anyText = fc.oneof(
      fc.string({ unit: ANY_CHARACTER }),
      fc.tuple(fc.string(), anySpan).map(([head, per]) => `${head} per ${per}`),
      fc.anything(),
    );
    fc.assert(
      fc.property(anyText, (text) => {
        try {
          const { amount, per } = counted(text);
          expect(Number.isSafeInteger(amount) && amount > 0 && spans.includes(per)).toBe(true);
        } catch (error) {
          expect(error).toMatchObject({ name: "InvalidOptionError", option: "requests" });
        }
      }),
    );
  });
});
