/** `perdure/submissions`: the ledger of accepted turns, and the seam for hosts that run them. */

export type { Duration } from "../core/duration.ts";
export { NewerSchemaError } from "../core/migrations.ts";
export { InvalidOptionError } from "../core/options.ts";
export type { Asking } from "./asking.ts";
export {
  AnswerTooLargeError,
  BacklogFullError,
  BudgetExceededError,
  BusyError,
  IdempotencyConflictError,
  InvalidSubmissionError,
  ListScanLimitError,
  SubmissionIdentityError,
  ToolCallLimitError,
  TurnStalledError,
  UnknownCursorError,
  UsageNotReportedError,
} from "./errors.ts";
export type { LedgerOptions } from "./options.ts";
export {
  acceptPrompts,
  awaitPrompts,
  expirePrompts,
  type PromptsExpiry,
  type PromptsFailure,
  type PromptsPage,
  type PromptsReceipt,
  type PromptsRequest,
  type PromptsState,
  type PromptsWait,
  readPrompts,
  refusePrompts,
} from "./prompt-batches.ts";
export { acceptPrompt, expirePrompt, readPrompt } from "./prompts.ts";
export type { SubmissionStatus, TerminalStatus } from "./states.ts";
export { Submissions, type SubmissionsOptions } from "./submissions.ts";
export {
  type AnswerState,
  type AttemptRef,
  type CallEnd,
  endWithAnswer,
  ISOLATED,
  isIsolated,
  MAIN,
  type SettledCall,
  type ToolCalls,
  type ToolDecision,
  type Trace,
  type Turn,
  type TurnEnd,
  type TurnHost,
  type TurnLedger,
  TurnRefused,
  type TurnTraces,
} from "./turn.ts";
export type {
  AnswerPart,
  AnswerSpec,
  AnswerStrategy,
  CancelSubmissionResult,
  Debounce,
  DeleteSubmissionsOptions,
  FailedAttempt,
  ListSubmissionsOptions,
  PromptEnd,
  PromptMessage,
  PromptReceipt,
  PromptRequest,
  SubmissionEnd,
  SubmissionEvent,
  SubmissionInspection,
  SubmissionStats,
  SubmitMessagesOptions,
  SubmitMessagesResult,
  TokenUsage,
  WaitForSubmissionOptions,
  WhenBusy,
} from "./types.ts";
