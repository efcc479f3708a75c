/**
 * Writes `perdure_submissions`, by transition verbs only: each is fenced by the
 * state and the attempt that it expects, and returns the row when it took effect (L2).
 * An answer that waits in memory is written with the end; `answers.ts` holds it.
 *
 * Indexes, and what each bills: the id (1 row on accept, of one that the caller
 * has chosen), the key (1 on accept with a key), and the line, or those that wait for their time to join it (1 on
 * accept; their predicates are not on the status, so a claim or settle touches
 * them no more). Those of debouncing, joining, batches and rollbacks hold only what is
 * under way, and bill 1 where it is asked for. Ended ones are listed by rowid,
 * which is the order of acceptance and costs nothing.
 */

import type { Failure } from "../../core/failures.ts";
import { migrate } from "../../core/migrations.ts";
import { type AttemptRef, isIsolated } from "../host.ts";
import type { Limits } from "../options.ts";
import { NEXT, type SubmissionStatus } from "../states.ts";
import type { TokenUsage } from "../types.ts";
import { Answers } from "./answers.ts";
import { Attempts } from "./attempts.ts";
import { PromptBatches } from "./batches.ts";
import type { FailedEnd, NewSubmission, Seen, SettledState } from "./changes.ts";
import { Debounced } from "./debounced.ts";
import { bindIds, generatedId, SEQ_OF_EACH, seqIn } from "./ids.ts";
import { IN_LINE, OpenSubmissions, SCHEDULED } from "./open.ts";
import { Rollbacks } from "./rollbacks.ts";
import {
  eachWhole,
  json,
  NEXT_RANK,
  SUMMARY,
  type Submission,
  type Summary,
  select,
  summaries,
} from "./rows.ts";
import { MIGRATIONS } from "./schema.ts";
import { type NewCall, ToolCallRecords } from "./tool-calls.ts";

/** SQL for the number of the next row: behind all that are there, and all that this life has had to do with. */
const NEXT_SEQ = "(SELECT MAX(?, IFNULL(MAX(seq), 0)) + 1 FROM perdure_submissions)";

/** How far back a message is looked for among ended submissions. */
const RECENT = 100;
/** How many pending ones are ended by one statement. */
const AT_ONCE = 100;

export class SubmissionStore {
  /** Who waits and who runs. */
  readonly open: OpenSubmissions;
  readonly answers: Answers;
  readonly attempts: Attempts;
  readonly toolCalls: ToolCallRecords;
  readonly debounced: Debounced;
  readonly rollbacks: Rollbacks;
  readonly batches: PromptBatches;

  /** The newest one that this life has had to do with: its number is not given again, though it is deleted (L2). */
  #newest = 0;

  constructor(
    private readonly storage: DurableObjectStorage,
    limits: Limits,
  ) {
    this.open = new OpenSubmissions(storage.sql);
    this.answers = new Answers(storage, limits);
    this.attempts = new Attempts(storage.sql);
    this.toolCalls = new ToolCallRecords(storage.sql);
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

  /** Resolves when all that was written is on disk. */
  durable(): Promise<void> {
    return this.storage.sync();
  }

  /** The id of what is stored next, if nothing else is stored before. */
  newId(): string {
    const { seq } = this.storage.sql
      .exec<{ seq: number }>(`SELECT ${NEXT_SEQ} AS seq`, this.#newest)
      .one();
    return generatedId(seq, crypto.randomUUID());
  }

  /** (new) → pending. */
  accept(submission: NewSubmission, now: number): Submission {
    const { submissionId, idempotencyKey, messages, metadata, thread, channel } = submission;
    const { answer, notify, run, retry, rank, notBefore, expiresAt, keyExpiresAt } = submission;
    const { budget, debounceKey, debounceUntil, batch, isGenerated, isRetry } = submission;
    if (notBefore !== undefined) this.open.reschedule();
    return this.#counted(
      +1,
      `INSERT INTO perdure_submissions
         (seq, submission_id, idempotency_key, messages, metadata, thread, channel, answer, notify, run, retry, rank,
          not_before, expires_at, key_expires_at, budget, debounce_key, debounce_until, batch, created_at, is_generated, is_retry)
       VALUES (COALESCE(?, ${NEXT_SEQ}),
         ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING *`,
      isGenerated ? seqIn(submissionId) : null,
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
      isGenerated ? 1 : 0,
      isRetry ? 1 : 0,
    ) as Submission;
  }

  find(submissionId: string): Submission | undefined {
    const seq = seqIn(submissionId);
    const generated = seq === null ? undefined : this.get(seq);
    if (generated?.submissionId === submissionId) return generated;
    return this.#one(
      "SELECT * FROM perdure_submissions WHERE submission_id = ? AND is_generated = 0",
      submissionId,
    );
  }

  findByKey(idempotencyKey: string): Submission | undefined {
    return this.#one("SELECT * FROM perdure_submissions WHERE idempotency_key = ?", idempotencyKey);
  }

