/**
 * All SQL of the ledger. Owns `perdure_submissions` and `perdure_attempts`, and
 * writes them by transition verbs only: each is fenced by the state and the attempt that it
 * expects, and returns the row when it took effect (L2).
 *
 * Indexes, and what each bills: the id (1 row on accept), the key (1 on accept
 * with a key), and the line, or those that wait for their time to join it (1 on
 * accept; their predicates are not on the status, so a claim or settle touches
 * them no more). Ended ones are listed by rowid, which is the order of
 * acceptance and costs nothing.
 */

import type { Failure } from "../core/failures.ts";
import { migrate } from "../core/migrations.ts";
import type { Destination } from "../outbox/types.ts";
import { json, MIGRATIONS, type Row, type Submission, toSubmission } from "./rows.ts";
import { NEXT, type SubmissionStatus, type TerminalStatus } from "./states.ts";
import type { TurnFacts } from "./turn.ts";
import type { AnswerSpec, SubmissionStats, SubmitMessagesOptions } from "./types.ts";

/** What a caller knows of a submission that it wants to end: the fence of the end (L2). */
export type Seen = Pick<Submission, "seq" | "attempts" | "status">;

/** What `accept` stores. */
export type NewSubmission = {
  readonly submissionId: string;
  readonly idempotencyKey: string | undefined;
  /** JSON of the messages, serialised once by the caller who checked its size. */
  readonly messages: string;
  readonly metadata: Record<string, unknown> | undefined;
  readonly channel: string | undefined;
  readonly answer: AnswerSpec | undefined;
  readonly notify: readonly Destination[] | undefined;
  readonly run: string | undefined;
  readonly retry: SubmitMessagesOptions["retry"];
  readonly rank: number;
  readonly notBefore: number | undefined;
  readonly expiresAt: number | undefined;
  readonly keyExpiresAt: number | undefined;
};

export type Settlement = TurnFacts & {
  readonly status: TerminalStatus;
  readonly failure?: Failure | undefined;
};

/** Those in line, by their own index: the planner would walk all rows for the order. */
const OPEN =
  "FROM perdure_submissions INDEXED BY perdure_submissions_open WHERE settled_at IS NULL AND not_before IS NULL";
/** Those whose time has not come. */
const SCHEDULED =
  "FROM perdure_submissions INDEXED BY perdure_submissions_scheduled WHERE settled_at IS NULL AND not_before IS NOT NULL";

/** How far back a message is looked for among ended submissions. */
const RECENT = 100;

export class SubmissionStore {
  #pending: number | undefined;
  #nextScheduled: number | null | undefined;

  constructor(private readonly storage: DurableObjectStorage) {}

  migrate(): void {
    migrate(this.storage, "submissions", MIGRATIONS);
  }

  /** Runs `work` in one transaction. */
  transaction<T>(work: () => T): T {
    try {
      return this.storage.transactionSync(work);
    } catch (error) {
      // Some of what was counted may have been rolled back.
      this.#pending = undefined;
      this.#nextScheduled = undefined;
      throw error;
    }
  }

  /** How many wait for their turn: counted once in a life of the object, and kept from then on. */
  get pending(): number {
    this.#pending ??= this.storage.sql
      .exec<{ pending: number }>(
        `SELECT (SELECT COUNT(*) ${OPEN} AND status = 'pending') + (SELECT COUNT(*) ${SCHEDULED}) AS pending`,
      )
      .one().pending;
    return this.#pending;
  }

