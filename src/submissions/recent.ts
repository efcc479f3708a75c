/** What a health report knows of the latest submissions: answers, retries and tools. Reads a bounded number of rows. */

import { type Failure, readFailure } from "../core/failures.ts";
import { isPartial } from "./inspection.ts";
import type { SubmissionStatus } from "./states.ts";
import type { NextAction } from "./turns/next-attempt.ts";

/** Submissions, failed attempts and tool calls that are read at most, the newest ones. */
const MOST_READ = 200;
const MOST_ATTEMPTS = 500;
const MOST_CALLS = 500;
const DAY_MS = 86_400_000;
const MOST_IDS = 10;
/** Characters of an error. */
const ERROR_LENGTH = 500;

type Attempts = {
  readonly count: number;
  readonly tokens: number;
  /** Of the latest one. */
  readonly at: number;
  readonly error: string;
};

/** One that has ended in the last 24 hours, or has not ended. */
export type RecentSubmission = {
  readonly submissionId: string;
  readonly status: SubmissionStatus;
  readonly settledAt: number | null;
  /** Whether it has a schema of its output. */
  readonly hasSchema: boolean;
  /** It completed with an empty text, and has called no tool, also none of a client. */
  readonly isEmpty: boolean;
  /** It completed with a part of its text: the model was cut off. */
  readonly isPartial: boolean;
  readonly finishReason: string | null;
  /** Attempts after which the model was asked for its answer again. */
  readonly repairs: Attempts | undefined;
  /** Attempts that failed and were repeated, also with another model. */
  readonly retries: Attempts | undefined;
};

type ToolFacts = {
  readonly tool: string;
  readonly calls: number;
  readonly failed: number;
  /** The first failure, and the latest error. */
  readonly since: number;
  readonly error: string;
  readonly ids: readonly string[];
};

type ModelCallFacts = {
  readonly model: string;
  readonly submissionId: string;
  readonly startedAt: number;
  readonly durationMs: number;
};

export type RecentFacts = {
  /** Newest first. */
  readonly newest: readonly RecentSubmission[];
  readonly tools: readonly ToolFacts[];
  /** Calls that have ended without an error, newest first. */
  readonly modelCalls: readonly ModelCallFacts[];
};

type Row = {
  seq: number;
  submissionId: string;
  status: SubmissionStatus;
  settledAt: number | null;
  finishReason: string | null;
  hasSchema: number;
  isEmpty: number;
};

const NEWEST = `SELECT seq, submission_id AS submissionId, status, settled_at AS settledAt,
    finish_reason AS finishReason, answer ->> '$.schema' IS NOT NULL AS hasSchema,
    status = 'completed' AND merged_into IS NULL AND finish_reason <> 'tool-calls' AND output = '""' AND NOT EXISTS
      (SELECT 1 FROM perdure_tool_calls AS c WHERE c.seq = s.seq) AS isEmpty
  FROM perdure_submissions AS s ORDER BY seq DESC LIMIT ${MOST_READ}`;

export function recentFacts(sql: SqlStorage, now: number): RecentFacts {
  const rows = sql
    .exec<Row>(NEWEST)
    .toArray()
    .filter(({ settledAt }) => now - (settledAt ?? now) < DAY_MS);
  const from = rows.at(-1)?.seq;
  if (from === undefined) return { newest: [], tools: [], modelCalls: [] };
  const { repairs, retries } = attemptsOf(sql, from);
  const newest = rows.map(({ seq, hasSchema, isEmpty, ...row }): RecentSubmission => {
    const ofIt = { repairs: repairs.get(seq), retries: retries.get(seq) };
    const answer = { isEmpty: isEmpty === 1, isPartial: isEmpty === 0 && isPartial(row) };
    return { ...row, ...ofIt, ...answer, hasSchema: hasSchema === 1 };
  });
  const ids = new Map(rows.map(({ seq, submissionId }) => [seq, submissionId]));
  return { newest, tools: toolsOf(sql, from, ids), modelCalls: readModelCalls(sql, from) };
}

function readModelCalls(sql: SqlStorage, from: number): ModelCallFacts[] {
  const query = `SELECT submission_id AS submissionId, IFNULL(call.value ->> '$.model', '') AS model,
      call.value ->> '$.startedAt' AS startedAt,
      call.value ->> '$.endedAt' - call.value ->> '$.startedAt' AS durationMs
    FROM perdure_submissions, json_each(timeline, '$.calls') AS call
    WHERE seq >= ? AND call.value ->> '$.error' IS NULL ORDER BY call.value ->> '$.endedAt' DESC, seq DESC LIMIT ${MOST_CALLS}`;
  return sql.exec<ModelCallFacts>(query, from).toArray();
}

function attemptsOf(sql: SqlStorage, from: number) {
  type Attempt = { seq: number; follow: NextAction; at: number; tokens: number; error: string };
  const found = sql.exec<Attempt>(
    `SELECT seq, follow, ended_at AS at, IFNULL(usage ->> '$.totalTokens', 0) AS tokens,
       substr(error, 1, ${ERROR_LENGTH}) AS error
     FROM perdure_attempts WHERE seq >= ? ORDER BY seq DESC, attempt DESC LIMIT ${MOST_ATTEMPTS}`,
    from,
  );
  const repairs = new Map<number, Attempts>();
  const retries = new Map<number, Attempts>();
  for (const { seq, follow, tokens, error, ...when } of found) {
    const latest = { ...when, error: readFailure(error).message };
    const all = follow === "again" || follow === "model" ? retries : repairs;
    const known = all.get(seq) ?? { ...latest, count: 0, tokens: 0 };
    all.set(seq, { ...known, count: known.count + 1, tokens: known.tokens + tokens });
  }
  return { repairs, retries };
}

/** Ended calls by tool, without those that a retry has copied. */
function toolsOf(sql: SqlStorage, from: number, ids: ReadonlyMap<number, string>): ToolFacts[] {
  type Call = { seq: number; tool: string; at: number; failure: string | null };
  const found = sql.exec<Call>(
    `SELECT seq, tool, ended_at AS at, iif(outcome = 'error', value, NULL) AS failure
     FROM perdure_tool_calls WHERE seq >= ? AND attempt > 0 AND outcome IS NOT NULL
     ORDER BY seq DESC, ordinal DESC LIMIT ${MOST_CALLS}`,
    from,
  );
  return [...Map.groupBy(found, ({ tool }) => tool)].flatMap(([tool, calls]) => {
    const failed = calls.flatMap(({ seq, at, failure }) => {
      if (failure === null) return [];
      const { name, message } = JSON.parse(failure) as Failure;
      // A cancelled turn aborts its tools.
      return name === "AbortError" ? [] : { seq, at, message };
    });
    const [latest] = failed;
    if (!latest) return [];
    const seqs = [...new Set(failed.map(({ seq }) => seq))];
    return {
      tool,
      calls: calls.length,
      failed: failed.length,
      since: Math.min(...failed.map(({ at }) => at)),
      error: latest.message.slice(0, ERROR_LENGTH),
      ids: seqs.slice(0, MOST_IDS).flatMap((seq) => ids.get(seq) ?? []),
    };
  });
}
