/** Reads the waits of a workflow instance for its trace. Writes nothing. */

import type { InstanceOf } from "../outbox/index.ts";
import type { WaitStatus } from "./protocol.ts";

/** How many of the newest waits are searched: no index leads from an instance to its closed waits. */
const SEARCHED = 10_000;

export type TracedWait = {
  readonly waitId: string;
  readonly kind: string;
  readonly status: "open" | WaitStatus;
  readonly stepName: string;
  readonly createdAt: number;
  readonly settledAt: number | null;
  /** Who has decided an approval. */
  readonly by: string | null;
};

/** Oldest first, without those inside another wait. */
export function waitsOfWorkflow(
  sql: SqlStorage,
  { workflow, instance }: InstanceOf,
  limit: number,
): TracedWait[] {
  const query = `SELECT wait_id AS waitId, kind, status, step AS stepName, created_at AS createdAt, settled_at AS settledAt,
      iif(kind = 'approval', substr(result ->> '$.by', 1, 500), NULL) AS by FROM (
      SELECT seq, wait_id, kind, status, step, created_at, settled_at, workflow, instance, parent, result
      FROM perdure_waits ORDER BY seq DESC LIMIT ${SEARCHED})
    WHERE instance = ? AND workflow = ? AND parent IS NULL ORDER BY seq LIMIT ?`;
  return sql.exec<TracedWait>(query, instance, workflow, limit).toArray();
}
