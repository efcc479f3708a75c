/** `perdure/submissions`: the ledger of accepted turns, and the seam for hosts that run them. */

export type { Duration } from "../core/duration.ts";
export { NewerSchemaError } from "../core/migrations.ts";
export { InvalidOptionError } from "../core/options.ts";
export {
  AnswerTooLargeError,
  BacklogFullError,
  BudgetExceededError,
  BusyError,
  IdempotencyConflictError,
  InvalidSubmissionError,
  SubmissionIdentityError,
  TurnStalledError,
  UnknownCursorError,
} from "./errors.ts";
export type { LedgerOptions } from "./options.ts";
export { acceptPrompt, expirePrompt, readPrompt } from "./prompts.ts";
export type { SubmissionStatus, TerminalStatus } from "./states.ts";
export { Submissions, type SubmissionsOptions } from "./submissions.ts";
export {
  type AttemptRef,
  endWithAnswer,
  ISOLATED,
  MAIN,
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
  CancelSubmissionResult,
  Debounce,
  DeleteSubmissionsOptions,
  FailedAttempt,
  ListSubmissionsOptions,
  PromptEnd,
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