  /** (new) → pending. */
  accept(submission: NewSubmission, now: number): Submission {
    const { submissionId, idempotencyKey, messages, metadata, channel } = submission;
    const { answer, notify, run, retry, rank, notBefore, expiresAt, keyExpiresAt } = submission;
    if (notBefore !== undefined) this.#nextScheduled = undefined;
    return this.#counted(
      +1,
      `INSERT INTO perdure_submissions
         (submission_id, idempotency_key, messages, metadata, channel, answer, notify, run, retry,
          rank, not_before, expires_at, key_expires_at, created_at)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING *`,
      submissionId,
      idempotencyKey ?? null,
      messages,
      json(metadata),
      channel ?? null,
      json(answer),
      json(notify),
      run ?? null,
      json(retry),
      rank,
      notBefore ?? null,
      expiresAt ?? null,
      keyExpiresAt ?? null,
      now,
    ) as Submission;
  }

  find(submissionId: string): Submission | undefined {
    return this.#one("SELECT * FROM perdure_submissions WHERE submission_id = ?", submissionId);
  }

  findByKey(idempotencyKey: string): Submission | undefined {
    return this.#one("SELECT * FROM perdure_submissions WHERE idempotency_key = ?", idempotencyKey);
  }

  /** The open or recent submission that one of these messages came with, the latest of them. */
  findByMessage(messageIds: ReadonlySet<string>): Submission | undefined {
    const holds = ({ messages }: Submission) => messages.some(({ id }) => messageIds.has(id));
    return (
      this.running().find(holds) ??
      this.#all("SELECT * FROM perdure_submissions ORDER BY seq DESC LIMIT ?", RECENT).find(holds)
    );
  }

  /** The pending submission whose turn is next (L4). */
  nextPending(): Submission | undefined {
    return this.#one(`SELECT * ${OPEN} AND status = 'pending' ORDER BY rank, seq LIMIT 1`);
  }

  /** The submissions that are running, or were when the object last stopped. */
  running(): Submission[] {
    return this.#all(`SELECT * ${OPEN} AND status = 'running' ORDER BY rank, seq`);
  }

  /** The open submissions whose end is delivered to this workflow instance. */
  openFor(instance: string): Submission[] {
    const tells = ({ notify }: Submission) => notify.some((to) => to.instance === instance);
    return this.#all(`SELECT * ${OPEN} UNION ALL SELECT * ${SCHEDULED}`).filter(tells);
  }

  hasOpen(): boolean {
    const inLine = this.storage.sql.exec(`SELECT 1 ${OPEN} LIMIT 1`).toArray();
    return inLine.length > 0 || this.nextScheduled !== null;
  }

  /** When the next one that waits for its time joins the line, or null. Never later than that. */
  get nextScheduled(): number | null {
    if (this.#nextScheduled === undefined) {
      const query = `SELECT not_before AS time ${SCHEDULED} ORDER BY not_before LIMIT 1`;
      const [row] = this.storage.sql.exec<{ time: number }>(query).toArray();
      this.#nextScheduled = row?.time ?? null;
    }
    return this.#nextScheduled;
  }

  /** Those whose time has come join the line, at the place of their acceptance. */
  admitDue(now: number): void {
    this.storage.sql.exec(
      `UPDATE perdure_submissions SET not_before = NULL WHERE seq IN (SELECT seq ${SCHEDULED} AND not_before <= ?)`,
      now,
    );
    this.#nextScheduled = undefined;
  }

  stats(): SubmissionStats {
    const { oldest, running } = this.storage.sql
      .exec<{ oldest: number | null; running: number }>(
        `SELECT MIN(created_at) FILTER (WHERE status = 'pending') AS oldest,
                COUNT(*) FILTER (WHERE status = 'running') AS running
         FROM (SELECT created_at, status ${OPEN} UNION ALL SELECT created_at, status ${SCHEDULED})`,
      )
      .one();
    return { pending: this.pending, running, ...(oldest !== null && { oldestPendingAt: oldest }) };
  }

  /** pending → running, the attempt counted before anything of it runs (L6). */
  claim(seq: number, now: number): Submission | undefined {
    return this.#counted(
      -1,
      `UPDATE perdure_submissions SET status = 'running', attempts = attempts + 1, started_at = ?, due_at = NULL
       WHERE seq = ? AND status ${from("running")} RETURNING *`,
      now,
      seq,
    );
  }

  /** running → running, with the answer recorded, once (L7). */
  answer(seq: number, attempt: number, output: string): Submission | undefined {
    return this.#one(
      `UPDATE perdure_submissions SET output = ?
       WHERE seq = ? AND status = 'running' AND attempts = ? AND output IS NULL RETURNING *`,
      output,
      seq,
      attempt,
    );
  }

  /** running → pending: the attempt left nothing behind, and its turn starts over. */
  startOver(seq: number, attempt: number): Submission | undefined {
    return this.#counted(
      +1,
      `UPDATE perdure_submissions SET status = 'pending', started_at = NULL
       WHERE seq = ? AND status ${from("pending")} AND attempts = ? RETURNING *`,
      seq,
      attempt,
    );
  }

  /** running → pending, due later: the attempt has failed, and is kept with its error (L8). */
  retryAt(
    { seq, attempts }: Seen,
    dueAt: number,
    failure: Failure,
    now: number,
  ): Submission | undefined {
    const failed = this.#counted(
      +1,
      `UPDATE perdure_submissions SET status = 'pending', due_at = ?
       WHERE seq = ? AND status ${from("pending")} AND attempts = ? RETURNING *`,
      dueAt,
      seq,
      attempts,
    );
    if (failed) {
      this.storage.sql.exec(
        "INSERT INTO perdure_attempts (seq, attempt, started_at, ended_at, error, error_name) VALUES (?, ?, ?, ?, ?, ?)",
        seq,
        attempts,
        failed.startedAt ?? now,
        now,
        failure.message,
        failure.name,
      );
    }
    return failed;
  }

  get(seq: number): Submission | undefined {
    return this.#one("SELECT * FROM perdure_submissions WHERE seq = ?", seq);
  }

  /** pending or running → terminal, if it is still as the caller saw it. */
  settle(
    seen: Seen,
    { status, failure, requestId, messageId, usage }: Settlement,
    now: number,
  ): Submission | undefined {
    if (!(NEXT[seen.status] as readonly SubmissionStatus[]).includes(status)) return undefined;
    return this.#counted(
      seen.status === "pending" ? -1 : 0,
      `UPDATE perdure_submissions
       SET status = ?, error = ?, error_name = ?, request_id = ?, message_id = ?, usage = ?, settled_at = ?
       WHERE seq = ? AND status = ? AND attempts = ? RETURNING *`,
      status,
      failure?.message ?? null,
      failure?.name ?? null,
      requestId ?? null,
      messageId ?? null,
      json(usage),
      now,
      seen.seq,
      seen.status,
      seen.attempts,
    );
  }

  /** Every pending one → skipped. */
  skipPending(failure: Failure, now: number): Submission[] {
    const skipped = this.#all(
      `UPDATE perdure_submissions SET status = 'skipped', error = ?, error_name = ?, settled_at = ?
       WHERE seq IN (SELECT seq ${OPEN} AND status = 'pending' UNION ALL SELECT seq ${SCHEDULED}) RETURNING *`,
      failure.message,
      failure.name,
      now,
    );
    this.#count(-skipped.length);
    return skipped;
  }

  /** Takes the key from a submission, so that new work can have it (W1). */
  releaseKey(seq: number): void {
    this.storage.sql.exec(
      "UPDATE perdure_submissions SET idempotency_key = NULL WHERE seq = ?",
      seq,
    );
  }

  /** A transition that takes effect on one row or none, and by how much it changes the number of those that wait. */
  #counted(change: number, query: string, ...bindings: SqlStorageValue[]): Submission | undefined {
    const row = this.#one(query, ...bindings);
    if (row) this.#count(change);
    return row;
  }

  #count(change: number): void {
    if (this.#pending !== undefined) this.#pending += change;
  }

  #one(query: string, ...bindings: SqlStorageValue[]): Submission | undefined {
    const [row] = this.storage.sql.exec<Row>(query, ...bindings).toArray();
    return row && toSubmission(row);
  }

  #all(query: string, ...bindings: SqlStorageValue[]): Submission[] {
    return this.storage.sql
      .exec<Row>(query, ...bindings)
      .toArray()
      .map(toSubmission);
  }
}

/** SQL for "in a state from which `to` can be reached". */
function from(to: SubmissionStatus): string {
  const sources = (Object.keys(NEXT) as SubmissionStatus[]).filter((status) =>
    (NEXT[status] as readonly SubmissionStatus[]).includes(to),
  );
  return `IN (${sources.map((status) => `'${status}'`).join(", ")})`;
}
