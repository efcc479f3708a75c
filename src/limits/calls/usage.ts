/** What a model reports of the tokens of a call, which may be anything. Pure. */

/** A report of more tokens is no report. */
const MOST_TOKENS = 100_000_000;

/** The numbers of a report that can be tokens. */
export function usageOf(reported: unknown) {
  const { inputTokens, outputTokens } = (reported ?? {}) as {
    inputTokens?: Readonly<Record<string, unknown>>;
    outputTokens?: Readonly<Record<string, unknown>>;
  };
  return {
    input: countOf(inputTokens?.total),
    cachedInput: countOf(inputTokens?.cacheRead),
    cacheWrite: countOf(inputTokens?.cacheWrite),
    output: countOf(outputTokens?.total),
  };
}

function countOf(value: unknown): number | undefined {
  const isCount = typeof value === "number" && value >= 0 && value <= MOST_TOKENS;
  return isCount ? Math.ceil(value) : undefined;
}
