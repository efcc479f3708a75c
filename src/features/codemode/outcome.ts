/**
 * What is read from an execution's record: how its wait is closed, and what a person is asked about an action. Pure; bounded, so
 * that a row can hold it.
 */

import { byteLength, type Json, lostInJson } from "../../core/json.ts";
import { approvalRequest } from "../../workflow/waits/kinds/approval.ts";
import type { ApprovalRequest } from "../../workflow/waits/kinds/approval-types.ts";
import type { Closing } from "../../workflow/waits/protocol.ts";
import { NOT_JSON } from "./records.ts";
import type { CallRecord, CodemodeCall, CodemodeFailure, ExecutionRecord } from "./types.ts";

const MOST_ERROR_CHARS = 10_000;
const MOST_LOG_CHARS = 100_000;
const MOST_CALLS = 100;
/** The record in place of a result that is too large, or that cannot be stored. */
const OMITTED = "[codemode: result omitted ";

/** The result of a completed execution, or why it cannot be handed on. */
export function completed(execution: ExecutionRecord): Closing {
  const { id: executionId, result } = execution;
  if (typeof result === "string" && result.startsWith(OMITTED)) return failed(result, execution);
  const lost = lostInJson(result)?.trim();
  if (lost) return failed(NOT_JSON + lost, execution);
  const output = result as Json | undefined;
  return {
    status: "completed",
    result: { executionId, ...(output !== undefined && { output }), ...boundedLogs(execution) },
  };
}

/** The execution failed, or there is none. */
export function failed(
  error: string,
  execution: ExecutionRecord | undefined,
  failure: CodemodeFailure = "error",
): Closing {
  return { status: "failed", result: { ...known(execution), error: bounded(error), failure } };
}

/** An action was rejected, or was not decided in time. */
export function rejected(
  error: string,
  execution: ExecutionRecord,
  action: CallRecord | undefined,
  decision: { by?: Json; reason?: Json },
): Closing {
  return {
    status: "rejected",
    result: {
      ...known(execution),
      error: bounded(error),
      ...(action && { action: { connector: action.connector, method: action.method } }),
      ...decision,
    },
  };
}

/** The agent went down while the code ran, and calls that had begun must not be repeated. */
export function interrupted(execution: ExecutionRecord): Closing {
  const calls = begunCalls(execution);
  const named = (wanted: (call: CodemodeCall) => boolean) =>
    calls
      .filter(wanted)
      .map(({ connector, method }) => `${connector}.${method}`)
      .join(", ") || "none";
  const error =
    "The agent went down while the code ran, and a run that is cut off cannot be resumed without repeating its calls. " +
    `Applied: ${named(({ state }) => state === "applied")}. ` +
    `Begun, maybe with effect: ${named(({ state }) => state !== "applied")}. ` +
    "Restart the workflow to run the code afresh, once what was applied may be applied again.";
  return failed(error, execution, "interrupted");
}

/** Calls that may have had an effect. */
export function begunCalls({ log }: ExecutionRecord): CodemodeCall[] {
  return entriesOf(log)
    .filter(({ state }) => state !== "pending")
    .map(({ connector, method, state }) => ({ connector, method, state }));
}

/** The action that waits for a decision: codemode pauses at one at a time. */
export function pendingAction({ log }: ExecutionRecord): CallRecord | undefined {
  return entriesOf(log).find(({ state }) => state === "pending");
}

function bounded(error: string): string {
  return error.slice(0, MOST_ERROR_CHARS).toWellFormed();
}

function entriesOf(log: ExecutionRecord["log"]): CallRecord[] {
  // A hole in the log is no entry, whether it came as a hole or as undefined.
  return log.filter((entry) => entry !== undefined && entry !== null);
}

function known(execution: ExecutionRecord | undefined) {
  if (!execution) return {};
  const calls = begunCalls(execution).slice(-MOST_CALLS);
  return {
    executionId: execution.id,
    ...boundedLogs(execution),
    ...(calls.length > 0 && { calls }),
  };
}

/** The last lines, which say most about an end. */
function boundedLogs({ logs = [] }: ExecutionRecord): { logs?: string[] } {
  if (logs.length === 0) return {};
  const kept: string[] = [];
  let room = MOST_LOG_CHARS;
  for (const line of logs.toReversed()) {
    room -= line.length + 1;
    if (room < 0) {
      kept.push(`[perdure: ${logs.length - kept.length} earlier lines left out]`);
      break;
    }
    kept.push(line);
  }
  return { logs: kept.toReversed() };
}

/** Bytes of arguments that are shown whole, as JSON: what is pending is listed, and sent to clients. */
const MOST_SHOWN_BYTES = 100_000;
/** UTF-16 units of those that are larger. */
const SHOWN_LENGTH = 30_000;

/** The request of the approval of one action. */
export function actionRequest(
  executionId: string,
  { seq, connector, method, args }: CallRecord,
): ApprovalRequest {
  return approvalRequest({
    title: `${connector}.${method}`,
    data: { executionId, seq, connector, method, args: shownArgs(args) },
  });
}

/** Who decided, and why, of a closed approval. */
export function decisionOf(result: Json | undefined): { by?: Json; reason?: Json } {
  const { by, reason } = (result ?? {}) as { by?: Json; reason?: Json };
  return { ...(by != null && { by }), ...(reason != null && { reason }) };
}

/** The arguments are for a person to read: what JSON cannot hold, or is too much of it, is named, and stops nothing. */
function shownArgs(args: unknown): Json {
  const lost = lostInJson(args)?.trim();
  if (lost) return `(not shown: ${lost})`;
  const text = JSON.stringify(args ?? null);
  const bytes = byteLength(text);
  if (bytes <= MOST_SHOWN_BYTES) return (args ?? null) as Json;
  return `(${bytes} bytes, of which this is the beginning; the execution's record has the rest) ${text.slice(0, SHOWN_LENGTH).toWellFormed()}`;
}
