/** What a model reports of the tokens of a call, and a harness of those of a turn, which may be anything. Pure. */

import type { PricedTokens } from "../declared/prices.ts";

/** A report of more tokens is no report. */
const MOST_TOKENS = 100_000_000;

type Tokens = {
  readonly total?: unknown;
  readonly cacheRead?: unknown;
  readonly cacheWrite?: unknown;
};
type Details = { readonly cacheReadTokens?: unknown; readonly cacheWriteTokens?: unknown };
/** Of a model of the AI SDK; with details, as the AI SDK itself reports it. */
type Reported = {
  readonly inputTokens?: Tokens | null;
  readonly outputTokens?: Tokens | null;
  readonly inputTokenDetails?: Details | null;
};

/** The numbers of a report that can be tokens. */
export function usageOf(reported: unknown) {
  const { inputTokens, outputTokens, inputTokenDetails } = (reported ?? {}) as Reported;
  return {
    input: countOf(inputTokens?.total ?? inputTokens),
    cachedInput: countOf(inputTokens?.cacheRead ?? inputTokenDetails?.cacheReadTokens),
    cacheWrite: countOf(inputTokens?.cacheWrite ?? inputTokenDetails?.cacheWriteTokens),
    output: countOf(outputTokens?.total ?? outputTokens),
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