  /** The open or recent submission that one of these messages came with, the latest of them. */
  findByMessage(messageIds: ReadonlySet<string>): Submission | undefined {
    // Their texts are looked for in the rows, of which only those that may hold one are read, one at a time.
    const mayHold = "EXISTS (SELECT 1 FROM json_each(?) WHERE instr(messages, value) > 0)";
    const texts = JSON.stringify([...messageIds].map((id) => JSON.stringify(id)));
    const latest = (rows: string) => {
      const query = `SELECT * ${rows} AND ${mayHold} ORDER BY seq DESC`;
      for (const found of eachWhole(this.storage.sql, query, texts)) {
        if (found.messages.some(({ id }) => messageIds.has(id))) return found;
      }
      return undefined;
    };
    const found =
      latest(`${IN_LINE} AND status = 'running' AND merged_into IS NULL`) ??
      latest(
        `FROM perdure_submissions WHERE seq >= IFNULL(
           (SELECT seq FROM perdure_submissions ORDER BY seq DESC LIMIT 1 OFFSET ${RECENT - 1}), 0)`,
      );
    // The turn is that of the one that it has joined.
    const asked = found?.mergedInto === undefined ? found : (this.find(found.mergedInto) ?? found);
    return asked && { ...asked, isAnswered: this.isAnswered(asked) };
  }

  /** Whether its attempt has given an answer, which may not be in the row yet. */
  isAnswered({ seq, attempts, isAnswered }: Pick<Submission, "seq" | "attempts" | "isAnswered">) {
    return isAnswered || this.answers.heldOf({ seq, attempt: attempts }) !== undefined;
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
    const claimed = this.#counted(
      -1,
      `UPDATE perdure_submissions SET status = 'running', attempts = attempts + 1, started_at = ?, due_at = NULL, debounce_key = NULL
       WHERE seq = ? AND status ${from("running")} RETURNING *`,
      now,
      seq,
    );
    if (claimed?.isNext) {
      const query = "UPDATE perdure_submissions SET rank = rank + ? WHERE seq = ?";
      this.storage.sql.exec(query, NEXT_RANK, seq);
    }
    return claimed;
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
   * @param end.isNext whether it goes before all others of its thread, also urgent ones: its messages are there, and
   *   another turn would answer them
   */
  startOver(
    { seq, attempts }: Pick<Seen, "seq" | "attempts">,
    {
      isFree = false,
      usage,
      isNext = false,
    }: { isFree?: boolean; usage?: TokenUsage | undefined; isNext?: boolean } = {},
  ): Submission | undefined {
    // Only where it is asked for: a change of the rank writes an index entry.
    const rank = isNext ? `, rank = rank - ${NEXT_RANK}` : "";
    return this.#counted(
      +1,
      `UPDATE perdure_submissions SET status = 'pending', started_at = NULL, merged_into = NULL, resets = resets + ?,
         usage = COALESCE(?, usage)${rank}
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

  /** running → running: a tool is about to run. From here on no attempt would give an answer that is held again. */
  beginCall(ref: AttemptRef, ordinal: number, call: NewCall): void {
    const held = this.answers.heldOf(ref);
    this.toolCalls.add(ref.seq, ordinal, call);
    if (held === undefined) return;
    const query = "UPDATE perdure_submissions SET output = COALESCE(output, ?) WHERE seq = ?";
    this.storage.sql.exec(query, held, ref.seq);
    this.answers.drop(ref.seq);
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

  /** pending or running → terminal, if it is still as the caller saw it, with its output; in a transaction. */
  settle(
    seen: Seen,
    {
      status,
      failure,
      requestId,
      messageId,
      finishReason,
      text,
      refused,
      usage,
      isToBeUndone,
    }: SettledState,
    now: number,
  ): Submission | undefined {
    if (!(NEXT[seen.status] as readonly SubmissionStatus[]).includes(status)) return undefined;
    const ref = { seq: seen.seq, attempt: seen.attempts };
    const output = status === "completed" ? this.answers.outputAtEnd(ref, text) : (refused ?? null);
    return this.#counted(
      seen.status === "pending" ? -1 : 0,
      `UPDATE perdure_submissions
       SET status = ?, error = ?, error_name = ?, request_id = ?, message_id = ?, finish_reason = ?,
         usage = COALESCE(?, usage), is_undone = ?, settled_at = ?, output = COALESCE(output, ?)
       WHERE seq = ? AND status = ? AND attempts = ? RETURNING *`,
      status,
      failure?.message ?? null,
      failure?.name ?? null,
      requestId ?? null,
      messageId ?? null,
      finishReason ?? null,
      json(usage),
      isToBeUndone ? 0 : null,
      now,
      output,
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
       WHERE seq IN (SELECT ${SEQ_OF_EACH} FROM json_each(?)) AND status = 'completed' AND is_refused = 0`,
      bindIds(submissionIds),
    );
  }

  /** Some of the pending ones of a thread → skipped. */
  skipPending(thread: string, failure: Failure, now: number): Summary[] {
    const skipped = summaries(
      this.storage.sql,
      `UPDATE perdure_submissions SET status = 'skipped', error = ?, error_name = ?, settled_at = ?
       WHERE seq IN (SELECT seq ${IN_LINE} AND thread = ? AND status = 'pending'
                     UNION ALL SELECT seq ${SCHEDULED} AND thread = ? LIMIT ${AT_ONCE}) RETURNING ${SUMMARY}`,
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

  /** Another submission has been made of it, which takes over its key. */
  retried(seq: number, retryId: string): void {
    this.storage.sql.exec(
      "UPDATE perdure_submissions SET idempotency_key = NULL, retried_by = ? WHERE seq = ?",
      retryId,
      seq,
    );
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
