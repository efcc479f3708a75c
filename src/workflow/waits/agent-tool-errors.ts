/** How `step.agentTool()` can fail: the failures of agents' own agent tools as errors, and the step's own. */

import type { InterruptedReason } from "../../waits/agent-tools/types.ts";

/** A child agent's run gave no result. */
export class AgentToolError extends Error {
  override name = "AgentToolError";
  constructor(
    message: string,
    /** The child's name below its agent: `agent.subAgent(Child, runId)` shows what it did. */
    readonly runId: string,
    /** How the run ended, or `"timeout"`. */
    readonly status: "completed" | "error" | "aborted" | "interrupted" | "timeout",
    /** Whether the same call may do better. A restart of the workflow starts a new run. */
    readonly retryable: boolean,
    cause?: unknown,
  ) {
    super(`${message} Run id: ${runId}.`, { cause });
  }
}

/** The child failed, or could not be started. */
export class AgentToolFailedError extends AgentToolError {
  override name = "AgentToolFailedError";
  constructor(runId: string, error: string) {
    super(
      `The agent tool failed: ${error.replace(/[.!]+$/, "")}. What there is of its conversation is kept under the run id.`,
      runId,
      "error",
      false,
    );
  }
}

/** Somebody cancelled the run. */
export class AgentToolAbortedError extends AgentToolError {
  override name = "AgentToolAbortedError";
  constructor(runId: string, error: string) {
    super(
      `The agent tool was cancelled: ${error}. Restart the workflow to run it again.`,
      runId,
      "aborted",
      false,
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
      `The agent tool was interrupted: ${error}. Call the step again with another key, or restart the workflow.`,
      runId,
      "interrupted",
      true,
    );
  }
}

/** The run had not ended within the step's `timeout`, and was cancelled; the child was asked before (W2). */
export class AgentToolTimeoutError extends AgentToolError {
  override name = "AgentToolTimeoutError";
  constructor(runId: string, timeoutMs: number, error: string) {
    super(
      `The agent tool had no result within ${timeoutMs} ms: ${error}. Give it a longer timeout.`,
      runId,
      "timeout",
      false,
    );
  }
}

/** The child's output does not match `output` (W4). */
export class AgentToolValidationError extends AgentToolError {
  override name = "AgentToolValidationError";
  constructor(runId: string, cause: unknown) {
    const detail = cause instanceof Error ? cause.message : String(cause);
    super(
      `The agent tool's output does not match its schema: ${detail}. See getAgentToolOutput() of the child, and ` +
        "restart the workflow to run it again.",
      runId,
      "completed",
      false,
      cause,
    );
  }
}
