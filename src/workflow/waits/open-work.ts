/** Open waits, with what they need of the code. Reads only. A file of its own, because only `deployments()` needs it. */

import type { Position } from "../../engine/page.ts";
import { LIVE } from "../../engine/store.ts";
import { workflowField } from "./wait-job.ts";

export type OpenWait = {
  readonly id: string;
  readonly kind: string;
  readonly since: number;
  /** The binding of the Workflow that waits. */
  readonly workflow: string;
};

/**
 * Those after a place, the oldest first: open ones, and closed ones that still have something to stop.
 *
 * @param kinds numbers of the kinds, by their names
 */
export function openWaits(
  sql: SqlStorage,
  kinds: ReadonlyMap<string, number>,
  [since, id]: Position,
  limit: number,
): OpenWait[] {
  const query = `SELECT id, ? AS kind, created_at AS since, ${workflowField("name")} AS workflow
    ${LIVE} AND (created_at, id) > (?, ?) ORDER BY created_at, id LIMIT ?`;
  const all = [...kinds].flatMap(([kind, number]) =>
    sql.exec<OpenWait>(query, kind, number, since, id, limit).toArray(),
  );
  return all
    .sort((one, other) => one.since - other.since || (one.id < other.id ? -1 : 1))
    .slice(0, limit);
}
