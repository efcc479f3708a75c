/** Batches of prompts: a row for each batch with an open submission, with its workflow, and the event to send while it waits. */

import type { Failure } from "../../core/failures.ts";
import { valuesOf } from "../../core/sql.ts";
import type { InstanceOf, WorkflowDestination } from "../../outbox/destinations/workflow-event.ts";
import type { SubmissionStatus } from "../states.ts";
import type { OpenSubmissions } from "./open.ts";
import {
  bindIds,
  each,
  SEQ_OF_EACH,
  SUMMARY,
  type Submission,
  type Summary,
  summaries,
} from "./rows.ts";

/** The open ones of a batch, by their own index. */
const OPEN =
  "FROM perdure_submissions INDEXED BY perdure_submissions_batch WHERE batch = ? AND settled_at IS NULL";

/** A submission without its messages and its answer. */
export type BatchState = {
  readonly submissionId: string;
  readonly status: SubmissionStatus;
  readonly errorName: string | null;
};

/** The event of a batch's end, as JSON. The workflow reads the results from the ledger: they may exceed an event. */
export function endedEvent(batch: string | undefined, now: number): string {
  const timestamp = new Date(now).toISOString();
  return JSON.stringify({ type: "prompts.ended", timestamp, data: { batch } });
}

type Row = { workflow: string; instance: string; event_type: string | null; proof: string | null };

export class BatchStore {
  constructor(
    private readonly sql: SqlStorage,
    private readonly open: OpenSubmissions,
  ) {}

  /** (new) → open, or as it is. */
  add(batch: string, { workflow, instance }: InstanceOf): void {
    const query = `INSERT INTO perdure_batches (batch, workflow, instance) VALUES (?, ?, ?)
                   ON CONFLICT (batch) DO NOTHING`;
    this.sql.exec(query, batch, workflow, instance);
  }

  /** An open submission that an earlier batch had accepted is one of this batch. */
  adopt(batch: string, { seq }: Pick<Submission, "seq">): void {
    const query = "UPDATE perdure_submissions SET batch = ? WHERE seq = ? AND settled_at IS NULL";
    this.sql.exec(query, batch, seq);
  }

  /** open → awaited, for as long as anything of it is open. Returns whether anything is. */
  wait(batch: string, to: WorkflowDestination, failsFast: boolean): boolean {
    if (!this.isOpen(batch)) return false;
    this.sql.exec(
      `INSERT INTO perdure_batches (batch, workflow, instance, event_type, proof, fails_fast) VALUES (?, ?, ?, ?, ?, ?)
       ON CONFLICT (batch) DO UPDATE SET
         event_type = excluded.event_type, proof = excluded.proof, fails_fast = excluded.fails_fast`,
      batch,
      to.workflow,
      to.instance,
      to.eventType,
      to.proof ?? null,
      failsFast ? 1 : 0,
    );
    return true;
  }

  /** awaited → open: the event comes no more. */
  unwait(batch: string): void {
    const query = `UPDATE perdure_batches SET event_type = NULL
                   WHERE batch = ? AND event_type IS NOT NULL`;
    this.sql.exec(query, batch);
  }

  /** A submission of the batch has ended. If it was the last, or the first failure is enough, returns the destination to notify. */
  ended(batch: string, hasFailed: boolean): WorkflowDestination | undefined {
    return this.forget(batch) ?? (hasFailed ? this.#failed(batch) : undefined);
  }

  /** open or awaited → (gone), when nothing of it is open. Returns who was waiting. */
  forget(batch: string): WorkflowDestination | undefined {
    return this.#delete(batch, `NOT EXISTS (SELECT 1 ${OPEN})`, batch);
  }

  /** awaited → open, where the first failure is enough. The row stays, for the rest to be found by. */
  #failed(batch: string): WorkflowDestination | undefined {
    const waiting = this.#delete(batch, "fails_fast = 1");
    if (waiting) this.add(batch, waiting);
    return waiting;
  }

  isOpen(batch: string): boolean {
    return valuesOf(this.sql, `SELECT 1 ${OPEN} LIMIT 1`, batch).length > 0;
  }

  /** The workflow that a batch is for, while anything of it is open. */
  waiterOf(batch: string): InstanceOf | undefined {
    const query = "SELECT workflow, instance FROM perdure_batches WHERE batch = ?";
    return this.sql.exec<InstanceOf>(query, batch).toArray()[0];
  }

  forWorkflow({ workflow, instance }: InstanceOf): string[] {
    const query = "SELECT batch FROM perdure_batches WHERE instance = ? AND workflow = ?";
    return valuesOf<string>(this.sql, query, instance, workflow);
  }

  /** pending → aborted, for some pending ones of the batch. */
  abortWaiting(batch: string, failure: Failure, now: number): Summary[] {
    const rows = `SELECT seq ${OPEN} AND status = 'pending'`;
    return this.open.endPending(rows, [batch], { status: "aborted", failure, now });
  }

  /** Running items, bounded by the concurrency limit. */
  running(batch: string): Summary[] {
    return summaries(this.sql, `SELECT ${SUMMARY} ${OPEN} AND status = 'running'`, batch);
  }

  /** The states of these submissions, in this order, without unknown ones. */
  states(submissionIds: readonly string[]): BatchState[] {
    const query = `SELECT submission_id AS submissionId, status, error_name AS errorName FROM perdure_submissions
                   WHERE seq IN (SELECT ${SEQ_OF_EACH} FROM json_each(?))`;
    const found = this.sql.exec<BatchState>(query, bindIds(submissionIds)).toArray();
    const byId = new Map(found.map((state) => [state.submissionId, state]));
    return submissionIds.flatMap((id) => byId.get(id) ?? []);
  }

  /** These submissions one by one, in this order, without unknown ones. */
  each(submissionIds: readonly string[]): Generator<Summary> {
    // The loop over the list is the outer one, so the order is that of the list, and no row is read ahead.
    const query = `SELECT ${SUMMARY} FROM json_each(?)
                   CROSS JOIN perdure_submissions AS found ON found.seq = ${SEQ_OF_EACH}`;
    return each(this.sql, query, bindIds(submissionIds));
  }

  #delete(batch: string, where: string, ...bindings: string[]): WorkflowDestination | undefined {
    const query = `DELETE FROM perdure_batches WHERE batch = ? AND ${where}
                   RETURNING workflow, instance, event_type, proof`;
    const [row] = this.sql.exec<Row>(query, batch, ...bindings).toArray();
    if (!row || row.event_type === null) return undefined;
    const { workflow, instance, event_type: eventType, proof } = row;
    return { kind: "workflow", workflow, instance, eventType, ...(proof !== null && { proof }) };
  }
}
