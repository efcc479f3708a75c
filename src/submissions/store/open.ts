/**
 * What is open in the ledger: who waits, in which thread and for what, and who
 * runs. Reads only, and remembers in memory what would cost a look each time;
 * the store tells it of each change.
 */

import type { InstanceOf } from "../../outbox/types.ts";
import type { SubmissionStats } from "../types.ts";
import { type Submission, select } from "./rows.ts";

/** Those in line, by their own index: the planner would walk all rows for the order. */
export const IN_LINE =
  "FROM perdure_submissions INDEXED BY perdure_submissions_open WHERE settled_at IS NULL AND not_before IS NULL";
/** Those whose time has not come. */
export const SCHEDULED =
  "FROM perdure_submissions INDEXED BY perdure_submissions_scheduled WHERE settled_at IS NULL AND not_before IS NOT NULL";
/** Those that have joined the turn of another. */
const JOINED =
  "FROM perdure_submissions INDEXED BY perdure_submissions_merged WHERE merged_into IS NOT NULL AND settled_at IS NULL";

export class OpenSubmissions {
  #pending: number | undefined;
  #nextScheduled: number | null | undefined;
  /** Those whose turn others have joined. */
  #joined: Set<string> | undefined;

  constructor(private readonly sql: SqlStorage) {}

  /** How many wait for their turn: counted once in a life of the object, and kept from then on. */
  get pending(): number {
    this.#pending ??= this.sql
      .exec<{ pending: number }>(
        `SELECT (SELECT COUNT(*) ${IN_LINE} AND status = 'pending') + (SELECT COUNT(*) ${SCHEDULED}) AS pending`,
      )
      .one().pending;
    return this.#pending;
  }

  /** So many more wait. */
  count(change: number): void {
    if (this.#pending !== undefined) this.#pending += change;
  }

  /** Somebody has been put off, or put off no longer. */
  reschedule(): void {
    this.#nextScheduled = undefined;
  }

  /** What is remembered may have been rolled back. */
  forget(): void {
    this.#pending = undefined;
    this.#nextScheduled = undefined;
    this.#joined = undefined;
  }

  /**
   * The pending submission of a thread whose turn is next (L4).
   *
   * @param except those that are about to run already
   */
  nextPending(thread: string, except: readonly number[] = []): Submission | undefined {
    const isOther =
      except.length > 0 ? "AND seq NOT IN (SELECT value FROM json_each(?))" : "AND ? IS NOT NULL";
    const [next] = select(
      this.sql,
      `SELECT * ${IN_LINE} AND thread = ? AND status = 'pending' ${isOther} ORDER BY rank, seq LIMIT 1`,
      thread,
      JSON.stringify(except),
    );
    return next;
  }

  /** The threads in which somebody is in line or runs: one look for each, however many wait. */
  threads(): string[] {
    const least = (after: string) => `SELECT MIN(thread) ${IN_LINE}${after}`;
    return this.sql
      .exec<{ thread: string }>(
        `WITH RECURSIVE threads (thread) AS (
           ${least("")}
           UNION ALL
           SELECT (${least(" AND thread > threads.thread")}) FROM threads WHERE thread IS NOT NULL
         ) SELECT thread FROM threads WHERE thread IS NOT NULL`,
      )
      .toArray()
      .map(({ thread }) => thread);
  }

  /** The submissions that are running, or were when the object last stopped. */
  running(): Submission[] {
    return select(this.sql, `SELECT * ${IN_LINE} AND status = 'running' ORDER BY seq`);
  }

  /** Ids of the open submissions whose end is delivered to this workflow instance. */
  forWorkflow({ workflow, instance }: InstanceOf): string[] {
    const tells = `EXISTS (SELECT 1 FROM json_each(notify) WHERE value ->> 'kind' = 'workflow'
      AND value ->> 'workflow' = ?1 AND value ->> 'instance' = ?2)`;
    return this.sql
      .exec<{ id: string }>(
        `SELECT submission_id AS id ${IN_LINE} AND ${tells}
         UNION ALL SELECT submission_id ${SCHEDULED} AND ${tells}`,
        workflow,
        instance,
      )
      .toArray()
      .map(({ id }) => id);
  }

  /** When the next one that waits for its time joins the line, or null. Never later than that. */
  get nextScheduled(): number | null {
    if (this.#nextScheduled === undefined) {
      const query = `SELECT not_before AS time ${SCHEDULED} ORDER BY not_before LIMIT 1`;
      const [row] = this.sql.exec<{ time: number }>(query).toArray();
      this.#nextScheduled = row?.time ?? null;
    }
    return this.#nextScheduled;
  }

  /** Scheduled submissions whose time has come join the queue, in the order of acceptance. Returns their threads. */
  admitDue(now: number): string[] {
    this.reschedule();
    return this.sql
      .exec<{ thread: string }>(
        `UPDATE perdure_submissions SET not_before = NULL
         WHERE seq IN (SELECT seq ${SCHEDULED} AND not_before <= ?) RETURNING thread`,
        now,
      )
      .toArray()
      .map(({ thread }) => thread);
  }

  /** Whether others have joined the turn of this one. */
  isJoined(submissionId: string): boolean {
    this.#joined ??= new Set(
      this.sql
        .exec<{ target: string }>(`SELECT DISTINCT merged_into AS target ${JOINED}`)
        .toArray()
        .map(({ target }) => target),
    );
    return this.#joined.has(submissionId);
  }

