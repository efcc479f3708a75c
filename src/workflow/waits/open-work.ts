/** Open waits, with what they need of the code. Reads only. A file of its own, because only `deployments()` needs it. */

import type { Position } from "../../engine/page.ts";

export type OpenWait = {
  readonly id: string;
  readonly kind: string;
  readonly since: number;
  /** The binding of the Workflow that waits. */
  readonly workflow: string;
};

/** Those after a place, the oldest first: open ones, and closed ones that still have something to stop. */
export function openWaits(sql: SqlStorage, [since, id]: Position, limit: number): OpenWait[] {
  const rows = sql.exec<OpenWait>(
    `SELECT wait_id AS id, kind, created_at AS since, workflow
     FROM perdure_waits INDEXED BY perdure_waits_live WHERE done_at IS NULL
       AND (created_at, wait_id) > (?, ?) ORDER BY created_at, wait_id LIMIT ?`,
    since,
    id,
    limit,
  );
  return rows.toArray();
}
