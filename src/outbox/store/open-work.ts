/** Deliveries that are not delivered. Reads only. A file of its own, because only `deployments()` needs it. */

import type { Position } from "../../engine/page.ts";

/** What a destination names. Its other fields can be large. */
export type OpenTarget = {
  readonly kind: string;
  readonly [field: string]: string | null;
};

/** SQL for the {@link OpenTarget} of a destination, which is JSON. */
export const TARGET = (json: string) =>
  `json_object(${["kind", "workflow", "method", "agent", "queue"].map((name) => `'${name}', ${json} ->> '${name}'`).join(", ")})`;

export type OpenDelivery = {
  readonly id: string;
  /** When it was put. */
  readonly since: number;
  /** Undefined for a corrupt one. */
  readonly destination: OpenTarget | undefined;
};

type Row = { id: string; since: number; destination: string | null };

/**
 * Those after a place, the oldest first. Telemetry is left out: it is no work.
 *
 * @param state waiting ones, or dead letters, which can be redriven
 */
export function openDeliveries(
  sql: SqlStorage,
  state: "waiting" | "dead",
  [since, id]: Position,
  limit: number,
): OpenDelivery[] {
  const [table, only] =
    state === "waiting" ? ["perdure_outbox", ""] : ["perdure_outbox_ended", "state = 'dead' AND "];
  const rows = sql.exec<Row>(
    `SELECT id, since, IIF(json_valid(destination), ${TARGET("destination")}, NULL) AS destination
     FROM (SELECT id, created_at AS since FROM ${table} WHERE ${only}(created_at, id) > (?, ?)
         AND destination_key <> 'otlp' AND destination_key NOT LIKE 'otlp %' ORDER BY created_at, id LIMIT ?)
     CROSS JOIN ${table} USING (id) ORDER BY since, id`,
    since,
    id,
    limit,
  );
  return Array.from(rows, ({ destination, ...row }) => ({
    ...row,
    destination: destination === null ? undefined : (JSON.parse(destination) as OpenTarget),
  }));
}
