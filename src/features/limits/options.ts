/** The options of submissions that concern limits: `concurrency`, `rate`, `singleton` and `budget.usd`. */

import * as z from "zod";
import {
  check,
  count,
  oneOf,
  optionsOf,
  readOptions,
  text,
} from "../../core/options/option-schemas.ts";
import { invalidSubmission } from "../../submissions/errors.ts";
import type { GivenLimits } from "../../submissions/gate.ts";
import type { StoredLimits } from "../../submissions/store/rows.ts";
import { countRate, type Rate } from "./declared/rates.ts";
import { NANODOLLARS } from "./errors.ts";

type Keyed<Limit> = { readonly key: string; readonly limit: Limit };

/** What the row of a submission has of them. */
export type OwnLimits = {
  readonly concurrency?: Keyed<number>;
  readonly rate?: Keyed<Rate>;
  readonly singleton?: "replace" | "skip";
  /** Dollars. */
  readonly usd?: number;
};

const MOST_DOLLARS = 1_000_000;
const KEY = text({ maxLength: 256 });

type Options = Omit<GivenLimits, "rate"> & { readonly rate: Keyed<string> | undefined };

const OPTIONS = optionsOf<Options>()({
  concurrency: optionsOf<{ key: string; limit: number }>()({
    key: KEY,
    limit: count({ max: 1_000_000 }),
  }).optional(),
  rate: optionsOf<Keyed<string>>()({
    key: KEY,
    limit: countRate() as unknown as z.ZodType<Rate, string>,
  }).optional(),
  singleton: oneOf(["replace", "skip"]).optional(),
  budget: optionsOf<NonNullable<GivenLimits["budget"]>>()({
    tokens: z.custom<number>().optional(),
    usd: check<number>(
      (usd) => typeof usd === "number" && usd * NANODOLLARS >= 1 && usd <= MOST_DOLLARS,
      `dollars above 0, at most ${MOST_DOLLARS}`,
    ).optional(),
  }).optional(),
});

const NAMES = ["concurrency", "rate", "singleton", "budget"] as const;

/** @throws InvalidSubmissionError */
export function readOwnLimits(given: GivenLimits): StoredLimits | undefined {
  // The caller's other options are read elsewhere.
  const own = Object.fromEntries(NAMES.map((name) => [name, given[name]])) as Options;
  const options = readOptions(OPTIONS, own, "options", invalidSubmission);
  const { concurrency, rate, singleton, budget } = options;
  if (singleton && !concurrency)
    throw invalidSubmission(
      "singleton",
      `Invalid singleton ${JSON.stringify(singleton)}: expected it with concurrency, whose key names the work. Add concurrency: { key, limit: 1 }.`,
    );
  const stored: OwnLimits = {
    ...(concurrency && { concurrency }),
    ...(rate && { rate }),
    ...(singleton && { singleton }),
    ...(budget?.usd !== undefined && { usd: budget.usd }),
  };
  return Object.keys(stored).length > 0 ? (stored as StoredLimits) : undefined;
}
