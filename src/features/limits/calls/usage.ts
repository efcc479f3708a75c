/** Token counts that a model reports for a call, which may be anything. Pure. */

import type { PricedTokens } from "../declared/prices.ts";

/** A report of more tokens is no report. */
const MOST_TOKENS = 100_000_000;

type Tokens = {
  readonly total?: unknown;
  readonly cacheRead?: unknown;
  readonly cacheWrite?: unknown;
};
/** Of a model of the AI SDK. */
type Reported = {
  readonly inputTokens?: Tokens | null;
  readonly outputTokens?: Tokens | null;
};

/** The numbers of a report that can be tokens. */
export function usageOf(reported: unknown) {
  const { inputTokens, outputTokens } = (reported ?? {}) as Reported;
  return {
    input: countOf(inputTokens?.total),
    cachedInput: countOf(inputTokens?.cacheRead),
    cacheWrite: countOf(inputTokens?.cacheWrite),
    output: countOf(outputTokens?.total),
  };
}

/**
 * The tokens of a call that has ended, by the worst case where they are not known. No prompt has 0 tokens: providers of the AI SDK
 * report 0 for a usage of null.
 */
export function usedTokens(
  { input, cachedInput, cacheWrite, output }: ReturnType<typeof usageOf>,
  worst: Pick<PricedTokens, "input" | "output">,
  hasOutput: boolean,
): PricedTokens {
  const isKnown = output !== undefined && (output > 0 || !hasOutput);
  return {
    ...{ input: input || worst.input, cachedInput, cacheWrite },
    output: isKnown ? output : worst.output,
  };
}

function countOf(value: unknown): number | undefined {
  const isCount = typeof value === "number" && value >= 0 && value <= MOST_TOKENS;
  return isCount ? Math.ceil(value) : undefined;
}
