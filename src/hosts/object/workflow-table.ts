/** The workflows that a plain Durable Object has started. Owns the table `perdure_workflows`. */

import type { WorkflowInfo, WorkflowPage, WorkflowQueryCriteria } from "agents/workflows";
import type { Failure } from "../../core/failures.ts";
import { migrate } from "../../engine/migrations.ts";
import { bySeq, cursorsOf } from "../../engine/page.ts";
import { hasEnded } from "../../outbox/destinations/workflow-event.ts";

const MIGRATIONS = [
  `CREATE TABLE perdure_workflows (
     seq INTEGER PRIMARY KEY AUTOINCREMENT,
     workflow_id TEXT NOT NULL UNIQUE,
     workflow_name TEXT NOT NULL,
     status TEXT NOT NULL,
     error_name TEXT,
     error TEXT,
     created_at INTEGER NOT NULL,
     updated_at INTEGER NOT NULL,
     completed_at INTEGER,
     metadata TEXT
   )`,
];

/** Rows that are kept; the oldest are deleted first. */
const MOST_TRACKED = 10_000;
const MAX_PAGE = 100;

type Row = {
  seq: number;
  workflow_id: string;
  workflow_name: string;
  status: WorkflowInfo["status"];
  error_name: string | null;
  error: string | null;
  created_at: number;
  updated_at: number;
  completed_at: number | null;
  metadata: string | null;
};

type Now = { readonly now: number };

export class WorkflowTable {
  #isOpen = false;

  constructor(
    private readonly storage: DurableObjectStorage,
    private readonly most = MOST_TRACKED,
  ) {}

  get #sql(): SqlStorage {
    if (!this.#isOpen) migrate(this.storage, "workflows", MIGRATIONS);
    this.#isOpen = true;
    return this.storage.sql;
  }

  /** Tracks a new instance. An instance that is tracked stays as it is. */
  add(
    { id, name, metadata }: { id: string; name: string; metadata: object | undefined },
    { now }: Now,
  ): void {
    const [added] = this.#sql
      .exec<{ seq: number }>(
        `INSERT INTO perdure_workflows (workflow_id, workflow_name, status, created_at, updated_at, metadata)
         VALUES (?, ?, 'queued', ?, ?, ?) ON CONFLICT (workflow_id) DO NOTHING RETURNING seq`,
        id,
        name,
        now,
        now,
        metadata ? JSON.stringify(metadata) : null,
      )
      .toArray();
    if (!added || added.seq <= this.most) return;
    this.#sql.exec("DELETE FROM perdure_workflows WHERE seq <= ?", added.seq - this.most);
  }

  find(id: string): WorkflowInfo | undefined {
    const query = "SELECT * FROM perdure_workflows WHERE workflow_id = ?";
    const [row] = this.#sql.exec<Row>(query, id).toArray();
    return row && infoOf(row);
  }

  /** Newest first by default. The cursor is the number of the last row of the page before. */
  page({
    status,
    workflowName,
    metadata = {},
    limit = 50,
    orderBy = "desc",
    cursor,
  }: WorkflowQueryCriteria = {}): WorkflowPage {
    const statuses = status === undefined ? null : JSON.stringify([status].flat());
    const wanted = JSON.stringify(metadata);
    const where = `(?1 IS NULL OR status IN (SELECT value FROM json_each(?1)))
      AND (?2 IS NULL OR workflow_name = ?2)
      AND NOT EXISTS (SELECT 1 FROM json_each(?3) AS wanted WHERE NOT EXISTS (
        SELECT 1 FROM json_each(metadata) AS own WHERE own.key = wanted.key AND own.value IS wanted.value))`;
    const name = workflowName ?? null;
    const sql = this.#sql;
    const count = `SELECT count(*) AS total FROM perdure_workflows WHERE ${where}`;
    const { total } = sql.exec<{ total: number }>(count, statuses, name, wanted).one();
    const most = Math.min(limit, MAX_PAGE);
    const isBefore = orderBy === "asc" ? "seq > ?4" : "seq < ?4";
    const query = `SELECT * FROM perdure_workflows WHERE ${where} AND (?4 IS NULL OR ${isBefore})
      ORDER BY seq ${orderBy === "asc" ? "ASC" : "DESC"} LIMIT ?5`;
    const rows = sql.exec<Row>(query, statuses, name, wanted, seqOf(cursor), most + 1).toArray();
    const shown = rows.slice(0, most);
    const last = shown.at(-1);
    return {
      workflows: shown.map(infoOf),
      total,
      nextCursor: rows.length > most && last ? WORKFLOWS.at(last.seq) : null,
    };
  }

  /** What the platform, or the workflow itself, says of an instance. An unchanged status writes nothing. */
  update(id: string, status: WorkflowInfo["status"], failure: Failure | null, { now }: Now): void {
    this.#sql.exec(
      `UPDATE perdure_workflows SET status = ?, error_name = ?, error = ?, updated_at = ?, completed_at = ?
       WHERE workflow_id = ? AND status <> ?`,
      status,
      failure?.name ?? null,
      failure?.message ?? null,
      now,
      hasEnded({ status }) ? now : null,
      id,
      status,
    );
  }
}

const WORKFLOWS = cursorsOf("workflows", bySeq);

/** @throws Error for what is no cursor */
function seqOf(cursor: string | undefined): number | null {
  if (cursor === undefined) return null;
  const seq = WORKFLOWS.read(cursor);
  if (seq !== undefined) return seq;
  throw new Error(
    `Invalid cursor ${JSON.stringify(cursor)}: expected nextCursor of an earlier page.`,
  );
}

function infoOf(row: Row): WorkflowInfo {
  const { metadata, error_name: name, error: message, completed_at: completedAt } = row;
  return {
    id: String(row.seq),
    workflowId: row.workflow_id,
    workflowName: row.workflow_name,
    status: row.status,
    metadata: metadata === null ? null : (JSON.parse(metadata) as Record<string, unknown>),
    error: name === null ? null : { name, message: message ?? "" },
    createdAt: new Date(row.created_at),
    updatedAt: new Date(row.updated_at),
    completedAt: completedAt === null ? null : new Date(completedAt),
  };
}