  /** Another has joined the turn of this one. */
  join(submissionId: string): void {
    if (!this.isJoined(submissionId)) this.#joined?.add(submissionId);
  }

  /** The turn of this one is over for good, and for those that had joined it. */
  forgetJoined(submissionId: string): void {
    this.#joined?.delete(submissionId);
  }

  /** Those that have joined the turn of this one. */
  joinedTo(submissionId: string): Submission[] {
    if (!this.isJoined(submissionId)) return [];
    return select(this.sql, `SELECT * ${JOINED} AND merged_into = ? ORDER BY seq`, submissionId);
  }

  /** All that have ever joined the turn of this one, also those that have ended. */
  everJoinedTo({ seq, submissionId }: Submission): Submission[] {
    const query = "SELECT * FROM perdure_submissions WHERE seq > ? AND merged_into = ?";
    return select(this.sql, query, seq, submissionId);
  }

  /** Cancelled ones whose messages are still to be removed from the conversation. */
  rollbacks(): Submission[] {
    return select(
      this.sql,
      `SELECT * FROM perdure_submissions INDEXED BY perdure_submissions_rollback
       WHERE rollback_state = 'pending'`,
    );
  }

  /** The messages of an ended submission are to be removed from the conversation. */
  requestRollback(seq: number): void {
    this.sql.exec(
      `UPDATE perdure_submissions SET rollback_state = 'pending'
       WHERE seq = ? AND settled_at IS NOT NULL`,
      seq,
    );
  }

  /** The messages have been removed. */
  finishRollback(seq: number): void {
    const query = "UPDATE perdure_submissions SET rollback_state = 'done' WHERE seq = ?";
    this.sql.exec(query, seq);
  }

  /** The pending submission that repetitions with this key replace. */
  debouncing(debounceKey: string): Submission | undefined {
    const [found] = select(
      this.sql,
      `SELECT * FROM perdure_submissions INDEXED BY perdure_submissions_debounce
       WHERE debounce_key = ? AND settled_at IS NULL`,
      debounceKey,
    );
    return found;
  }

  stats(): SubmissionStats {
    const { oldest, running } = this.sql
      .exec<{ oldest: number | null; running: number }>(
        `SELECT MIN(created_at) FILTER (WHERE status = 'pending') AS oldest,
                COUNT(*) FILTER (WHERE status = 'running') AS running
         FROM (SELECT created_at, status ${IN_LINE} UNION ALL SELECT created_at, status ${SCHEDULED})`,
      )
      .one();
    return { pending: this.pending, running, ...(oldest !== null && { oldestPendingAt: oldest }) };
  }
}
