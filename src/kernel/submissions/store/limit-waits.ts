/** Which limits the open submissions wait for. Reads only. A file of its own, because only `limits()` needs it. */

import { QUEUED, SCHEDULED } from "./open.ts";

/** Submissions that wait for the same key of a limit. */
export type LimitWaits = {
  readonly limit: string;
  readonly key: string;
  readonly why: "full" | "paused" | "closed" | "unreachable";
  readonly count: number;
  /** Since when the first of them waits. */
  readonly since: number;
  /** At most 10. */
  readonly ids: readonly string[];
};

/** Open rows that are read at most. */
const MOST_READ = 10_000;
const MOST_IDS = 10;

type Row = Omit<LimitWaits, "count" | "ids"> & { readonly submissionId: string };

/** Isolated ones are scheduled while they wait. */
export function limitWaits(sql: SqlStorage): LimitWaits[] {
  const waiting = "AND status = 'pending' AND due_at > 0 AND waiting_for IS NOT NULL";
  const rows = sql.exec<Row>(
    `SELECT submission_id AS submissionId, waiting_for ->> '$.limit' AS "limit", waiting_for ->> '$.key' AS key,
       waiting_for ->> '$.why' AS why, waiting_for ->> '$.since' AS since
     FROM (SELECT submission_id, waiting_for ${QUEUED} ${waiting}
       UNION ALL SELECT submission_id, waiting_for ${SCHEDULED} ${waiting} LIMIT ${MOST_READ})`,
  );
  const groups = Map.groupBy(rows, ({ limit, key, why }) => JSON.stringify([limit, key, why]));
  return [...groups.values()].flatMap((group) => {
    const [first] = group;
    if (!first) return [];
    const { submissionId: _, ...of } = first;
    return {
      ...of,
      count: group.length,
      since: Math.min(...group.map(({ since }) => since)),
      ids: group.slice(0, MOST_IDS).map(({ submissionId }) => submissionId),
    };
  });
}
