/** How a prompt can fail. Names and fields are those of Think's documented errors. */

import { durationText } from "../../core/duration.ts";
import { SchemaMismatchError } from "../../core/schema.ts";
import type { TerminalStatus } from "../../submissions/states.ts";

/** A prompt ended without an answer. */
export class ThinkPromptError extends Error {
  override name = "ThinkPromptError";
  /** The name of the step. */
  declare readonly stepName?: string;
  /** Which item of `step.promptAll()` it was, from 0 on. */
  declare readonly index?: number;
  /** The key of that item. */
  declare readonly key?: string;
  constructor(
    message: string,
    /** The submission in the agent's ledger: `agent.inspectSubmission(submissionId)` tells more. */
    readonly submissionId: string,
    /** How the submission ended. */
    readonly status: TerminalStatus,
    cause?: unknown,
  ) {
    super(message, { cause });
  }
}

/** The submission was cancelled. */
export class ThinkPromptAbortedError extends ThinkPromptError {
  override name = "ThinkPromptAbortedError";
  constructor(submissionId: string, message = "Think prompt was aborted") {
    super(message, submissionId, "aborted");
  }
}

/** The agent's turns were reset before the prompt ran. */
export class ThinkPromptSkippedError extends ThinkPromptError {
  override name = "ThinkPromptSkippedError";
  constructor(submissionId: string, message = "Think prompt was skipped") {
    super(message, submissionId, "skipped");
  }
}

/** The prompt had not ended within its `timeout`; the ledger was asked before (W2). */
export class ThinkPromptTimeoutError extends ThinkPromptError {
  override name = "ThinkPromptTimeoutError";
  constructor(
    submissionId: string,
    cause?: unknown,
    /** How long it was waited for, in milliseconds. */
    readonly timeoutMs?: number,
  ) {
    const after = timeoutMs === undefined ? "" : ` after ${durationText(timeoutMs)}`;
    super(`Timed out waiting for Think prompt${after}`, submissionId, "error", cause);
  }
}

/** The agent no longer has the submission: it was deleted, or the agent was destroyed. The prompt is not run again. */
export class ThinkPromptNotFoundError extends ThinkPromptError {
  override name = "ThinkPromptNotFoundError";
  constructor(submissionId: string, message: string) {
    super(message, submissionId, "error");
  }
}

/**
 * The model's answer does not match the schema. `cause` is the error of the schema's library: a `ZodError` of Zod, the
 * issues of any other; where the agent found it, an `Error` that says what was wrong.
 */
export class ThinkPromptValidationError extends ThinkPromptError {
  override name = "ThinkPromptValidationError";
  /** What was wrong, in one line. */
  readonly problem: string;
  constructor(submissionId: string, cause?: unknown) {
    const problem = cause instanceof Error ? cause.message : "";
    const message = `Think prompt returned invalid structured output${problem && `: ${problem}`}`;
    const own = cause instanceof SchemaMismatchError ? cause.cause : cause;
    super(message, submissionId, "error", own);
    this.problem = problem;
  }
}

/** The error, where it is of a prompt, with the step in its message: an instance may have many. */
export function namingStep(error: unknown, stepName: string, step: string): unknown {
  if (!(error instanceof ThinkPromptError) || error.stepName !== undefined) return error;
  error.message = `${step}: ${error.message}`;
  return Object.assign(error, { stepName });
}
