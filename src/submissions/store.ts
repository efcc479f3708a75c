/**
 * Writes `perdure_submissions`, by transition verbs only: each is fenced by the
 * state and the attempt that it expects, and returns the row when it took effect (L2).
 *
 * Indexes, and what each bills: the id (1 row on accept), the key (1 on accept
 * with a key), and the line, or those that wait for their time to join it (1 on
 * accept; their predicates are not on the status, so a claim or settle touches
 * them no more). Those of debouncing, joining, batches and rollbacks hold only what is
 * under way, and bill 1 where it is asked for. Ended ones are listed by rowid,
 * which is the order of acceptance and costs nothing.
 */

import type { Failure } from "../core/failures.ts";
import { migrate } from "../core/migrations.ts";
import type { Destination } from "../outbox/types.ts";
import { Answers } from "./answers.ts";
import type { Follow } from "./asking.ts";
import { Attempts } from "./attempts.ts";
import { PromptBatches } from "./batches.ts";
import { Debounced } from "./debounced.ts";
import { IN_LINE, OpenSubmissions, SCHEDULED } from "./open.ts";
import { Rollbacks } from "./rollbacks.ts";
import { json, MIGRATIONS, type Submission, select } from "./rows.ts";
import { NEXT, type SubmissionStatus, type TerminalStatus } from "./states.ts";
import { type AttemptRef, isIsolated, type TurnFacts } from "./turn.ts";
import type { AnswerSpec, SubmitMessagesOptions, TokenUsage } from "./types.ts";

/** What a caller knows of a submission that it wants to end: the fence of the end (L2). */
export type Seen = Pick<Submission, "seq" | "attempts" | "status">;

/** What `accept` stores. */
export type NewSubmission = {
  readonly submissionId: string;
  readonly idempotencyKey: string | undefined;
  /** JSON of the messages, serialised once by the caller who checked its size. */
  readonly messages: string;
  readonly metadata: Record<string, unknown> | undefined;
  readonly thread: string;
  readonly channel: string | undefined;
  readonly answer: AnswerSpec | undefined;
  readonly notify: readonly Destination[] | undefined;
  readonly run: string | undefined;
  readonly retry: SubmitMessagesOptions["retry"];
  readonly rank: number;
  readonly notBefore: number | undefined;
  readonly expiresAt: number | undefined;
  readonly keyExpiresAt: number | undefined;
  readonly budget: number | undefined;
  readonly debounceKey: string | undefined;
  /** The latest time that repetitions may put it off to. */
  readonly debounceUntil: number | undefined;
  /** The batch of prompts that it is one of. */
  readonly batch: string | undefined;
};

export type Settlement = TurnFacts & {
  readonly status: TerminalStatus;
  readonly failure?: Failure | undefined;
  /** Tokens in all, where they are known. */
  readonly usage?: TokenUsage | undefined;
  /** Whether its messages have to leave the conversation again. */
  readonly isToBeUndone?: boolean | undefined;
};

/** What an attempt that is followed by another one has come to. */
export type FailedEnd = {
  /** When that is made; unset for one that is made as soon as its thread is free. */
  readonly dueAt: number | undefined;
  readonly follow: Follow;
  /** What it gave for an answer. */
  readonly given: string | undefined;
  readonly failure: Failure;
  /** Tokens of this attempt, and of all so far. */
  readonly spent: TokenUsage | undefined;
  readonly usage: TokenUsage | undefined;
};

/** How far back a message is looked for among ended submissions. */
const RECENT = 100;

export class SubmissionStore {
  /** Who waits and who runs. */
  readonly open: OpenSubmissions;
  readonly answers: Answers;
  readonly attempts: Attempts;
  readonly debounced: Debounced;
  readonly rollbacks: Rollbacks;
  readonly batches: PromptBatches;

  /** The newest one that this life has had to do with: its number is not given again, though it is deleted (L2). */
  #newest = 0;

  constructor(private readonly storage: DurableObjectStorage) {
    this.open = new OpenSubmissions(storage.sql);
    this.answers = new Answers(storage);
    this.attempts = new Attempts(storage.sql);
    this.debounced = new Debounced(storage.sql, this.open);
    this.rollbacks = new Rollbacks(storage.sql);
    this.batches = new PromptBatches(storage.sql, this.open);
  }

  migrate(): void {
    migrate(this.storage, "submissions", MIGRATIONS);
  }

  /** Runs `work` in one transaction. */
  transaction<T>(work: () => T): T {
    try {
      return this.storage.transactionSync(work);
    } catch (error) {
      this.open.forget();
      throw error;
    }
  }

