/** Rates such as `"1000 per minute"`: their texts, their literal types, and what they mean. */

import type * as z from "zod";
import { parsed } from "../../../core/options/option-schemas.ts";
import type { IsWide } from "../../../core/text.ts";
import { NANODOLLARS } from "../errors.ts";
import type { Rule, Window } from "../keeper/protocol.ts";

/** How long each span is; `undefined` for those of the calendar. */
const SPANS = { second: 1_000, minute: 60_000, hour: 3_600_000, day: undefined, month: undefined };

type Unit = keyof typeof SPANS;

/** `"1000 per minute"`: a number, and second, minute, hour, day or month. `"2_000_000"` is the same as `"2000000"`. */
export type RateText = `${string} per ${Unit}`;

/** A rate as written: its window has no zone yet. */
export type Rate = { readonly amount: number; readonly per: Unit };

/** The most requests or tokens of a rate. */
const MAX_AMOUNT = 1_000_000_000_000;
const MAX_DOLLARS = 1_000_000;

const TEXT = /^(\d+(?:_\d+)*)(?:\.(\d{1,6}))? per (second|minute|hour|day|month)$/;
/** Of a text that is read. */
const MAX_LENGTH = 64;

const SPANS_TEXT = 'then "per" and second, minute, hour, day or month';

/** A rate of requests or tokens. */
export function countRate() {
  return rateSchema(
    (whole, fraction) => (fraction === undefined ? Number(whole) : Number.NaN),
    MAX_AMOUNT,
    `a whole number from 1 to ${MAX_AMOUNT} without commas, ${SPANS_TEXT}, such as "1000 per minute" or "2_000_000 per minute"`,
  );
}

/** A rate of money: dollars as the text has them, whole nanodollars as read. */
export function dollarRate() {
  return rateSchema(
    (whole, fraction = "") => Number(whole) * NANODOLLARS + Number(fraction.padEnd(9, "0")),
    MAX_DOLLARS * NANODOLLARS,
    `dollars from 0.000001 to ${MAX_DOLLARS} without a sign or commas, ${SPANS_TEXT}, such as "20 per day" or "0.50 per hour"`,
  );
}

type AmountOf = (whole: string, fraction: string | undefined) => number;

function rateSchema(amountOf: AmountOf, max: number, expected: string): z.ZodType<Rate, RateText> {
  return parsed<Rate, RateText>((text) => {
    if (typeof text !== "string" || text.length > MAX_LENGTH) return undefined;
    const [, whole, fraction, per] = TEXT.exec(text) ?? [];
    if (whole === undefined) return undefined;
    const amount = amountOf(whole.replaceAll("_", ""), fraction);
    return amount >= 1 && amount <= max ? { amount, per: per as Unit } : undefined;
  }, expected);
}

/** @param zone of a day or a month */
export function ruleOf({ amount, per }: Rate, zone = "UTC"): Rule {
  const ms = SPANS[per];
  const window: Window =
    ms === undefined ? { calendar: per === "month" ? "month" : "day", zone } : { ms };
  return { amount, window };
}

/**
 * A rate of requests or tokens as a literal: the text itself if it is valid, else a sentence that says what is wrong. A type
 * wider than a literal passes: such texts are checked at the start.
 */
export type CountRate<Text extends string> = Checked<Text, false>;

/** The same for a rate of money, which may have a fraction. */
export type DollarRate<Text extends string> = Checked<Text, true>;

type Checked<Text extends string, MayHaveFraction extends boolean> = Text extends unknown
  ? IsWide<Text> extends true
    ? Text
    : Problem<Text, MayHaveFraction> extends infer Sentence extends string
      ? Sentence
      : Text
  : never;

/** A sentence about the first mistake, or null. */
type Problem<
  Text extends string,
  MayHaveFraction,
> = Text extends `${infer Amount} per ${infer Span}`
  ? Span extends Unit
    ? AmountProblem<Amount, MayHaveFraction>
    : `"per" must be followed by second, minute, hour, day or month, not "${Span}"`
  : `expected a number, "per", and second, minute, hour, day or month, not "${Text}"`;

type AmountProblem<
  Amount extends string,
  MayHaveFraction,
> = Amount extends `${infer Whole}.${infer Part}`
  ? MayHaveFraction extends true
    ? IsNumber<Whole> extends true
      ? IsDigits<Part> extends true
        ? IsZero<`${Whole}${Part}`> extends true
          ? NotZero
          : null
        : NotNumber<Amount>
      : NotNumber<Amount>
    : `expected a whole number, not "${Amount}"`
  : IsNumber<Amount> extends true
    ? IsZero<Amount> extends true
      ? NotZero
      : null
    : NotNumber<Amount>;

type NotZero = "expected a number greater than 0";
type NotNumber<Amount extends string> =
  `expected a number in digits, such as 1000 or 1_000, not "${Amount}"`;

type Digit = "0" | "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9";

/** Digits, with single underscores between them. */
type IsNumber<Text extends string> = Text extends `${infer Head}_${infer Tail}`
  ? IsDigits<Head> extends true
    ? IsNumber<Tail>
    : false
  : IsDigits<Text>;

type IsDigits<Text extends string> = Text extends `${Digit}${infer Rest}`
  ? Rest extends ""
    ? true
    : IsDigits<Rest>
  : false;

type IsZero<Text extends string> = Text extends ""
  ? true
  : Text extends `${"0" | "_"}${infer Rest}`
    ? IsZero<Rest>
    : false;
