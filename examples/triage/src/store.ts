/**
 * All SQL of the triage agent. Each method is one guarded transition, so a repeated call changes nothing.
 *
 *   triage_deliveries   written by receive() and the verbs below; one row for each delivery id, never deleted: it deduplicates
 *   triage_labels       written by writeLabels() only
 *   triage_model_calls  written by callStarted() and callAnswered(); the proof that nothing ran twice
 */

import type { AgentReport, DeliveryReport, DeliveryStatus, Triage, TriageEvent } from "./triage.ts";

interface DeliveryRow extends Record<string, SqlStorageValue> {
  delivery: string;
  workflow_id: string;
  event: string;
  status: DeliveryStatus;
  triage: string | null;
  error: string | null;
  approved_by: string | null;
  label_writes: number;
  label_requests: number;
}

interface ReportRow extends DeliveryRow {
  calls: number;
  answers: number;
}

export class TriageStore {
  readonly #storage: DurableObjectStorage;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    this.#storage.sql.exec(`
      CREATE TABLE IF NOT EXISTS triage_deliveries (
        delivery TEXT PRIMARY KEY,
        workflow_id TEXT NOT NULL,
        event TEXT NOT NULL,
        status TEXT NOT NULL DEFAULT 'running',
        triage TEXT,
        error TEXT,
        approved_by TEXT,
        label_writes INTEGER NOT NULL DEFAULT 0,
        label_requests INTEGER NOT NULL DEFAULT 0
      ) WITHOUT ROWID;
      CREATE TABLE IF NOT EXISTS triage_labels (label TEXT PRIMARY KEY) WITHOUT ROWID;
      CREATE TABLE IF NOT EXISTS triage_model_calls (
        id INTEGER PRIMARY KEY,
        delivery TEXT NOT NULL,
        answered INTEGER NOT NULL DEFAULT 0
      );
    `);
  }

  /** True when the delivery is new. */
  receive(event: TriageEvent, workflowId: string): boolean {
    const inserted = this.#all(
      "INSERT INTO triage_deliveries (delivery, workflow_id, event) VALUES (?, ?, ?) ON CONFLICT DO NOTHING RETURNING delivery",
      event.delivery,
      workflowId,
      JSON.stringify(event),
    );
    return inserted.length > 0;
  }

  requestApproval(delivery: string, triage: Triage): void {
    this.#all(
      "UPDATE triage_deliveries SET status = 'waiting', triage = ? WHERE delivery = ? AND status = 'running' AND approved_by IS NULL",
      JSON.stringify(triage),
      delivery,
    );
  }

  /** The workflow of this delivery that waits for an approval. */
  waitingWorkflow(delivery: string): string | undefined {
    const sql =
      "SELECT workflow_id FROM triage_deliveries WHERE delivery = ? AND status = 'waiting'";
    return this.#all<Pick<DeliveryRow, "workflow_id">>(sql, delivery)[0]?.workflow_id;
  }

  /** Stores the first approver, also when the workflow has already ended. */
  approved(delivery: string, approvedBy: string): void {
    this.#all(
      `UPDATE triage_deliveries
       SET approved_by = ?, status = CASE status WHEN 'waiting' THEN 'running' ELSE status END
       WHERE delivery = ? AND approved_by IS NULL`,
      approvedBy,
      delivery,
    );
  }

  /** Writes the labels at the first call, and counts every call. */
  writeLabels(delivery: string, triage: Triage): void {
    this.#storage.transactionSync(() => {
      const first = this.#all(
        `UPDATE triage_deliveries SET label_writes = label_writes + 1, triage = ?
         WHERE delivery = ? AND label_writes = 0 RETURNING delivery`,
        JSON.stringify(triage),
        delivery,
      );
      this.#all(
        "UPDATE triage_deliveries SET label_requests = label_requests + 1 WHERE delivery = ?",
        delivery,
      );
      if (first.length === 0) return;
      for (const label of triage.labels) {
        this.#all("INSERT INTO triage_labels (label) VALUES (?) ON CONFLICT DO NOTHING", label);
      }
    });
  }

  settled(workflowId: string, status: "complete" | "errored", error: string | null): void {
    this.#all(
      `UPDATE triage_deliveries SET status = ?, error = ?
       WHERE workflow_id = ? AND status IN ('running', 'waiting')`,
      status,
      error,
      workflowId,
    );
  }

  callStarted(delivery: string): number {
    const sql = "INSERT INTO triage_model_calls (delivery) VALUES (?) RETURNING id";
    const [row] = this.#all<{ id: number }>(sql, delivery);
    if (!row) throw new Error("The model call could not be counted.");
    return row.id;
  }

  callAnswered(id: number): void {
    this.#all("UPDATE triage_model_calls SET answered = 1 WHERE id = ?", id);
  }

  deliveries(): DeliveryReport[] {
    const rows = this.#all<ReportRow>(`
      SELECT d.*, COALESCE(c.calls, 0) AS calls, COALESCE(c.answers, 0) AS answers
      FROM triage_deliveries d
      LEFT JOIN (
        SELECT delivery, COUNT(*) AS calls, SUM(answered) AS answers FROM triage_model_calls GROUP BY delivery
      ) c ON c.delivery = d.delivery`);
    return rows.map(toReport);
  }

  labels(): AgentReport["labels"] {
    return this.#all<{ label: string }>("SELECT label FROM triage_labels ORDER BY label").map(
      (row) => row.label,
    );
  }

  #all<Row extends Record<string, SqlStorageValue>>(
    sql: string,
    ...bindings: SqlStorageValue[]
  ): Row[] {
    return this.#storage.sql.exec<Row>(sql, ...bindings).toArray();
  }
}

function parseEvent(row: Pick<DeliveryRow, "event">): TriageEvent {
  return JSON.parse(row.event) as TriageEvent;
}

function toReport(row: ReportRow): DeliveryReport {
  const { event, action, repository, number } = parseEvent(row);
  return {
    delivery: row.delivery,
    event,
    action,
    repository,
    number,
    workflowId: row.workflow_id,
    status: row.status,
    triage: row.triage === null ? null : (JSON.parse(row.triage) as Triage),
    error: row.error,
    approvedBy: row.approved_by,
    modelCalls: row.calls,
    modelAnswers: row.answers,
    labelWrites: row.label_writes,
    labelRequests: row.label_requests,
  };
}