  /** (new) → pending. */
  accept(submission: NewSubmission, now: number): Submission {
    const { submissionId, idempotencyKey, messages, metadata, thread, channel } = submission;
    const { answer, notify, run, retry, rank, notBefore, expiresAt, keyExpiresAt } = submission;
    const { budget, debounceKey, debounceUntil, batch } = submission;
    if (notBefore !== undefined) this.open.reschedule();
    return this.#counted(
      +1,
      `INSERT INTO perdure_submissions
         (seq, submission_id, idempotency_key, messages, metadata, thread, channel, answer, notify, run, retry, rank,
          not_before, expires_at, key_expires_at, budget, debounce_key, debounce_until, batch, created_at)
       VALUES ((SELECT MAX(?, IFNULL(MAX(seq), 0)) + 1 FROM perdure_submissions),
         ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING *`,
      this.#newest,
      submissionId,
      idempotencyKey ?? null,
      messages,
      json(metadata),
      thread,
      channel ?? null,
      json(answer),
      json(notify),
      run ?? null,
      json(retry),
      rank,
      notBefore ?? null,
      expiresAt ?? null,
      keyExpiresAt ?? null,
      budget ?? null,
      debounceKey ?? null,
      debounceUntil ?? null,
      batch ?? null,
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
    const found =
      this.open.running().find((open) => open.mergedInto === undefined && holds(open)) ??
      select(
        this.storage.sql,
        "SELECT * FROM perdure_submissions ORDER BY seq DESC LIMIT ?",
        RECENT,
      ).find(holds);
    // The turn is that of the one that it has joined.
    return found?.mergedInto === undefined ? found : (this.find(found.mergedInto) ?? found);
  }

  /** Those whose time has come join the line, at the place of their acceptance. Returns their threads. */
  admitDue(now: number): string[] {
    this.open.reschedule();
    return this.storage.sql
      .exec<{ thread: string }>(
        `UPDATE perdure_submissions SET not_before = NULL
         WHERE seq IN (SELECT seq ${SCHEDULED} AND not_before <= ?) RETURNING thread`,
        now,
      )
      .toArray()
      .map(({ thread }) => thread);
  }

