import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readOptions } from "../../../src/core/options/option-schemas.ts";
import { costOf, mostCostOf, priceTable } from "../../../src/features/limits/declared/prices.ts";

const read = (table: unknown) => readOptions(priceTable(), table, "prices");
const MILLION = 1_000_000;
const DOLLAR = 1_000_000_000;

describe("prices", () => {
  it("are dollars per million tokens", () => {
    const prices = read({ "openai/gpt-5-mini": { input: 0.25, cachedInput: 0.03, output: 2 } });
    const tokens = { input: 3 * MILLION, cachedInput: MILLION, output: MILLION };
    expect(costOf(prices, "openai/gpt-5-mini", tokens)).toBe(2.53 * DOLLAR);
    expect(costOf(prices, "openai/gpt-5", tokens)).toBeUndefined();
  });

  it("have the price of input for cached input and cache writes, unless they are named", () => {
    const tokens = { input: MILLION, cachedInput: MILLION / 2, cacheWrite: MILLION / 4, output: 0 };
    expect(costOf(read({ m: { input: 3, output: 15 } }), "m", tokens)).toBe(3 * DOLLAR);
    const anthropic = { input: 3, cachedInput: 0.3, cacheWrite: 3.75, output: 15 };
    expect(costOf(read({ m: anthropic }), "m", tokens)).toBe((0.75 + 0.15 + 0.9375) * DOLLAR);
  });

  it("round up, so that money is never counted too low", () => {
    const prices = read({ m: { input: 0.000_001, output: 0.0375 } });
    expect(costOf(prices, "m", { input: 1, output: 0 })).toBe(1);
    expect(costOf(prices, "m", { input: 1_001, output: 0 })).toBe(2);
    expect(costOf(prices, "m", { input: 0, output: 1 })).toBe(38);
    expect(costOf(prices, "m", { input: 0, output: 2 })).toBe(75);
  });

  it("name models by their whole name, their id, or a pattern, and the most specific one wins", () => {
    const prices = read({
      "*": { input: 1, output: 0 },
      "openai/*": { input: 2, output: 0 },
      "openai/gpt-5*": { input: 3, output: 0 },
      "gpt-5-mini": { input: 4, output: 0 },
      "openai/gpt-5-mini-2026": { input: 5, output: 0 },
    });
    const dollars = (model: string) =>
      (costOf(prices, model, { input: MILLION, output: 0 }) ?? 0) / DOLLAR;
    expect(dollars("mistral/small")).toBe(1);
    expect(dollars("openai/o3")).toBe(2);
    expect(dollars("openai/gpt-5")).toBe(3);
    expect(dollars("openai/gpt-5-mini")).toBe(4);
    expect(dollars("azure/gpt-5-mini")).toBe(4);
    expect(dollars("openai/gpt-5-mini-2026")).toBe(5);
  });

  it("are of the id after the provider, also where the id has slashes", () => {
    const prices = read({ "@cf/meta/*": { input: 1, output: 0 } });
    expect(costOf(prices, "workers-ai/@cf/meta/llama-3", { input: 1, output: 0 })).toBe(1_000);
  });

  it("give the most that a call can cost, however its input is cached", () => {
    const price = { input: 3, cachedInput: 0.3, cacheWrite: 3.75, output: 15 };
    const prices = read({ m: price });
    const anyTokens = fc.record({
      input: fc.nat({ max: 10 * MILLION }),
      cachedInput: fc.nat({ max: 10 * MILLION }),
      cacheWrite: fc.nat({ max: 10 * MILLION }),
      output: fc.nat({ max: 10 * MILLION }),
    });
    fc.assert(
      fc.property(anyTokens, (tokens) => {
        const most = mostCostOf(prices, "m", tokens) as number;
        expect(costOf(prices, "m", tokens)).toBeLessThanOrEqual(most);
      }),
    );
    expect(mostCostOf(prices, "m", { input: 1_000, output: 100 })).toBe(5_250_000);
    expect(mostCostOf(prices, "other", { input: 1, output: 1 })).toBeUndefined();
  });

  it("are exact: the cost is that of the decimals as written, rounded up", () => {
    const anyPrice = fc.integer({ min: 0, max: 1_000_000_000_000 });
    const anyCount = fc.nat({ max: MILLION });
    fc.assert(
      fc.property(anyPrice, anyPrice, anyCount, anyCount, (one, other, input, output) => {
        const prices = read({ m: { input: one / 1e6, output: other / 1e6 } });
        const pico = BigInt(one) * BigInt(input) + BigInt(other) * BigInt(output);
        const exact = (pico + 999n) / 1_000n;
        const least = exact > 2n ** 53n - 1n ? 2n ** 53n - 1n : exact;
        expect(costOf(prices, "m", { input, output })).toBe(Number(least));
      }),
    );
  });

  it("count nonsense that a provider reports as whole numbers from 0", () => {
    const prices = read({ m: { input: 1, output: 1 } });
    const anyNumber = fc.oneof(fc.double(), fc.constantFrom(-1, Number.NaN, 1e308, Infinity));
    fc.assert(
      fc.property(anyNumber, anyNumber, anyNumber, (input, cachedInput, output) => {
        const cost = costOf(prices, "m", { input, cachedInput, output });
        expect(Number.isSafeInteger(cost) && (cost as number) >= 0).toBe(true);
      }),
    );
  });

  it("refuse what is no price, with its place, the value and what is expected", () => {
    const of = (price: unknown) => () => read({ m: price });
    const expected =
      "expected dollars per million tokens: a number from 0 to 1000000 with at most 6 decimals";
    expect(of({ input: -1, output: 1 })).toThrow(`Invalid m.input -1: ${expected}.`);
    expect(of({ input: Number.NaN, output: 1 })).toThrow(/Invalid m\.input NaN/);
    expect(of({ input: 0.0000001, output: 1 })).toThrow(/Invalid m\.input 1e-7/);
    expect(of({ input: "1", output: 1 })).toThrow(/Invalid m\.input "1"/);
    expect(of({ input: 1 })).toThrow(/Missing option "output" in m/);
    expect(of({ input: 1, output: 1, cached: 1 })).toThrow(
      'Unknown option "cached" in m. Valid options: input, cachedInput, cacheWrite, output.',
    );
    expect(() => read([])).toThrow(/Invalid prices \[\]: expected an object with at most 1000/);
  });

  it("match any pattern in time that grows with its length", () => {
    const pattern = `${"a*".repeat(99)}b`;
    const prices = read({ [pattern]: { input: 1, output: 1 } });
    const model = "a".repeat(100_000);
    expect(costOf(prices, model, { input: 1, output: 1 })).toBeUndefined();
  });
});
