/** What a measure has found, what it was to reach, and whether it has. Without I/O. */

export type Result = {
  /** What was measured, in words. */
  readonly what: string;
  readonly unit: string;
  readonly perdure: number;
  /** The same of the built-in in the same run, where it has such a thing. */
  readonly builtIn?: number | undefined;
  readonly limit?: Limit | undefined;
};

type Limit = Exact | Told;

/** A count or a size, the same on every machine: above it, the run fails. */
export type Exact = {
  readonly kind: "exact";
  /** What it is to reach. */
  readonly atMost: number;
  /** As far as it can be brought down, and why: what fails the run in place of `atMost`. */
  readonly floor?: { readonly atMost: number; readonly why: string } | undefined;
};

/** A time, or made of times: it is told, and never fails the run. */
type Told = { readonly kind: "told"; readonly goal: string; readonly isReached: boolean };

export type Verdict = "ok" | "floor" | "missed" | "FAILED";

/**
 * `ok` for what reaches its goal and for what has none, `floor` for a count that is as low as it can be, `missed` for a
 * time that does not, `FAILED` for a count above its limit.
 */
export function verdictOf({ perdure, limit }: Result): Verdict {
  if (!limit) return "ok";
  if (limit.kind === "told") return limit.isReached ? "ok" : "missed";
  // What could not be measured is no number, and below nothing.
  if (perdure <= limit.atMost) return "ok";
  return limit.floor && perdure <= limit.floor.atMost ? "floor" : "FAILED";
}

export function atMost(atMost: number, floor?: Exact["floor"]): Exact {
  return { kind: "exact", atMost, floor };
}

/** So many times the built-in's, or more. */
export function timesMore(result: Result, factor: number): Result {
  const { perdure, builtIn = Number.NaN } = result;
  return told(result, `${factor} times the built-in's`, perdure >= factor * builtIn);
}

/** So much of the built-in's, or less. */
export function shareOf(result: Result, share: number): Result {
  const { perdure, builtIn = Number.NaN } = result;
  return told(result, `${share} of the built-in's`, perdure <= share * builtIn);
}

export function told(result: Result, goal: string, isReached: boolean): Result {
  return { ...result, limit: { kind: "told", goal, isReached } };
}

/** The number in the middle. */
export function median(numbers: readonly number[]): number {
  return quantile(numbers, 0.5);
}

/** The smallest number that so large a share of them does not exceed. */
export function quantile(numbers: readonly number[], share: number): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}

/** By how much they grow from one to the next, by least squares. */
export function slope(numbers: readonly number[]): number {
  const middle = (numbers.length - 1) / 2;
  const mean = numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
  let above = 0;
  let below = 0;
  for (const [index, number] of numbers.entries()) {
    above += (index - middle) * (number - mean);
    below += (index - middle) ** 2;
  }
  return above / below;
}
