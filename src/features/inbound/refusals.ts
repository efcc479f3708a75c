/**
 * Counts requests that a receiver has refused before an agent was chosen: one row of `perdure_refusals` for each hour,
 * source and reason. Its rows are those of 24 hours.
 */

import type { RefusedRequests } from "./protocol.ts";

const HOUR_MS = 3_600_000;
const MOST_HOURS = 24;
/** Enough for 20 sources with each reason in each hour. */
const MOST_ROWS = 1_000;

/** The last 24 hours of a source and reason. */
export type RefusedSource = RefusedRequests & {
  /** When the first was counted. */
  readonly since: number;
};

/** Bills one row, and one for each that it deletes. Above the limit of rows nothing is counted. */
export function addRefused(storage: DurableObjectStorage, refused: RefusedRequests, now: number) {
  const { source, reason, count } = refused;
  const hour = Math.floor(now / HOUR_MS);
  storage.transactionSync(() => {
    storage.sql.exec("DELETE FROM perdure_refusals WHERE hour <= ?", hour - MOST_HOURS);
    storage.sql.exec(
      `INSERT INTO perdure_refusals (hour, source, reason, count, first_at) SELECT ?, ?, ?, ?, ?
       WHERE (SELECT COUNT(*) FROM perdure_refusals) < ${MOST_ROWS}
       ON CONFLICT DO UPDATE SET count = count + excluded.count`,
      ...[hour, source, reason, count, now],
    );
  });
}

export function refusedSources(sql: SqlStorage, now: number): RefusedSource[] {
  return sql
    .exec<RefusedSource>(
      `SELECT source, reason, SUM(count) AS count, MIN(first_at) AS since FROM perdure_refusals
       WHERE hour > ? GROUP BY source, reason`,
      Math.floor(now / HOUR_MS) - MOST_HOURS,
    )
    .toArray();
}
