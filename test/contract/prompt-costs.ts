/**
 * What a warm prompt costs. `cost.test.ts` here and in `test/hosts/think` checks the counts, and `npm run fix:docs` derives the
 * dollars of docs/cost.md from them.
 */

export type PromptCost = {
  readonly rowsWritten: number;
  readonly rowsRead: number;
  readonly setAlarms: number;
  /** Of the Workflow. */
  readonly steps: number;
};

/** By host: a durable start, an isolated step.prompt(), and the end of the workflow. */
export const PROMPT_COSTS: Readonly<Record<string, PromptCost>> = {
  "perdure/agent": { rowsWritten: 18, rowsRead: 43, setAlarms: 2, steps: 2 },
  "perdure/object": { rowsWritten: 15, rowsRead: 43, setAlarms: 2, steps: 2 },
  "perdure/think": { rowsWritten: 18, rowsRead: 44, setAlarms: 2, steps: 2 },
  "perdure/chat": { rowsWritten: 18, rowsRead: 43, setAlarms: 2, steps: 2 },
};

/** In the conversation, started by `runWorkflow()` of `agents`. */
export const CONVERSATION_COSTS = {
  perdure: { rowsWritten: 39, rowsRead: 110, setAlarms: 5, steps: 2 },
  builtIn: { rowsWritten: 58, rowsRead: 228, setAlarms: 18, steps: 2 },
} as const satisfies Record<string, PromptCost>;
