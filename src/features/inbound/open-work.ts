/** Arrivals whose handler has not ended. Reads only. A file of its own, because only `deployments()` needs it. */

import type { Position } from "../../engine/page.ts";

export type OpenArrival = {
  /** The source, and the id of the arrival there. */
  readonly id: string;
  /** When it was stored. */
  readonly since: number;
};

/** Accepted ones after a place, the oldest first. Reads the rows that retention keeps: 10,000 by default. */
export function openArrivals(sql: SqlStorage, [since, id]: Position, limit: number): OpenArrival[] {
  const rows = sql.exec<OpenArrival>(
    `SELECT source || '/' || id AS id, stored_at AS since FROM perdure_inbound
     WHERE verdict = 'accepted' AND error IS NOT NULL AND (stored_at, source || '/' || id) > (?, ?)
     ORDER BY stored_at, source || '/' || id LIMIT ?`,
    since,
    id,
    limit,
  );
  return rows.toArray();
}
