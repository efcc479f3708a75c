/** How a wait of Code Mode is closed, made of the execution's record. Pure; bounded, so that a row can hold it. */

import { type Json, jsonOf } from "../../../core/json.ts";
import type { Closing } from "../../protocol.ts";
import type { CallRecord, CodemodeCall, CodemodeFailure, ExecutionRecord } from "./types.ts";

const MOST_ERROR_CHARS = 10_000;
const MOST_LOG_CHARS = 100_000;
const MOST_CALLS = 100;
/** What codemode records in place of a result that is too large, or has no form in storage. */
const OMITTED = "[codemode: result omitted from the audit trail";

/** The result of a completed execution, or why it cannot be handed on. */
export function completed(execution: ExecutionRecord): Closing {
  const { id: executionId, result } = execution;
  if (typeof result === "string" && result.startsWith(OMITTED)) return failed(result, execution);
  try {
    const output = jsonOf(result, refuseBinary);
    const logs = boundedLogs(execution);
    return {
      status: "completed",
      result: { executionId, ...(output !== undefined && { output }), ...logs },
    };
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    return failed(
      `The result of the code has no JSON form: ${problem}. Return plain data, or write the rest to a workspace and return a reference to it.`,
      execution,
    );
  }
}

/** The execution failed, or there is none. */
export function failed(
  error: string,
  execution: ExecutionRecord | undefined,
  failure: CodemodeFailure = "error",
): Closing {
  return {
    status: "failed",
    result: {
      error: error.slice(0, MOST_ERROR_CHARS).toWellFormed(),
      failure,
      ...known(execution),
    },
  };
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
      error: error.slice(0, MOST_ERROR_CHARS).toWellFormed(),
      ...known(execution),
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

/** A replacer for {@link jsonOf}: JSON has no form for binary data. */
export function refuseBinary(_key: string, value: unknown): unknown {
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) {
    throw new TypeError("binary data has none");
  }
  return value;
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

/** The last lines, as those tell most of an end. */
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
