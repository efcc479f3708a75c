/** How a prompt can fail. Names and fields are those of Think's documented errors. */

import type { TerminalStatus } from "../../submissions/states.ts";

/** A prompt ended without an answer. */
export class ThinkPromptError extends Error {
  override name = "ThinkPromptError";
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
  constructor(submissionId: string, cause?: unknown) {
    super("Timed out waiting for Think prompt", submissionId, "error", cause);
  }
}

/** The agent no longer has the submission: it was deleted, or the agent was destroyed. The prompt is not run again. */
export class ThinkPromptNotFoundError extends ThinkPromptError {
  override name = "ThinkPromptNotFoundError";
  constructor(submissionId: string, message: string) {
    super(message, submissionId, "error");
  }
}

/** The model's answer does not match the schema (W4). */
export class ThinkPromptValidationError extends ThinkPromptError {
  override name = "ThinkPromptValidationError";
  constructor(submissionId: string, cause?: unknown) {
    const detail = cause instanceof Error ? `: ${cause.message}` : "";
    super(`Think prompt returned invalid structured output${detail}`, submissionId, "error", cause);
  }
}
