/**
 * Tool calls of turns, recorded so that no recovery runs them twice. All SQL on `perdure_tool_calls`: a call writes one row
 * before its tool runs, and updates it once with the outcome. Without an outcome, the call was interrupted.
 */

import { type Failure, failureOf, uncut } from "../../core/failures.ts";
import { byteLength } from "../../core/json.ts";
import { insert, valuesOf } from "../../core/sql.ts";
import type { AttemptRef } from "../states.ts";

/** Bytes of JSON that are stored of an output. A row takes 2 MB. */
const OUTPUT_BYTES = 1_000_000;

/** UTF-16 units that are stored of an input, to show it to the model again. */
const INPUT_LENGTH = 2_000;

/** The tool error for a call that began and has no recorded outcome. */
const INTERRUPTED =
  "The call was interrupted before its result was recorded. Its effect is unknown: it may have happened, in part or in full. " +
  "It was not run again. Check what it did before you call the tool again.";

/** A recorded call, without its output. */
export type RecordedCall = {
  readonly ordinal: number;
  readonly toolCallId: string;
  readonly toolName: string;
  readonly inputDigest: string;
  /** The idempotency key of a call of a durable tool; null for another tool. */
  readonly callKey: string | null;
  /** The input as JSON, maybe cut. */
  readonly input: string;
  /** How it ended: `note` says why its output is not stored. Null when it was interrupted. */
  readonly outcome: "result" | "error" | "note" | null;
  /** JSON of the {@link Failure} that the model gets, for an error or a note. */
  readonly failure: string | null;
};

export type NewCall = Pick<
  RecordedCall,
  "toolCallId" | "toolName" | "inputDigest" | "input" | "callKey"
>;

export class ToolCallRecords {
  constructor(private readonly sql: SqlStorage) {}

  /** How many calls a running attempt has recorded, with those of the attempts before it; undefined when it does not run. */
  count({ seq, attempt }: AttemptRef): number | undefined {
    const query = `SELECT IFNULL((SELECT MAX(ordinal) FROM perdure_tool_calls WHERE seq = s.seq), 0)
                   FROM perdure_submissions s WHERE seq = ? AND status = 'running' AND attempts = ?`;
    return valuesOf<number>(this.sql, query, seq, attempt)[0];
  }

  /** (new) → begun. */
  add({ seq, attempt }: AttemptRef, ordinal: number, call: NewCall, startedAt: number): void {
    const { toolName: tool, input: whole, ...rest } = call;
    const input = whole.length > INPUT_LENGTH ? `${whole.slice(0, INPUT_LENGTH)} [cut]` : whole;
    const row = { seq, attempt, ordinal, startedAt, tool, input, ...rest };
    insert(this.sql, "perdure_tool_calls", row);
  }

  /** Another call of the model takes the record: with that id, the conversation will contain its outcome. */
  take(seq: number, ordinal: number, toolCallId: string): void {
    const query = "UPDATE perdure_tool_calls SET tool_call_id = ? WHERE seq = ? AND ordinal = ?";
    this.sql.exec(query, toolCallId, seq, ordinal);
  }

  /** begun → ended, once. A late end of an attempt that is over is stored as well: it is what the tool did. */
  end(seq: number, ordinal: number, end: CallEnd, now: number): void {
    const { outcome, value } = storedOf(end);
    const query = `UPDATE perdure_tool_calls SET outcome = ?, value = ?, ended_at = ?
                   WHERE seq = ? AND ordinal = ? AND outcome IS NULL`;
    this.sql.exec(query, outcome, value, now, seq, ordinal);
  }

  /** The calls of a submission belong to the one that retries it as well, but to none of its attempts. */
  copy(from: number, to: number): void {
    const query = `INSERT INTO perdure_tool_calls (seq, ordinal, attempt, started_at, ended_at, tool_call_id, tool, input_digest, outcome, input, value, call_key)
       SELECT ?, ordinal, 0, started_at, ended_at, tool_call_id, tool, input_digest, outcome, input, value, call_key FROM perdure_tool_calls WHERE seq = ?`;
    this.sql.exec(query, to, from);
    const steps = `INSERT INTO perdure_tool_steps (seq, ordinal, step, value)
       SELECT ?, ordinal, step, value FROM perdure_tool_steps WHERE seq = ?`;
    this.sql.exec(steps, to, from);
  }

  /** Whether a call of the submission is recorded that may have had an effect. A durable tool is safe to repeat. */
  exist(seq: number): boolean {
    const query = "SELECT 1 FROM perdure_tool_calls WHERE seq = ? AND call_key IS NULL LIMIT 1";
    return valuesOf(this.sql, query, seq).length > 0;
  }

