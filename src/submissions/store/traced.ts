/** Reads what a trace shows of submissions, without their messages, answers and tool inputs. Writes nothing. */

import { readFailure } from "../../core/failures.ts";
import type { InstanceOf } from "../../outbox/destinations/workflow-event.ts";
import type { NextAction } from "../turns/next-attempt.ts";
import { bindId, readRow, SEQ_OF_ID, type Submission } from "./rows.ts";
import type { AttemptTimeline } from "./timeline.ts";

/** How far the prompts of one workflow instance may be from each other, in submissions: no index leads from one to the next. */
const REACH = 5_000;

const COLUMNS = `seq, submission_id, status, attempts, waits, thread, created_at, started_at, settled_at, due_at, not_before, merged_into,
  batch, run, channel, finish_reason, trace_parent, usage, error_name, error, notify, metadata, timeline, waiting_for`;

export type TracedSubmission = Pick<
  Submission,
  | "seq"
  | "submissionId"
  | "status"
  | "attempts"
  | "waits"
  | "thread"
  | "createdAt"
  | "startedAt"
  | "settledAt"
  | "mergedInto"
  | "batch"
  | "run"
  | "channel"
  | "finishReason"
  | "traceParent"
  | "usage"
  | "errorName"
  | "error"
  | "metadata"
  | "timeline"
  | "waitingFor"
> & {
  readonly dueAt: number | undefined;
  readonly notBefore: number | undefined;
  readonly notify: Submission["notify"] | undefined;
};

export type TracedAttempt = {
  readonly attempt: number;
  readonly startedAt: number;
  readonly endedAt: number;
  readonly error: string;
  readonly errorName: string;
  readonly follow: NextAction;
  readonly timeline: AttemptTimeline | undefined;
};

export type TracedCall = {
  readonly ordinal: number;
  /** 0 for a call of the submission that was retried. */
  readonly attempt: number;
  readonly toolCallId: string;
  readonly toolName: string;
  readonly outcome: "result" | "error" | "note" | null;
  readonly error: string | null;
  readonly startedAt: number;
  readonly endedAt: number | null;
};

export function tracedSubmission(
  sql: SqlStorage,
  submissionId: string,
): TracedSubmission | undefined {
  const query = `SELECT ${COLUMNS} FROM perdure_submissions WHERE seq = ${SEQ_OF_ID}`;
  return select(sql, query, ...bindId(submissionId))[0];
}

/** The prompts of a workflow instance, oldest first: those among the {@link REACH} submissions before and after one of them. */
export function promptsOfWorkflow(
  sql: SqlStorage,
  { workflow, instance }: InstanceOf,
  seq: number,
  limit: number,
): TracedSubmission[] {
  const query = `SELECT ${COLUMNS} FROM perdure_submissions
    WHERE seq BETWEEN ? AND ? AND run IS NOT NULL
      AND metadata ->> '$.workflow.id' = ? AND metadata ->> '$.workflow.name' = ? ORDER BY seq LIMIT ?`;
  return select(sql, query, seq - REACH, seq + REACH, instance, workflow, limit);
}

/** Failed attempts that another one followed, oldest first. Those that a repair has copied are not its own. */
export function tracedAttempts(
  sql: SqlStorage,
  { seq, createdAt }: Pick<TracedSubmission, "seq" | "createdAt">,
  limit: number,
): TracedAttempt[] {
  const query = `SELECT attempt, started_at AS startedAt, ended_at AS endedAt, error, error_name AS errorName, follow, timeline
                 FROM perdure_attempts WHERE seq = ? AND started_at >= ? ORDER BY attempt LIMIT ?`;
  type Row = Omit<TracedAttempt, "timeline"> & { timeline: string | null };
  const rows = sql.exec<Row>(query, seq, createdAt, limit);
  return Array.from(rows, ({ timeline, ...row }) => ({
    ...row,
    error: readFailure(row.error).message,
    timeline: timeline === null ? undefined : (JSON.parse(timeline) as AttemptTimeline),
  }));
}

/** Recorded tool calls, in their order, and how many there are in all. */
export function tracedCalls(
  sql: SqlStorage,
  seq: number,
  limit: number,
): { calls: TracedCall[]; count: number } {
  const query = `SELECT ordinal, attempt, tool_call_id AS toolCallId, tool AS toolName, outcome, started_at AS startedAt,
      ended_at AS endedAt, iif(outcome = 'error', substr(value ->> '$.message', 1, 500), NULL) AS error
    FROM perdure_tool_calls WHERE seq = ? ORDER BY ordinal LIMIT ?`;
  const calls = sql.exec<TracedCall>(query, seq, limit).toArray();
  const last = "SELECT IFNULL(MAX(ordinal), 0) AS count FROM perdure_tool_calls WHERE seq = ?";
  return { calls, count: sql.exec<{ count: number }>(last, seq).one().count };
}

function select(sql: SqlStorage, query: string, ...bindings: SqlStorageValue[]) {
  return Array.from(sql.exec(query, ...bindings), (row) => readRow<TracedSubmission>(row));
}
