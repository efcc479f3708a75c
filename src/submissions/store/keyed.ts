/** Submissions by the beginning of their idempotency keys: the prompts of a workflow, found by the index of keys. */

import { endOfPrefix } from "../../core/text.ts";
import type { SubmissionStatus } from "../states.ts";

export type KeyedRow = {
  readonly submissionId: string;
  readonly status: SubmissionStatus;
  readonly createdAt: number;
  readonly settledAt: number | null;
  readonly error: string | null;
  /** The step of the workflow, as its metadata names it. */
  readonly step: string | null;
  /** The beginning of its first text; null above 64 KiB. So is that of its answer. */
  readonly input: string | null;
  readonly output: string | null;
  /** In dollars, with that of the repairs that go on with its usage. */
  readonly cost: number | null;
};

/** The key of the submission that repairs the answer of this one. */
export const repairKeyOf = (submissionId: string) => `perdure-repair:${submissionId}`;

/**
 * What has ended becomes that of an earlier run: prompts that have failed are asked again, and waits answer only where their kind
 * answers later runs.
 *
 * @param prefix ends with a colon
 * @param since when the first of them was accepted or opened, epoch milliseconds
 */
export function endRun(sql: SqlStorage, prefix: string, since: number, run: string): void {
  sql.exec(
    `UPDATE perdure_submissions SET run = ?
     WHERE idempotency_key >= ? AND idempotency_key < ? AND settled_at IS NOT NULL AND created_at >= ?`,
    run,
    prefix,
    endOfPrefix(prefix),
    since,
  );
}

/** @param prefix ends with a colon */
export function withKeyPrefix(sql: SqlStorage, prefix: string, limit: number): KeyedRow[] {
  return sql
    .exec<KeyedRow>(
      `SELECT submission_id AS submissionId, status, created_at AS createdAt, settled_at AS settledAt,
         substr(error, 1, 1000) AS error, metadata ->> '$.workflow.stepName' AS step,
         iif(octet_length(messages) > 65536, NULL, substr(messages ->> '$[0].parts[0].text', 1, 1000)) AS input,
         iif(octet_length(output) > 65536, NULL, substr(output, 1, 1000)) AS output,
         (WITH RECURSIVE repaired (id, cost) AS (VALUES (s.submission_id, s.usage ->> '$.cost')
           UNION ALL SELECT submission_id, usage ->> '$.cost' FROM perdure_submissions JOIN repaired
             ON idempotency_key = '${repairKeyOf("")}' || id)
         SELECT MAX(cost) FROM repaired) AS cost
       FROM perdure_submissions AS s WHERE idempotency_key >= ? AND idempotency_key < ? LIMIT ?`,
      prefix,
      endOfPrefix(prefix),
      limit,
    )
    .toArray();
}

/** Whether one of them has not ended. @param prefix ends with a colon */
export function hasOpenTurn(sql: SqlStorage, prefix: string): boolean {
  const query = `SELECT 1 FROM perdure_submissions
    WHERE idempotency_key >= ? AND idempotency_key < ? AND settled_at IS NULL LIMIT 1`;
  return sql.exec(query, prefix, endOfPrefix(prefix)).toArray().length > 0;
}
