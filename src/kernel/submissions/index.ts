/** `perdure/submissions`: types and errors for code beside the agent. Loads neither Think nor the module's code. */

export type { Json } from "../../core/json.ts";
export { NewerSchemaError, OlderSchemaError } from "../../core/lifecycle/migrations.ts";
export type { Duration } from "../../core/options/duration.ts";
export type { Instant } from "../../core/options/instant.ts";
export { InvalidOptionError } from "../../core/options/options.ts";
export { type AnySchema, jsonSchemaOf } from "../../core/schema/schema.ts";
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
export type { SubmissionStatus, TerminalStatus } from "./store/rows.ts";
export type {
  AnswerStrategy,
  CancelSubmissionResult,
  Debounce,
  DeleteSubmissionsOptions,
  FailedAttempt,
  JsonSchema,
  ListSubmissionsOptions,
  OutputOfRef,
  OutputSchema,
  SubmissionEnd,
  SubmissionEvent,
  SubmissionInspection,
  SubmissionOutput,
  SubmissionRef,
  SubmissionStats,
  SubmitMessagesOptions,
  SubmitMessagesResult,
  Submitted,
  TokenUsage,
  WaitForSubmissionOptions,
  WhenBusy,
} from "./types.ts";
