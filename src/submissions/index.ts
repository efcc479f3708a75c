/** The ledger of accepted turns, and the seam for hosts that run them: what other modules import. Users have `public.ts`. */

export {
  type AnswerState,
  type AttemptRef,
  type CheckedSubmission,
  type ConversationState,
  endWithAnswer,
  FINAL_ANSWER,
  isFinalAnswer,
  isIsolated,
  MAIN,
  type SettledCall,
  type SubmittedTurn,
  type Turn,
  type TurnEnd,
  type TurnHost,
  TurnRefused,
} from "./host.ts";
export { checkId, checkThread } from "./intake/filters.ts";
export { LEDGER_OPTIONS, type LedgerOptions } from "./options.ts";
export * from "./public.ts";
export { isTerminal } from "./states.ts";
export { Submissions } from "./submissions.ts";
export type { AttemptPlan } from "./turns/attempt-plan.ts";
export type { PromptEnd } from "./types.ts";
