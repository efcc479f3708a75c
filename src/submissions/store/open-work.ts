/** Open submissions and batches, with what they need of the code. Reads only. A file of its own, because only `deployments()` needs it. */

import type { Position } from "../../engine/page.ts";
import { type OpenTarget, TARGET } from "../../outbox/store/open-work.ts";
import { QUEUED, SCHEDULED } from "./open.ts";

export type OpenSubmission = {
  readonly id: string;
  /** When it was accepted. */
  readonly since: number;
  /** What hears of its end. */
  readonly notify: readonly OpenTarget[];
  /** The tools whose calls have begun and have no outcome. */
  readonly tools: readonly string[];
};

type Row = { id: string; since: number; notify: string; tools: string };

const COLUMNS = "seq, submission_id AS id, created_at AS since";

/** Those after a place, the oldest first. The large columns are read of the page alone, and stay in SQLite. */
export function openSubmissions(
  sql: SqlStorage,
  [since, id]: Position,
  limit: number,
): OpenSubmission[] {
  const rows = sql.exec<Row>(
    `SELECT id, since, (SELECT json_group_array(${TARGET("value")}) FROM json_each(notify)) AS notify, (SELECT json_group_array(DISTINCT tool) FROM perdure_tool_calls
         WHERE seq = page.seq AND outcome IS NULL) AS tools
     FROM (SELECT * FROM (SELECT ${COLUMNS} ${QUEUED} UNION ALL SELECT ${COLUMNS} ${SCHEDULED})
       WHERE (since, id) > (?, ?) ORDER BY since, id LIMIT ?) AS page
     CROSS JOIN perdure_submissions USING (seq) ORDER BY since, id`,
    since,
    id,
    limit,
  );
  return Array.from(rows, ({ notify, tools, ...row }) => ({
    ...row,
    notify: JSON.parse(notify) as OpenTarget[],
    tools: JSON.parse(tools) as string[],
  }));
}

export type OpenBatch = {
  readonly id: string;
  /** When the oldest of its open submissions was accepted. */
  readonly since: number;
  /** The binding of the Workflow that waits for it. */
  readonly workflow: string;
};

/** Those after a place, the oldest first. */
export function openBatches(sql: SqlStorage, [since, id]: Position, limit: number): OpenBatch[] {
  const oldest = `SELECT MIN(created_at) FROM perdure_submissions INDEXED BY perdure_submissions_batch
    WHERE batch = perdure_batches.batch AND batch IS NOT NULL AND settled_at IS NULL`;
  const rows = sql.exec<OpenBatch>(
    `SELECT * FROM (SELECT batch AS id, (${oldest}) AS since, workflow FROM perdure_batches)
     WHERE (since, id) > (?, ?) ORDER BY since, id LIMIT ?`,
    since,
    id,
    limit,
  );
  return rows.toArray();
}

/** An open submission, and the times of its attempts that a crash, a reset or a deploy has ended. */
export type InterruptedSubmission = {
  readonly id: string;
  readonly interrupted: readonly (readonly [startedAt: number, endedAt: number])[];
};

/** Open submissions with at least so many attempts. At most `limit`. */
export function interruptedSubmissions(
  sql: SqlStorage,
  attempts: number,
  limit: number,
): InterruptedSubmission[] {
  const columns = "submission_id, timeline";
  const only = "AND attempts >= ? AND timeline IS NOT NULL";
  const rows = sql.exec<{ id: string; interrupted: string }>(
    `SELECT submission_id AS id, (SELECT json_group_array(json_array(value ->> 'startedAt', value ->> 'endedAt'))
       FROM json_each(timeline, '$.interrupted')) AS interrupted
     FROM (SELECT ${columns} ${QUEUED} ${only} UNION ALL SELECT ${columns} ${SCHEDULED} ${only} LIMIT ?)`,
    attempts,
    attempts,
    limit,
  );
  return Array.from(rows, ({ id, interrupted }) => ({ id, interrupted: JSON.parse(interrupted) }));
}
