/** The threads that submissions have used. Reads only. */

import { ISOLATED, POOL } from "../host.ts";
import { LIST_SCAN } from "./history.ts";
import { QUEUED, SCHEDULED } from "./open.ts";
import { valuesOf } from "./sql.ts";

export type ThreadRow = {
  readonly thread: string;
  /** Pending and running ones. */
  readonly open: number;
  /** Of the submissions that are stored, up to the newest 100,000. */
  readonly total: number;
  /** When the latest one was accepted, epoch milliseconds. */
  readonly lastAt: number;
};

const THREAD = `iif(substr(thread, 1, ${POOL.length}) = '${POOL}', '${ISOLATED}', thread)`;

/**
 * One page, the latest thread first. No index has all rows by their thread, because each submission would pay for it: the
 * newest {@link LIST_SCAN} rows are read.
 *
 * @param before the `next` of the page before
 */
export function listThreads(
  sql: SqlStorage,
  limit: number,
  before: number | undefined,
): { threads: ThreadRow[]; next: number | undefined } {
  const newest =
    valuesOf<number>(sql, "SELECT IFNULL(MAX(seq), 0) FROM perdure_submissions")[0] ?? 0;
  // SQLite takes `created_at` from the row with the highest number.
  const rows = sql
    .exec<ThreadRow & { seq: number }>(
      `SELECT ${THREAD} AS thread, SUM(settled_at IS NULL) AS open, COUNT(*) AS total, MAX(seq) AS seq,
         created_at AS lastAt
       FROM perdure_submissions WHERE seq > ? GROUP BY 1 HAVING MAX(seq) < ? ORDER BY seq DESC LIMIT ?`,
      newest - LIST_SCAN,
      before ?? Number.MAX_SAFE_INTEGER,
      limit + 1,
    )
    .toArray();
  const page = rows.slice(0, limit);
  return {
    threads: page.map(({ seq: _, ...thread }) => thread),
    next: rows.length > limit ? page.at(-1)?.seq : undefined,
  };
}

/** How many submissions of a thread are pending or running. */
export function countOpen(sql: SqlStorage, thread: string): number {
  const query = `SELECT (SELECT COUNT(*) ${QUEUED} AND thread = ?1) + (SELECT COUNT(*) ${SCHEDULED} AND thread = ?1)`;
  return valuesOf<number>(sql, query, thread)[0] ?? 0;
}
