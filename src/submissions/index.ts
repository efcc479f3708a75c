/** `perdure/submissions`: types and errors for code beside the agent. Loads neither Think nor the module's code. */

export type { Json } from "../core/json.ts";
export type { Instant } from "../core/options/instant.ts";
export type { Duration } from "../core/options/options.ts";
export { InvalidOptionError } from "../core/options/options.ts";
export { type AnySchema, jsonSchemaOf } from "../core/schema/schema.ts";
export { NewerSchemaError } from "../engine/migrations.ts";
export {
  AnswerTooLargeError,
  BacklogFullError,
  BudgetExceededError,
  BusyError,
  IdempotencyConflictError,
  InvalidSubmissionError,
  ListScanLimitError,
  SubmissionIdentityError,
  SubmissionOutputError,
  ToolCallLimitError,
  ToolStepLimitError,
  TurnStalledError,
  UnknownCursorError,
  UsageNotReportedError,
} from "./errors.ts";
export { readOutput } from "./read-output.ts";
export type { SubmissionStatus, TerminalStatus } from "./states.ts";
export type {
  AnswerStrategy,
  Debounce,
  JsonSchema,
  OutputSchema,
  SubmitMessagesOptions,
  WhenBusy,
} from "./submit-options.ts";
export type {
  CancelSubmissionResult,
  DeleteSubmissionsOptions,
  FailedAttempt,
  ListSubmissionsOptions,
  OutputOfRef,
  SubmissionEnd,
  SubmissionEvent,
  SubmissionInspection,
  SubmissionOutput,
  SubmissionRef,
  SubmissionStats,
  SubmitMessagesResult,
  Submitted,
  TokenUsage,
  WaitForSubmissionOptions,
} from "./types.ts";
