/** What model calls cost, by the app's table of prices. Money is counted in whole nanodollars, and never too low. */

import * as z from "zod";
import { check, optionsOf, parsed, text } from "../../../core/options/option-schemas.ts";
import { isPlainObject } from "../../../core/options/options.ts";
import { bySpecificity, MAX_PATTERN, namesModel } from "./models.ts";

/** Dollars per million tokens, with at most 6 decimals. */
export type Price = {
  readonly input: number;
  /** Input that the provider reads from its cache. @default input */
  readonly cachedInput?: number | undefined;
  /** Input that the provider writes to its cache. @default input */
  readonly cacheWrite?: number | undefined;
  readonly output: number;
};

/** By the model, `<provider>/<modelId>` or `<modelId>`; `*` stands for any characters. The most specific name wins. */
export type PriceTable = Readonly<Record<string, Price>>;

/** Tokens of a model call: whole numbers from 0. */
export type PricedTokens = {
  /** All of the input, cached or not. */
  readonly input: number;
  readonly cachedInput?: number | undefined;
  readonly cacheWrite?: number | undefined;
  readonly output: number;
};

/** Picodollars per token, whole numbers: dollars per million tokens with their 6 decimals. */
type UnitPrice = Readonly<Record<keyof PricedTokens, number>>;

/** Patterns with their prices: the first that matches is the most specific. */
export type Prices = readonly (readonly [pattern: string, price: UnitPrice])[];

const MAX_DOLLARS = 1_000_000;
const MAX_MODELS = 1_000;
/** More tokens than any call has: a wrong report cannot cost more. */
const MAX_TOKENS = 1_000_000_000_000;

const DOLLARS = `dollars per million tokens: a number from 0 to ${MAX_DOLLARS} with at most 6 decimals`;

const dollars = () => parsed<number, number>(picodollarsOf, DOLLARS);

const PRICE = optionsOf<Price>()({
  input: dollars(),
  cachedInput: dollars().optional(),
  cacheWrite: dollars().optional(),
  output: dollars(),
}).transform(
  ({ input, cachedInput = input, cacheWrite = input, output }): UnitPrice => ({
    input,
    cachedInput,
    cacheWrite,
    output,
  }),
);

const TABLE = `an object with at most ${MAX_MODELS} prices by model, such as { "openai/gpt-5-mini": { input: 0.25, output: 2 } }`;

/** A table of prices, read to {@link Prices}. */
export function priceTable(): z.ZodType<Prices, PriceTable> {
  const isTable = (value: unknown) =>
    isPlainObject(value) && Object.keys(value).length <= MAX_MODELS;
  return check<PriceTable>(isTable, TABLE)
    .pipe(z.record(text({ maxLength: MAX_PATTERN }), PRICE))
    .transform((table) =>
      bySpecificity(Object.keys(table)).map(
        (pattern) => [pattern, table[pattern] as UnitPrice] as const,
      ),
    );
}

/** A price in picodollars per token; undefined for one that is invalid. */
function picodollarsOf(price: unknown): number | undefined {
  if (typeof price !== "number" || !(price >= 0 && price <= MAX_DOLLARS)) return undefined;
  const whole = Number((price * 1e6).toPrecision(15));
  return Number.isInteger(whole) ? whole : undefined;
}

/**
 * What a model call costs in nanodollars, rounded up; undefined for a model without a price.
 *
 * @param model `<provider>/<modelId>`
 */
export function costOf(prices: Prices, model: string, tokens: PricedTokens): number | undefined {
  const price = priceOf(prices, model);
  if (!price) return undefined;
  const input = countOf(tokens.input);
  const cached = Math.min(countOf(tokens.cachedInput), input);
  const written = Math.min(countOf(tokens.cacheWrite), input - cached);
  return nanodollarsOf([
    [input - cached - written, price.input],
    [cached, price.cachedInput],
    [written, price.cacheWrite],
    [countOf(tokens.output), price.output],
  ]);
}

/** The most that a model call can cost in nanodollars, however much of its input is cached; undefined without a price. */
export function mostCostOf(
  prices: Prices,
  model: string,
  tokens: Pick<PricedTokens, "input" | "output">,
): number | undefined {
  const price = priceOf(prices, model);
  if (!price) return undefined;
  const { input, cachedInput, cacheWrite, output } = price;
  return nanodollarsOf([
    [countOf(tokens.input), Math.max(input, cachedInput, cacheWrite)],
    [countOf(tokens.output), output],
  ]);
}

function priceOf(prices: Prices, model: string): UnitPrice | undefined {
  return prices.find(([pattern]) => namesModel(pattern, model))?.[1];
}

/** The sum of tokens times picodollars, rounded up. It can be larger than a number holds exactly. */
function nanodollarsOf(parts: readonly (readonly [tokens: number, picodollars: number])[]): number {
  const sum = parts.reduce((total, [tokens, each]) => total + BigInt(tokens) * BigInt(each), 0n);
  return Math.min(Number((sum + 999n) / 1_000n), Number.MAX_SAFE_INTEGER);
}

/** Tokens as a whole number, also from a provider that reports none, or nonsense. */
function countOf(tokens: number | undefined): number {
  if (tokens === undefined || !(tokens > 0)) return 0;
  return Math.ceil(Math.min(tokens, MAX_TOKENS));
}
