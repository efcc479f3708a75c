/** How a wait is closed with what became of its run, and the ids of its runs. Pure. */

import type { AgentToolLifecycleResult } from "agents/agent-tools";
import { byteLength, type Json, jsonOf, tooLarge } from "../../core/json.ts";
import type { AgentToolEnd, AgentToolRequest } from "../../workflow/agent-tool.ts";
import { MOST_BYTES } from "../../workflow/waits/errors.ts";
import type { Closing, Wait } from "../../workflow/waits/protocol.ts";
import type { AgentToolState, Inspection } from "./types.ts";

/** Apart from the ids of the app's own runs. */
const PREFIX = "perdure-";

/** The id of a wait's run: a dispatch that is repeated after a crash has the same one. */
export function runIdOf(wait: Pick<Wait, "waitId" | "state">): string {
  return `${PREFIX}${wait.waitId}-${stateOf(wait).dispatch}`;
}

/** The wait that a run was started for, or undefined for a run of the app's own. */
export function waitIdOf(runId: string): string | undefined {
  return runId.startsWith(PREFIX) ? runId.slice(PREFIX.length, runId.lastIndexOf("-")) : undefined;
}

export function requestOf({ request }: Wait): AgentToolRequest {
  return request as AgentToolRequest;
}

export function stateOf({ state }: Pick<Wait, "state">): AgentToolState {
  const none = { dispatch: 1, isSent: false, refusals: 0, failures: 0 };
  return { ...none, ...(state as AgentToolState | undefined) };
}

export function endOf({ result }: Wait): AgentToolEnd | undefined {
  return (result as AgentToolEnd | null | undefined) ?? undefined;
}

/** Whether a wait was closed by the end of its run: nothing runs for it any more. */
export function hasEnded(wait: Wait): boolean {
  const status = endOf(wait)?.status;
  return status === "completed" || status === "error" || status === "aborted";
}

/** The end in a child's record, or undefined for a run that has none yet. */
export function endIn(record: Inspection): AgentToolEnd | undefined {
  const { runId, status, output, summary = "", error, milestones = [] } = record;
  if (status === "error" || status === "aborted") return failedEnd(runId, status, error);
  if (status !== "completed") return undefined;
  const plain = output === undefined ? undefined : jsonOf(output);
  return {
    status,
    runId,
    ...(plain !== undefined && { output: plain }),
    summary,
    milestones: milestones.map(({ data, ...rest }) => ({
      ...rest,
      ...(data !== undefined && { data: jsonOf(data) as Json }),
    })),
  };
}

/** The end that the agent reports; undefined for a completed run, of which only the child knows more. */
export function reportedEnd(
  runId: string,
  { status, error, reason, childStillRunning = true }: AgentToolLifecycleResult,
): FailedEnd | undefined {
  if (status === "completed") return undefined;
  if (status !== "interrupted") return failedEnd(runId, status, error);
  return {
    status,
    runId,
    error: error ?? "The agent gave the run up",
    ...(reason !== undefined && { reason }),
    childStillRunning,
  };
}

type FailedEnd = Exclude<AgentToolEnd, { status: "completed" }>;

/** Think's error for a child that went down and is not recovered. */
const CUT_OFF = /^Agent tool run was interrupted before the child could finish/;

function failedEnd(runId: string, status: "error" | "aborted", given?: string): FailedEnd {
  if (status === "aborted") return { status, runId, error: given ?? "The run was cancelled" };
  const error = given ?? "The child agent's run failed";
  if (!CUT_OFF.test(error)) return { status, runId, error };
  return { status: "interrupted", runId, error, childStillRunning: false };
}

const CLOSED_AS = {
  completed: "completed",
  error: "failed",
  aborted: "failed",
  interrupted: "failed",
  timeout: "expired",
} as const;

/** How it is closed; an output that no row can hold is an error, which says so. */
export function closingOf(end: AgentToolEnd): Closing {
  const bytes = byteLength(JSON.stringify(end));
  if (bytes <= MOST_BYTES) return { status: CLOSED_AS[end.status], result: end };
  const error = tooLarge("result of getAgentToolOutput()", bytes, MOST_BYTES);
  return { status: "failed", result: { status: "error", runId: end.runId, error } };
}
