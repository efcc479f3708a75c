/** The result of a measure, its limit, and whether it is within the limit. No I/O. */

export type Result = {
  /** A description of the value. */
  readonly what: string;
  readonly unit: string;
  readonly perdure: number;
  /** The value of Think's own implementation in the same run, if it has one. */
  readonly builtIn?: number | undefined;
  readonly limit?: Limit | undefined;
};

type Limit = Exact | Reported;

/** A count or a size, the same on every machine: above it, the run fails. */
export type Exact = {
  readonly kind: "exact";
  /** The goal. */
  readonly atMost: number;
  /** The lowest possible value, and why. It replaces `atMost` as the limit of the run. */
  readonly floor?: { readonly atMost: number; readonly why: string } | undefined;
};

/** A time, or a value of times. It is reported, and fails the run only if it is below a floor that a loaded machine holds. */
type Reported = {
  readonly kind: "reported";
  readonly goal: string;
  readonly isReached: boolean;
  readonly isBelowFloor?: boolean;
};

export type Verdict = "ok" | "floor" | "missed" | "FAILED";

/**
 * `ok`: reaches its goal, or has none. `floor`: a count at its lowest possible value. `missed`: a time that does not reach its
 * goal. `FAILED`: a count above its limit, or a ratio below its floor.
 */
export function verdictOf({ perdure, limit }: Result): Verdict {
  if (!limit) return "ok";
  if (limit.kind === "reported") {
    if (limit.isBelowFloor) return "FAILED";
    return limit.isReached ? "ok" : "missed";
  }
  // A missing measurement is NaN, which is never below a limit.
  if (perdure <= limit.atMost) return "ok";
  return limit.floor && perdure <= limit.floor.atMost ? "floor" : "FAILED";
}

export function atMost(atMost: number, floor?: Exact["floor"]): Exact {
  return { kind: "exact", atMost, floor };
}

/** At least `factor` times the value of Think's own implementation, in the same run. Below `floor` times it the run fails. */
export function timesMore(result: Result, factor: number, floor = 0): Result {
  const { perdure, builtIn = Number.NaN } = result;
  const goal = `${factor} times the built-in's${floor ? `; fails below ${floor}` : ""}`;
  const isBelowFloor = perdure < floor * builtIn;
  return {
    ...result,
    limit: { kind: "reported", goal, isReached: perdure >= factor * builtIn, isBelowFloor },
  };
}

/** At most `share` of the value of Think's own implementation. */
export function shareOf(result: Result, share: number): Result {
  const { perdure, builtIn = Number.NaN } = result;
  return reported(result, `${share} of the built-in's`, perdure <= share * builtIn);
}

export function reported(result: Result, goal: string, isReached: boolean): Result {
  return { ...result, limit: { kind: "reported", goal, isReached } };
}

/** The median. */
export function median(numbers: readonly number[]): number {
  return quantile(numbers, 0.5);
}

/** The percentile. */
export function quantile(numbers: readonly number[], share: number): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}

/** The slope, by least squares. */
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
