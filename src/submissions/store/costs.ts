/** What submissions have cost, by day. Reads only. */

import { LIST_SCAN } from "./history.ts";
import { repairKeyOf } from "./keyed.ts";

/** The submissions of one day in UTC, by their ends, that have a cost. */
export type CostRow = {
  /** `2026-11-26` */
  readonly day: string;
  /** In dollars. */
  readonly cost: number;
  readonly submissions: number;
};

/**
 * Newest first, with the number of each day. The newest {@link LIST_SCAN} rows are read. One that another repairs is left out:
 * that one goes on with its usage.
 *
 * @param before the number of a day
 */
export function costsByDay(
  sql: SqlStorage,
  limit: number,
  before = Number.MAX_SAFE_INTEGER,
): (CostRow & { number: number })[] {
  const query = `SELECT IFNULL(settled_at, created_at) / 86400000 AS number, date(IFNULL(settled_at, created_at) / 1000, 'unixepoch') AS day,
      ROUND(SUM(usage ->> '$.cost'), 9) AS cost, COUNT(*) AS submissions
    FROM perdure_submissions AS s
    WHERE seq > (SELECT MAX(seq) FROM perdure_submissions) - ${LIST_SCAN} AND usage ->> '$.cost' IS NOT NULL AND number < ?
      AND NOT EXISTS (SELECT 1 FROM perdure_submissions WHERE idempotency_key = '${repairKeyOf("")}' || s.submission_id)
    GROUP BY number ORDER BY number DESC LIMIT ?`;
  return sql.exec<CostRow & { number: number }>(query, before, limit).toArray();
}
