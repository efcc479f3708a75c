/** How the steps can fail. Names and fields of the errors of prompts are those that Think documents. */

import type { StandardSchemaV1 } from "@standard-schema/spec";
import { failureOf } from "../core/failures.ts";
import { preview } from "../core/json.ts";
import { durationText } from "../core/options/options.ts";
import { SchemaMismatchError } from "../core/schema/schema.ts";
import type { TerminalStatus } from "../submissions/states.ts";

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
    /** The submission in the agent's ledger: see `agent.inspectSubmission(submissionId)`. */
    readonly submissionId: string,
    /** How the submission ended. */
    readonly status: TerminalStatus,
    cause?: unknown,
  ) {
    super(message, { cause });
  }
}

const ASK_AGAIN = "Restart the workflow to ask again.";

/** The submission was cancelled. */
export class ThinkPromptAbortedError extends ThinkPromptError {
  override name = "ThinkPromptAbortedError";
  constructor(submissionId: string, message = `Think prompt was aborted. ${ASK_AGAIN}`) {
    super(message, submissionId, "aborted");
  }
}

/** The agent's turns were reset before the prompt ran. */
export class ThinkPromptSkippedError extends ThinkPromptError {
  override name = "ThinkPromptSkippedError";
  constructor(
    submissionId: string,
    message = `Think prompt was skipped: the agent's turns were reset. ${ASK_AGAIN}`,
  ) {
    super(message, submissionId, "skipped");
  }
}

