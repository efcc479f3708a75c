/** The ledger of accepted turns, and the seam for hosts that run them: what other modules import. Users have `public.ts`. */

export { invalidSubmission } from "./errors.ts";
export type { Admission, Gate, GivenLimits, StoredLimits, WaitedFor, WaitingFor } from "./gate.ts";
export {
  type AnswerState,
  type AttemptRef,
  type CallSteps,
  type CheckedSubmission,
  type ConversationState,
  endWithAnswer,
  FINAL_ANSWER,
  isFinalAnswer,
  type SettledCall,
  type SubmittedTurn,
  type ToolCalls,
  type Turn,
  type TurnEnd,
  type TurnFacts,
  type TurnHost,
  TurnRefused,
} from "./host.ts";
export * from "./index.ts";
export {
  type PromptingStep,
  promptingStepOf,
  shortEndOf,
  traceOfSubmission,
  traceOfWorkflow,
} from "./inspection.ts";
export { checkId, checkThread } from "./intake/filters.ts";
export type { Asked, IntakeResult } from "./intake/intake.ts";
export { LEDGER_OPTIONS, type LedgerOptions } from "./options.ts";
export { type BatchState, endedEvent } from "./store/batches.ts";
export { costsByDay } from "./store/costs.ts";
export { endRun, hasOpenTurn, type KeyedRow, withKeyPrefix } from "./store/keyed.ts";
export {
  type LimitWaits,
  limitWaits,
  type StartedTurn,
  startedTurns,
} from "./store/limit-waits.ts";
export {
  type InterruptedSubmission,
  interruptedSubmissions,
  openBatches,
  openSubmissions,
} from "./store/open-work.ts";
export {
  ISOLATED,
  isIsolated,
  isTerminal,
  MAIN,
  type NewSubmission,
  publicThreadOf,
  type Submission,
} from "./store/rows.ts";
export { listThreads, type Place, type Places, ThreadHistory } from "./store/threads.ts";
export {
  promptsOfWorkflow,
  type TracedSubmission,
  tracedSubmission,
} from "./store/traced.ts";
export { waitInMemory } from "./store/waiting.ts";
export { Submissions } from "./submissions.ts";
export type { AnswerSpec, OwnerOptions, SubmitItem } from "./submit-options.ts";
export { installGate } from "./turns/admission.ts";
export type { AttemptPlan } from "./turns/next-attempt.ts";
export type { TurnEngine } from "./turns/turn-engine.ts";
export type { PromptEnd } from "./types.ts";
