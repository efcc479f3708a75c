/** The audit log: owns the table `perdure_actions`, which is made at the first action. One row for each call of `operate()`. */

import { readOptions } from "../../core/options/option-schemas.ts";
import { migrate } from "../../engine/migrations.ts";
import { invalidOperation } from "../errors.ts";
import type { OperatedAgent } from "../operated.ts";
import { seqPage } from "../paging.ts";
import type { Action, AuditEntry, OperateResult, Page, PageOptions } from "../protocol.ts";

/** A published migration is never edited. Columns that may be large come last. */
const MIGRATIONS = [
  `CREATE TABLE perdure_actions (
     seq INTEGER PRIMARY KEY,
     at INTEGER NOT NULL,
     outcome TEXT NOT NULL DEFAULT 'started',
     count INTEGER NOT NULL DEFAULT 0,
     actor TEXT NOT NULL,
     reason TEXT NOT NULL,
     error TEXT,
     action TEXT NOT NULL
   );`,
] as const;

/** Rows that are kept, the newest ones. @internal */
export const KEPT_ACTIONS = 10_000;

/** UTF-16 units of JSON in a page, for one RPC result. */
const MAX_LISTED = 4_000_000;

type Started = { readonly at: number; readonly by: string; readonly reason: string };

/** (new) → started. Deletes the rows that are too many. Returns the id of the row. */
export function recordStart(
  storage: DurableObjectStorage,
  { at, by, reason }: Started,
  action: Action,
): string {
  migrate(storage, "operator", MIGRATIONS);
  return storage.transactionSync(() => {
    const { sql } = storage;
    const { seq } = sql
      .exec<{ seq: number }>(
        "INSERT INTO perdure_actions (at, actor, reason, action) VALUES (?, ?, ?, ?) RETURNING seq",
        at,
        by,
        reason,
        JSON.stringify(action),
      )
      .one();
    sql.exec("DELETE FROM perdure_actions WHERE seq <= ?", seq - KEPT_ACTIONS);
    return String(seq);
  });
}

/** started → one of the outcomes. */
export function recordEnd(
  { sql }: DurableObjectStorage,
  auditId: string,
  { outcome, count, error }: Pick<OperateResult, "outcome" | "count"> & { readonly error?: string },
): void {
  sql.exec(
    "UPDATE perdure_actions SET outcome = ?, count = ?, error = ? WHERE seq = ? AND outcome = 'started'",
    outcome,
    count,
    error ?? null,
    Number(auditId),
  );
}

type Row = {
  seq: number;
  at: number;
  actor: string;
  reason: string;
  outcome: AuditEntry["outcome"];
  count: number;
  error: string | null;
  action: string;
};

const ACTIONS = seqPage("actions");

/** The audit log, newest first. @throws InvalidOperationError for invalid options */
export async function listActions(
  { storage }: OperatedAgent,
  page: PageOptions = {},
): Promise<Page<AuditEntry>> {
  const { limit, cursor = Number.MAX_SAFE_INTEGER } = readOptions(
    ACTIONS.options,
    page,
    "options of operations.listActions()",
    invalidOperation,
  );
  const { sql } = storage;
  const made = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'perdure_actions'";
  if (sql.exec(made).toArray().length === 0) return { items: [] };
  const query = "SELECT * FROM perdure_actions WHERE seq < ? ORDER BY seq DESC LIMIT ?";
  const items: AuditEntry[] = [];
  let length = 0;
  for (const row of sql.exec<Row>(query, cursor, limit + 1)) {
    length += row.action.length;
    const isFull = items.length === limit || (items.length > 0 && length > MAX_LISTED);
    if (isFull) return { items, cursor: ACTIONS.at(items.at(-1)?.auditId as string) };
    items.push(entryOf(row));
  }
  return { items };
}

function entryOf({ seq, actor, error, action, at, reason, outcome, count }: Row): AuditEntry {
  return {
    auditId: String(seq),
    at,
    by: actor,
    reason,
    action: JSON.parse(action) as Action,
    outcome,
    count,
    ...(error !== null && { error }),
  };
}