  /** pending → running, the attempt counted before anything of it runs (L6). */
  claim(seq: number, now: number): Submission | undefined {
    return this.#counted(
      -1,
      `UPDATE perdure_submissions SET status = 'running', attempts = attempts + 1, started_at = ?, due_at = NULL, debounce_key = NULL
       WHERE seq = ? AND status ${from("running")} RETURNING *`,
      now,
      seq,
    );
  }

  /** pending → running, in the turn of another one that runs. */
  join(seq: number, { seq: target, attempt }: AttemptRef, now: number): Submission | undefined {
    const joined = this.#counted(
      -1,
      `UPDATE perdure_submissions SET status = 'running', attempts = attempts + 1, started_at = ?, due_at = NULL,
         debounce_key = NULL, merged_into = (SELECT submission_id FROM perdure_submissions WHERE seq = ?)
       WHERE seq = ? AND status ${from("running")} AND (expires_at IS NULL OR expires_at > ?)
         AND EXISTS (SELECT 1 FROM perdure_submissions WHERE seq = ? AND status = 'running' AND attempts = ?)
       RETURNING *`,
      now,
      target,
      seq,
      now,
      target,
      attempt,
    );
    if (joined?.mergedInto !== undefined) this.open.join(joined.mergedInto);
    return joined;
  }

  /**
   * running → pending: the attempt left nothing behind, and its turn starts over.
   *
   * @param end.isFree whether the platform's own reset ended it, which costs no attempt
   * @param end.usage tokens so far, where they are known
   */
  startOver(
    { seq, attempts }: Pick<Seen, "seq" | "attempts">,
    { isFree = false, usage }: { isFree?: boolean; usage?: TokenUsage | undefined } = {},
  ): Submission | undefined {
    return this.#counted(
      +1,
      `UPDATE perdure_submissions SET status = 'pending', started_at = NULL, merged_into = NULL, resets = resets + ?,
         usage = COALESCE(?, usage)
       WHERE seq = ? AND status ${from("pending")} AND attempts = ? RETURNING *`,
      isFree ? 1 : 0,
      json(usage),
      seq,
      attempts,
    );
  }

  /**
   * running → pending, maybe due later: the attempt has failed, and is kept with its
   * error (L8). An isolated one leaves the line for that time: nobody is behind it.
   */
  retryAt({ seq, attempts }: Seen, end: FailedEnd, now: number): Submission | undefined {
    const { dueAt, usage } = end;
    const failed = this.#counted(
      +1,
      `UPDATE perdure_submissions SET status = 'pending', due_at = ?, usage = COALESCE(?, usage)
       WHERE seq = ? AND status ${from("pending")} AND attempts = ? RETURNING *`,
      dueAt ?? null,
      json(usage),
      seq,
      attempts,
    );
    if (failed && isIsolated(failed.thread) && dueAt !== undefined) {
      this.open.reschedule();
      this.storage.sql.exec(
        "UPDATE perdure_submissions SET not_before = due_at WHERE seq = ?",
        seq,
      );
    }
    if (failed) {
      const startedAt = failed.startedAt ?? now;
      this.attempts.add({ ...end, seq, attempt: attempts, startedAt, endedAt: now });
    }
    return failed;
  }

  /** Whether the attempt is the one that runs. */
  isRunning({ seq, attempt }: AttemptRef): boolean {
    const query =
      "SELECT 1 FROM perdure_submissions WHERE seq = ? AND status = 'running' AND attempts = ?";
    return this.storage.sql.exec(query, seq, attempt).toArray().length > 0;
  }

  /** running → running: a tool of it is about to run beside the conversation, once. */
  markEffects({ seq, attempt }: AttemptRef): void {
    this.storage.sql.exec(
      "UPDATE perdure_submissions SET has_effects = 1 WHERE seq = ? AND attempts = ? AND has_effects = 0",
      seq,
      attempt,
    );
  }

  /** Tokens of a running one so far: a budget has to survive a crash. */
  spend({ seq, attempt }: AttemptRef, usage: TokenUsage): void {
    this.storage.sql.exec(
      "UPDATE perdure_submissions SET usage = ? WHERE seq = ? AND status = 'running' AND attempts = ?",
      json(usage),
      seq,
      attempt,
    );
  }

  get(seq: number): Submission | undefined {
    return this.#one("SELECT * FROM perdure_submissions WHERE seq = ?", seq);
  }

  /** pending or running → terminal, if it is still as the caller saw it. */
  settle(
    seen: Seen,
    { status, failure, requestId, messageId, usage, isToBeUndone }: Settlement,
    now: number,
  ): Submission | undefined {
    if (!(NEXT[seen.status] as readonly SubmissionStatus[]).includes(status)) return undefined;
    return this.#counted(
      seen.status === "pending" ? -1 : 0,
      `UPDATE perdure_submissions
       SET status = ?, error = ?, error_name = ?, request_id = ?, message_id = ?, usage = COALESCE(?, usage),
         is_undone = ?, settled_at = ?
       WHERE seq = ? AND status = ? AND attempts = ? RETURNING *`,
      status,
      failure?.message ?? null,
      failure?.name ?? null,
      requestId ?? null,
      messageId ?? null,
      json(usage),
      isToBeUndone ? 0 : null,
      now,
      seen.seq,
      seen.status,
      seen.attempts,
    );
  }

  /** The turn of a cancelled one has come to its end, and has left a reply. */
  replied({ seq, attempts }: Seen, messageId: string): void {
    this.storage.sql.exec(
      `UPDATE perdure_submissions SET message_id = ?
       WHERE seq = ? AND attempts = ? AND status = 'aborted' AND message_id IS NULL AND is_undone IS NULL`,
      messageId,
      seq,
      attempts,
    );
  }

  /** completed → completed, with an answer that who asked for it cannot take: it is none for a later run (W1). */
  refuse(submissionIds: readonly string[]): void {
    this.storage.sql.exec(
      `UPDATE perdure_submissions SET is_refused = 1
       WHERE submission_id IN (SELECT value FROM json_each(?)) AND status = 'completed' AND is_refused = 0`,
      JSON.stringify(submissionIds),
    );
  }

  /** Every pending one of a thread → skipped. */
  skipPending(thread: string, failure: Failure, now: number): Submission[] {
    const skipped = select(
      this.storage.sql,
      `UPDATE perdure_submissions SET status = 'skipped', error = ?, error_name = ?, settled_at = ?
       WHERE seq IN (SELECT seq ${IN_LINE} AND thread = ? AND status = 'pending'
                     UNION ALL SELECT seq ${SCHEDULED} AND thread = ?) RETURNING *`,
      failure.message,
      failure.name,
      now,
      thread,
      thread,
    );
    this.open.count(-skipped.length);
    return skipped;
  }

  /** Takes the key from a submission, so that new work can have it (W1). */
  releaseKey(seq: number): void {
    const query = "UPDATE perdure_submissions SET idempotency_key = NULL WHERE seq = ?";
    this.storage.sql.exec(query, seq);
  }

  /** A transition that takes effect on one row or none, and by how much it changes the number of those that wait. */
  #counted(change: number, query: string, ...bindings: SqlStorageValue[]): Submission | undefined {
    const row = this.#one(query, ...bindings);
    if (row) this.open.count(change);
    if (row) this.#newest = Math.max(this.#newest, row.seq);
    return row;
  }

  #one(query: string, ...bindings: SqlStorageValue[]): Submission | undefined {
    return select(this.storage.sql, query, ...bindings)[0];
  }
}

/** SQL for "in a state from which `to` can be reached". */
function from(to: SubmissionStatus): string {
  const sources = (Object.keys(NEXT) as SubmissionStatus[]).filter((status) =>
    (NEXT[status] as readonly SubmissionStatus[]).includes(to),
  );
  return `IN (${sources.map((status) => `'${status}'`).join(", ")})`;
}
