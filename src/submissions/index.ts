/** `perdure/submissions`: the ledger of accepted turns, and the seam for hosts that run them. */

export { NewerSchemaError } from "../core/migrations.ts";
export {
  BacklogFullError,
  BusyError,
  IdempotencyConflictError,
  InvalidSubmissionError,
  SubmissionIdentityError,
} from "./errors.ts";
export { InvalidOptionError, type LedgerOptions } from "./options.ts";
export { acceptPrompt, expirePrompt } from "./prompts.ts";
export type { SubmissionStatus, TerminalStatus } from "./states.ts";
export { Submissions, type SubmissionsOptions } from "./submissions.ts";
export {
  type AttemptRef,
  endWithAnswer,
  type Trace,
  type Turn,
  type TurnEnd,
  type TurnHost,
  TurnRefused,
} from "./turn.ts";
export type {
  AnswerSpec,
  CancelSubmissionResult,
  DeleteSubmissionsOptions,
  ListSubmissionsOptions,
  PromptReceipt,
  PromptRequest,
  SubmissionEnd,
  SubmissionInspection,
  SubmissionStats,
  SubmitMessagesOptions,
  SubmitMessagesResult,
  TokenUsage,
  WaitForSubmissionOptions,
} from "./types.ts";
