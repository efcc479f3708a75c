/** The options of submissions that need limits(), by the name that the error shows: also those of untyped callers. */
export const WITHOUT_LIMITS: readonly (readonly [usedBy: string, options: object])[] = [
  ["concurrency", { concurrency: { key: "customer-7", limit: 2 } }],
  ["concurrency", { concurrency: { key: "customer-7", limit: 1 }, singleton: "skip" }],
  ["concurrency", { concurrency: null }],
  ["concurrency", { concurrency: "many" }],
  ["rate", { rate: { key: "customer-7", limit: "10 per minute" } }],
  ["rate", { rate: 0 }],
  ["singleton", { singleton: "replace" }],
  ["singleton", { singleton: false }],
  ["budget.usd", { budget: { usd: 0.5 } }],
  ["budget.usd", { budget: { tokens: 100, usd: "free" } }],
  ["budget.usd", { budget: { usd: null } }],
];
