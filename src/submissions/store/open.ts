/** The open submissions. Caches counts and times in memory; the store updates the cache with each change. */

import { type Failure, storedFailure } from "../../core/failures.ts";
import { valuesOf } from "../../core/sql.ts";
import type { InstanceOf } from "../../outbox/destinations/workflow-event.ts";
import type { SubmissionStats } from "../types.ts";
import { type SettledState, SUMMARY, type Submission, select, summaries } from "./rows.ts";

/** Open submissions that are not scheduled. The index is named, because the planner would scan all rows for the order. */
export const QUEUED =
  "FROM perdure_submissions INDEXED BY perdure_submissions_open WHERE settled_at IS NULL AND not_before IS NULL";
/** Scheduled ones: their time has not come. */
export const SCHEDULED =
  "FROM perdure_submissions INDEXED BY perdure_submissions_scheduled WHERE settled_at IS NULL AND not_before IS NOT NULL";
/** Submissions that joined the turn of another one. */
const JOINED =
  "FROM perdure_submissions INDEXED BY perdure_submissions_merged WHERE merged_into IS NOT NULL AND settled_at IS NULL";

const AT_ONCE = 100;

type PendingEnd = Pick<SettledState, "status"> & {
  readonly failure: Failure;
  readonly now: number;
};

export class OpenSubmissions {
  #pending: number | undefined;
  #nextScheduled: number | null | undefined;
  /** Submissions whose turn others have joined. */
  #joined: Set<string> | undefined;

  constructor(private readonly sql: SqlStorage) {}

  /** How many are pending: counted once for each object instance, then kept up to date. */
  get pending(): number {
    const query = `SELECT (SELECT COUNT(*) ${QUEUED} AND status = 'pending') + (SELECT COUNT(*) ${SCHEDULED})`;
    this.#pending ??= valuesOf<number>(this.sql, query)[0] ?? 0;
    return this.#pending;
  }

  count(change: number): void {
    if (this.#pending !== undefined) this.#pending += change;
  }

  reschedule(): void {
    this.#nextScheduled = undefined;
  }

  /** A transaction was rolled back: the cache may be wrong. */
  forget(): void {
    this.#pending = undefined;
    this.#nextScheduled = undefined;
    this.#joined = undefined;
  }

  /** The pending submission of a thread whose turn is next, except those that are about to run. */
  nextPending(thread: string, except: readonly number[] = []): Submission | undefined {
    const isOther =
      except.length > 0 ? "AND seq NOT IN (SELECT value FROM json_each(?))" : "AND ? IS NOT NULL";
    const query = `SELECT * ${QUEUED} AND thread = ? AND status = 'pending' ${isOther} ORDER BY rank, seq LIMIT 1`;
    return select(this.sql, query, thread, JSON.stringify(except))[0];
  }

  /** The threads with a pending or running submission: one read for each, however many are pending. */
  threads(): string[] {
    const least = (after: string) => `SELECT MIN(thread) ${QUEUED}${after}`;
    return valuesOf(
      this.sql,
      `WITH RECURSIVE threads (thread) AS (
         ${least("")}
         UNION ALL
         SELECT (${least(" AND thread > threads.thread")}) FROM threads WHERE thread IS NOT NULL
       ) SELECT thread FROM threads WHERE thread IS NOT NULL`,
    );
  }

  /** The submissions that are running, or were when the object last stopped. */
  running(): Submission[] {
    return select(this.sql, `SELECT * ${QUEUED} AND status = 'running' ORDER BY seq`);
  }

  /** Ids of the open submissions whose end is delivered to this workflow instance. */
  forWorkflow({ workflow, instance }: InstanceOf): string[] {
    const isFor = `EXISTS (SELECT 1 FROM json_each(notify) WHERE value ->> 'kind' = 'workflow'
      AND value ->> 'workflow' = ?1 AND value ->> 'instance' = ?2)`;
    const query = `SELECT submission_id ${QUEUED} AND ${isFor}
                   UNION ALL SELECT submission_id ${SCHEDULED} AND ${isFor}`;
    return valuesOf(this.sql, query, workflow, instance);
  }

  get nextScheduled(): number | null {
    if (this.#nextScheduled === undefined) {
      const query = `SELECT not_before ${SCHEDULED} ORDER BY not_before LIMIT 1`;
      this.#nextScheduled = valuesOf<number>(this.sql, query)[0] ?? null;
    }
    return this.#nextScheduled;
  }

  /** Scheduled submissions whose time has come join the queue, in the order of acceptance. Returns their threads. */
  admitDue(now: number): string[] {
    this.reschedule();
    const query = `UPDATE perdure_submissions SET not_before = NULL
                   WHERE seq IN (SELECT seq ${SCHEDULED} AND not_before <= ?) RETURNING thread`;
    return valuesOf(this.sql, query, now);
  }

  /** pending → skipped or aborted, for some of the `rows` that a query selects. */
  endPending(rows: string, bindings: readonly string[], { status, failure, now }: PendingEnd) {
    const ended = summaries(
      this.sql,
      `UPDATE perdure_submissions SET status = '${status}', error = ?, error_name = ?, settled_at = ?
       WHERE seq IN (${rows} LIMIT ${AT_ONCE}) RETURNING ${SUMMARY}`,
      storedFailure(failure),
      failure.name,
      now,
      ...bindings,
    );
    this.count(-ended.length);
    if (ended.length > 0) this.reschedule();
    return ended;
  }

  isJoined(submissionId: string): boolean {
    const query = `SELECT DISTINCT merged_into ${JOINED}`;
    this.#joined ??= new Set(valuesOf<string>(this.sql, query));
    return this.#joined.has(submissionId);
  }

  join(submissionId: string): void {
    if (!this.isJoined(submissionId)) this.#joined?.add(submissionId);
  }

  /** The submission has ended, and all that joined its turn. */
  forgetJoined(submissionId: string): void {
    this.#joined?.delete(submissionId);
  }

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
    const query = `SELECT * FROM perdure_submissions INDEXED BY perdure_submissions_rollback
                   WHERE rollback_state = 'pending'`;
    return select(this.sql, query);
  }

  /** The messages of an ended submission are to be removed from the conversation. */
  requestRollback(seq: number): void {
    const query = `UPDATE perdure_submissions SET rollback_state = 'pending'
                   WHERE seq = ? AND settled_at IS NOT NULL`;
    this.sql.exec(query, seq);
  }

  finishRollback(seq: number): void {
    const query = "UPDATE perdure_submissions SET rollback_state = 'done' WHERE seq = ?";
    this.sql.exec(query, seq);
  }

  /** The pending submission that repetitions with this key replace. */
  debouncing(debounceKey: string): Submission | undefined {
    const query = `SELECT * FROM perdure_submissions INDEXED BY perdure_submissions_debounce
                   WHERE debounce_key = ? AND settled_at IS NULL`;
    return select(this.sql, query, debounceKey)[0];
  }

  stats(): SubmissionStats {
    const query = `SELECT MIN(created_at) FILTER (WHERE status = 'pending') AS oldest,
                     COUNT(*) FILTER (WHERE status = 'running') AS running
                   FROM (SELECT created_at, status ${QUEUED} UNION ALL SELECT created_at, status ${SCHEDULED})`;
    type Row = { oldest: number | null; running: number };
    const { oldest, running } = this.sql.exec<Row>(query).one();
    return { pending: this.pending, running, ...(oldest !== null && { oldestPendingAt: oldest }) };
  }
}
