/** The rows of `perdure_waits`: their schema, and how they are read. Only the store writes them. */

import type { Json } from "../core/json.ts";
import type { Wait, WaitKindName, WaitStatus } from "./types.ts";

/** Numbered by their place; a published one is never edited. Columns that may be large come last. */
export const MIGRATIONS = [
  `CREATE TABLE perdure_waits (
     seq INTEGER PRIMARY KEY,
     wait_id TEXT NOT NULL UNIQUE,
     idempotency_key TEXT,
     kind TEXT NOT NULL,
     status TEXT NOT NULL DEFAULT 'open',
     run TEXT NOT NULL,
     workflow TEXT NOT NULL,
     instance TEXT NOT NULL,
     step TEXT NOT NULL,
     parent TEXT,
     proof TEXT NOT NULL,
     wake_at INTEGER NOT NULL,
     expires_at INTEGER NOT NULL,
     created_at INTEGER NOT NULL,
     settled_at INTEGER,
     done_at INTEGER,
     state TEXT,
     request TEXT NOT NULL,
     result TEXT
   );
   CREATE UNIQUE INDEX perdure_waits_key ON perdure_waits (idempotency_key) WHERE idempotency_key IS NOT NULL;
   CREATE INDEX perdure_waits_live ON perdure_waits (kind, wake_at) WHERE done_at IS NULL;
   CREATE INDEX perdure_waits_inside ON perdure_waits (parent) WHERE done_at IS NULL AND parent IS NOT NULL;`,
] as const;

type Row = {
  wait_id: string;
  kind: WaitKindName;
  status: "open" | WaitStatus;
  run: string;
  workflow: string;
  instance: string;
  step: string;
  parent: string | null;
  proof: string;
  request: string;
  state: string | null;
  result: string | null;
  created_at: number;
  expires_at: number;
  settled_at: number | null;
  done_at: number | null;
};

/** The waits that a query for whole rows returns. */
export function select(sql: SqlStorage, query: string, ...bindings: SqlStorageValue[]): Wait[] {
  return sql
    .exec<Row>(query, ...bindings)
    .toArray()
    .map(toWait);
}

/** As many of the waits that a query returns as have so many UTF-16 units of JSON; the first one in any case. */
export function selectSome(
  sql: SqlStorage,
  length: number,
  query: string,
  ...bindings: SqlStorageValue[]
): Wait[] {
  const waits: Wait[] = [];
  let room = length;
  for (const row of sql.exec<Row>(query, ...bindings)) {
    room -= row.request.length + (row.state?.length ?? 0) + (row.result?.length ?? 0);
    if (room < 0 && waits.length > 0) break;
    waits.push(toWait(row));
  }
  return waits;
}

function toWait(row: Row): Wait {
  return {
    waitId: row.wait_id,
    kind: row.kind,
    run: row.run,
    workflow: { name: row.workflow, id: row.instance, stepName: row.step },
    parent: row.parent ?? undefined,
    proof: row.proof,
    request: JSON.parse(row.request) as Json,
    state: parse(row.state),
    status: row.status,
    result: parse(row.result),
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    settledAt: row.settled_at ?? undefined,
    isLive: row.done_at === null,
  };
}

function parse(text: string | null): Json | undefined {
  return text === null ? undefined : (JSON.parse(text) as Json);
}