/** The prompt had not ended within its `timeout`; the ledger was asked before. */
export class ThinkPromptTimeoutError extends ThinkPromptError {
  override name = "ThinkPromptTimeoutError";
  constructor(
    submissionId: string,
    cause?: unknown,
    /** How long it was waited for, in milliseconds. */
    readonly timeoutMs?: number,
  ) {
    const after = timeoutMs === undefined ? "" : ` after ${durationText(timeoutMs)}`;
    const message = `Timed out waiting for Think prompt${after}. Set a longer timeout.`;
    super(message, submissionId, "error", cause);
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
  /** The problem, in one line. */
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

/** There is no decision. A rejection is none of these: it is a decision. */
export class ApprovalError extends Error {
  override name = "ApprovalError";
  constructor(
    message: string,
    /** The approval at the agent: see `agent.approvals.inspect(approvalId)`. */
    readonly approvalId: string,
    cause?: unknown,
  ) {
    super(message, { cause });
  }
}

/** It was not decided within `timeout`, and `onTimeout` is `"throw"`. The agent was asked before. */
export class ApprovalTimeoutError extends ApprovalError {
  override name = "ApprovalTimeoutError";
  constructor(approvalId: string, timeoutMs: number) {
    super(
      `The approval ${approvalId} was not decided within ${durationText(timeoutMs)}. ` +
        'Set a longer timeout, or let onTimeout decide, e.g. "reject".',
      approvalId,
    );
  }
}

/** The approval was cancelled: the workflow was terminated at its agent. */
export class ApprovalCancelledError extends ApprovalError {
  override name = "ApprovalCancelledError";
  constructor(approvalId: string) {
    super(
      `The approval ${approvalId} was cancelled. Restart the workflow to ask again.`,
      approvalId,
    );
  }
}

/** The workflow's schema has refused the payload of every approval that asked again, ten of them. */
export class ApprovalPayloadError extends ApprovalError {
  override name = "ApprovalPayloadError";
  /** As the schema's library reports them. */
  readonly issues: readonly StandardSchemaV1.Issue[];
  /** The problem, in one line. */
  readonly problem: string;
  constructor(approvalId: string, cause: SchemaMismatchError) {
    super(
      `The payload of the approval ${approvalId} is refused by its schema: ${cause.message}. ` +
        "To ask again, restart the workflow or use another key.",
      approvalId,
      cause,
    );
    this.issues = cause.issues;
    this.problem = cause.message;
  }
}

/** No arrival has answered the step. */
export class WebhookError extends Error {
  override name = "WebhookError";
  constructor(
    message: string,
    /** The name of the step. */
    readonly stepName: string,
    cause?: unknown,
  ) {
    super(message, { cause });
  }
}

/** No arrival that the schema accepts came within `timeout`. The agent was asked before. */
export class WebhookTimeoutError extends WebhookError {
  override name = "WebhookTimeoutError";
  constructor(
    stepName: string,
    /** How long it was waited for, in milliseconds. */
    readonly timeoutMs: number,
    /** Of the last arrival that came, if the schema refused it. */
    refused?: Error,
  ) {
    const remedy = refused
      ? `The last one that came was refused: ${refused.message}`
      : "Compare from, type and match with inbound.list() of the agent, or set a longer timeout.";
    const time = durationText(timeoutMs);
    const which = refused ? "No arrival that the schema accepts" : "No arrival";
    super(
      `${which} came for the step ${preview(stepName)} within ${time}. ${remedy}`,
      stepName,
      refused,
    );
  }
}

/** The wait was cancelled: the workflow was terminated at its agent. */
export class WebhookCancelledError extends WebhookError {
  override name = "WebhookCancelledError";
  constructor(stepName: string) {
    super(
      `The step ${preview(stepName)} was cancelled. Restart the workflow to wait again.`,
      stepName,
    );
  }
}

/** The workflow's schema has refused every arrival that came, eleven of them. */
export class WebhookBodyError extends WebhookError {
  override name = "WebhookBodyError";
  /** As the schema's library reports them. */
  readonly issues: readonly StandardSchemaV1.Issue[];
  /** The problem of the last answer, in one line. */
  readonly problem: string;
  constructor(
    stepName: string,
    /** The id of the last arrival. */
    readonly arrivalId: string,
    cause: SchemaMismatchError,
  ) {
    super(
      `The body of arrival ${arrivalId} is refused by the schema of the step ${preview(stepName)}: ${cause.message}. ` +
        "To wait again, restart the workflow or use another key.",
      stepName,
      cause,
    );
    this.issues = cause.issues;
    this.problem = cause.message;
  }
}

/** A child agent's run gave no result. */
export class AgentToolError extends Error {
  override name = "AgentToolError";
  /** Whether the same call may do better. A restart of the workflow starts a new run. */
  readonly retryable: boolean;
  constructor(
    message: string,
    /** The child's name below its agent: `agent.subAgent(Child, runId)` shows what it did. */
    readonly runId: string,
    /** How the run ended, or `"timeout"`. */
    readonly status: "completed" | "error" | "aborted" | "interrupted" | "timeout",
    cause?: unknown,
  ) {
    super(`${message} Run id: ${runId}.`, { cause });
    this.retryable = status === "interrupted";
  }
}

/** The child failed, or could not be started. */
export class AgentToolFailedError extends AgentToolError {
  override name = "AgentToolFailedError";
  constructor(runId: string, error: string) {
    super(
      `The agent tool failed: ${error.replace(/[.!]+$/, "")}. Its conversation is kept under the run id.`,
      runId,
      "error",
    );
  }
}

/** The run was cancelled. */
export class AgentToolAbortedError extends AgentToolError {
  override name = "AgentToolAbortedError";
  constructor(runId: string, error: string) {
    super(
      `The agent tool was cancelled: ${error}. Restart the workflow to run it again.`,
      runId,
      "aborted",
    );
  }
}

/** The agent gave the run up before it had ended: the child was silent for too long, or unreachable. */
export class AgentToolInterruptedError extends AgentToolError {
  override name = "AgentToolInterruptedError";
  constructor(
    runId: string,
    error: string,
    /** Why, in the words of agents. */
    readonly reason: InterruptedReason | undefined,
    /** Whether the child was still at work then. */
    readonly childStillRunning: boolean,
  ) {
    super(
      `The agent tool was interrupted: ${error}. Call the step with another key, or restart the workflow.`,
      runId,
      "interrupted",
    );
  }
}

/** The run had not ended within the step's `timeout`, and was cancelled; the child was asked before. */
export class AgentToolTimeoutError extends AgentToolError {
  override name = "AgentToolTimeoutError";
  constructor(runId: string, timeoutMs: number, error: string) {
    super(
      `The agent tool had no result within ${timeoutMs} ms: ${error}. Give it a longer timeout.`,
      runId,
      "timeout",
    );
  }
}

/** The child's output does not match `output`. */
export class AgentToolValidationError extends AgentToolError {
  override name = "AgentToolValidationError";
  constructor(runId: string, cause: unknown) {
    super(
      `The agent tool's output does not match its schema: ${failureOf(cause).message}. See getAgentToolOutput() of the child. ` +
        "Restart the workflow to run it again.",
      runId,
      "completed",
      cause,
    );
  }
}

/** Why the agent stopped waiting for a child: the union of agents, which may grow. */
export type InterruptedReason =
  | "no-progress"
  | "window-exceeded"
  | "not-tailable"
  | "inspect-timeout"
  | "inspect-failed"
  | "recovery-deadline"
  | "budget-exceeded";