  step(seq: number, ordinal: number, name: string): { readonly json: string | null } | undefined {
    const query =
      "SELECT value AS json FROM perdure_tool_steps WHERE seq = ? AND ordinal = ? AND step = ?";
    return this.sql.exec<{ json: string | null }>(query, seq, ordinal, name).toArray()[0];
  }

  steps(seq: number, ordinal: number): number {
    const query = "SELECT COUNT(*) FROM perdure_tool_steps WHERE seq = ? AND ordinal = ?";
    return valuesOf<number>(this.sql, query, seq, ordinal)[0] ?? 0;
  }

  /** A step has finished. The first result stays, also against a late one of an attempt that is over. */
  addStep(seq: number, ordinal: number, name: string, json: string | null): void {
    // The submission may have been deleted meanwhile.
    const query = `INSERT OR IGNORE INTO perdure_tool_steps (seq, ordinal, step, value)
                   SELECT seq, ordinal, ?, ? FROM perdure_tool_calls WHERE seq = ? AND ordinal = ?`;
    this.sql.exec(query, name, json, seq, ordinal);
  }

  /** The same for a step of an attempt that is over: retries have copies of the call, with its key. */
  addLateStep(seq: number, callKey: string, name: string, json: string | null): void {
    const query = `INSERT OR IGNORE INTO perdure_tool_steps (seq, ordinal, step, value)
                   SELECT seq, ordinal, ?, ? FROM perdure_tool_calls WHERE seq >= ? AND call_key = ?`;
    this.sql.exec(query, name, json, seq, callKey);
  }

  /** The recorded calls of a submission that its conversation does not contain, in their order. */
  missing(seq: number, settled: readonly SettledCall[]): RecordedCall[] {
    const byId = new Map(settled.map((call) => [call.toolCallId, call]));
    const query = `SELECT ordinal, tool_call_id AS toolCallId, tool AS toolName, input_digest AS inputDigest, call_key AS callKey, input, outcome,
                     CASE WHEN outcome <> 'result' THEN value END AS failure
                   FROM perdure_tool_calls WHERE seq = ? ORDER BY ordinal`;
    const calls = this.sql.exec<RecordedCall>(query, seq).toArray();
    return calls.filter((call) => !isContained(call, byId.get(call.toolCallId)));
  }

  ids(seq: number): ReadonlySet<string> {
    const query = "SELECT tool_call_id FROM perdure_tool_calls WHERE seq = ?";
    return new Set(valuesOf<string>(this.sql, query, seq));
  }

  /** Whether a call of a durable tool was interrupted that the conversation does not contain. */
  hasInterruptedSteps(seq: number, settled: readonly SettledCall[]): boolean {
    const missing = this.missing(seq, settled);
    return missing.some(({ callKey, outcome }) => callKey !== null && outcome === null);
  }

  output(seq: number, ordinal: number): unknown {
    const query = "SELECT value FROM perdure_tool_calls WHERE seq = ? AND ordinal = ?";
    const [value] = valuesOf<string | null>(this.sql, query, seq, ordinal);
    return value ? JSON.parse(value) : undefined;
  }
}

/** The tool error of a call without an output; undefined for one with an output. */
export function failureOfCall({ outcome, failure }: RecordedCall): Failure | undefined {
  if (outcome === "result") return undefined;
  return failure === null
    ? { name: "Error", message: INTERRUPTED }
    : (JSON.parse(failure) as Failure);
}

/** A host marks a call without an end as failed as well: only the text shows whether the model has seen this outcome. */
function isContained(call: RecordedCall, settled: SettledCall | undefined): boolean {
  if (settled?.errorText === undefined) return settled !== undefined;
  const failure = failureOfCall(call);
  return (
    failure !== undefined && settled.errorText.includes(uncut(failure.message) || failure.name)
  );
}

type Stored = {
  readonly outcome: NonNullable<RecordedCall["outcome"]>;
  readonly value: string | null;
};

function storedOf(end: CallEnd): Stored {
  if ("error" in end) return { outcome: "error", value: JSON.stringify(failureOf(end.error)) };
  const { output } = end;
  if (output === undefined) return { outcome: "result", value: null };
  const json = JSON.stringify(output);
  const bytes = byteLength(json);
  if (bytes <= OUTPUT_BYTES) return { outcome: "result", value: json };
  const message =
    "The call finished before the turn was interrupted, and was not run again. Its output was not stored: " +
    `it has ${bytes} bytes of JSON, and at most ${OUTPUT_BYTES} are stored.`;
  return { outcome: "note", value: JSON.stringify({ name: "Error", message } satisfies Failure) };
}

/** How a tool call ended. JSON can hold the output. */
export type CallEnd = { readonly output: unknown } | { readonly error: unknown };

/** A call with an output or an error in a stored reply. */
export type SettledCall = { readonly toolCallId: string; readonly errorText?: string | undefined };
