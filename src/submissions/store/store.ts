/**
 * Writes `perdure_submissions` by transitions. Each is fenced by the state and the attempt that it expects, and returns the row
 * if it took effect.
 *
 * Rows that indexes bill on accept: 1 for an id that the caller chose, 1 for a key, 1 for the queue or the schedule. A claim or
 * an end writes none, because no predicate contains the status. Debouncing, joining, batches and rollbacks bill 1 each.
 */

import { type Failure, storedFailure } from "../../core/failures.ts";
import { insert, valuesOf } from "../../core/sql.ts";
import { migrate } from "../../engine/migrations.ts";
import type { Limits } from "../options.ts";
import { type AttemptRef, NEXT, type SubmissionStatus } from "../states.ts";
import { isIsolated } from "../threads.ts";
import type { TokenUsage } from "../types.ts";
import { Answers } from "./answers.ts";
import { Attempts } from "./attempts.ts";
import { BatchStore } from "./batches.ts";
import { SubmissionHistory } from "./history.ts";
import { OpenSubmissions, QUEUED, SCHEDULED } from "./open.ts";
import {
  acceptedRow,
  bindIds,
  eachWhole,
  type FailedEnd,
  generatedId,
  json,
  NEW_COLUMNS,
  NEXT_RANK,
  type NewSubmission,
  SEQ_OF_EACH,
  type Seen,
  type SettledState,
  type Submission,
  type Summary,
  select,
  seqIn,
} from "./rows.ts";
import { MIGRATIONS } from "./schema.ts";
import { type AttemptTimeline, withInterrupted } from "./timeline.ts";
import { type NewCall, ToolCallRecords } from "./tool-calls.ts";

type Interrupted = Pick<Submission, "seq" | "attempts"> &
  Partial<Pick<Submission, "startedAt" | "timeline">>;

const RECENT = 100;

export class SubmissionStore {
  readonly open: OpenSubmissions;
  readonly answers: Answers;
  readonly attempts: Attempts;
  readonly toolCalls: ToolCallRecords;
  readonly batches: BatchStore;
  readonly history: SubmissionHistory;

  /** The highest number that is stored, or that this object instance has given. Undefined until it is needed. */
  #newest: number | undefined;

  constructor(
    readonly storage: DurableObjectStorage,
    limits: Limits,
  ) {
    this.open = new OpenSubmissions(storage.sql);
    this.answers = new Answers(storage, limits);
    this.attempts = new Attempts(storage.sql);
    this.toolCalls = new ToolCallRecords(storage.sql);
    this.batches = new BatchStore(storage.sql, this.open);
    this.history = new SubmissionHistory(storage.sql);
  }

  migrate(): void {
    migrate(this.storage, "submissions", MIGRATIONS);
  }

  transaction<T>(work: () => T): T {
    try {
      return this.storage.transactionSync(work);
    } catch (error) {
      this.open.forget();
      throw error;
    }
  }

  newId(): string {
    return generatedId(this.#newSeq(), crypto.randomUUID());
  }

  /** A number is given once, also if its row is deleted. */
  #newSeq(): number {
    const query = "SELECT IFNULL(MAX(seq), 0) FROM perdure_submissions";
    this.#newest ??= valuesOf<number>(this.storage.sql, query)[0] as number;
    return ++this.#newest;
  }

  /** (new) → pending. Returns it as it is stored, without a read. */
  accept(submission: NewSubmission, now: number): Summary {
    const { submissionId, notBefore, isGenerated } = submission;
    if (notBefore !== undefined) this.open.reschedule();
    const seq = (isGenerated ? seqIn(submissionId) : null) ?? this.#newSeq();
    // Only these columns: one that is submitted again is a whole row, with the due time, the usage and the end of the old one.
    const columns = NEW_COLUMNS.map((name) => [name, submission[name]]);
    const row: NewSubmission = Object.fromEntries(columns);
    insert(this.storage.sql, "perdure_submissions", { ...row, seq, createdAt: now });
    this.open.count(+1);
    return acceptedRow(this.storage.sql, row, seq, now);
  }

  find(submissionId: string): Submission | undefined {
    const seq = seqIn(submissionId);
    const generated = seq === null ? undefined : this.get(seq);
    if (generated?.submissionId === submissionId) return generated;
    const query = "SELECT * FROM perdure_submissions WHERE submission_id = ? AND is_generated = 0";
    return this.#one(query, submissionId);
  }

  findByKey(idempotencyKey: string): Submission | undefined {
    return this.#one("SELECT * FROM perdure_submissions WHERE idempotency_key = ?", idempotencyKey);
  }

  /** The open or recent submission that one of these messages came with, the latest of them. */
  findByMessage(messageIds: ReadonlySet<string>): Submission | undefined {
    // Only rows that may contain one of the ids are read, one at a time.
    const mayHold = "EXISTS (SELECT 1 FROM json_each(?) WHERE instr(messages, value) > 0)";
    const texts = JSON.stringify([...messageIds].map((id) => JSON.stringify(id)));
    const latest = (rows: string) => {
      const query = `SELECT * ${rows} AND ${mayHold} ORDER BY seq DESC`;
      for (const found of eachWhole(this.storage.sql, query, texts)) {
        if (found.messages.some(({ id }) => messageIds.has(id))) return found;
      }
      return undefined;
    };
    const recent = `FROM perdure_submissions WHERE seq >= IFNULL(
      (SELECT seq FROM perdure_submissions ORDER BY seq DESC LIMIT 1 OFFSET ${RECENT - 1}), 0)`;
    const running = `${QUEUED} AND status = 'running' AND merged_into IS NULL`;
    const found = latest(running) ?? latest(recent);
    // The turn is that of the one that it has joined.
    const asked = found?.mergedInto === undefined ? found : (this.find(found.mergedInto) ?? found);
    return asked && { ...asked, isAnswered: this.isAnswered(asked) };
  }

  /** Whether its attempt has given an answer, which may not be in the row yet. */
  isAnswered({ seq, attempts, isAnswered }: Pick<Submission, "seq" | "attempts" | "isAnswered">) {
    return isAnswered || this.answers.heldOf({ seq, attempt: attempts }) !== undefined;
  }

  /** pending → running, the attempt counted before anything of it runs. */
  claim(seq: number, now: number): Submission | undefined {
    const claimed = this.#counted(
      -1,
      `UPDATE perdure_submissions SET status = 'running', attempts = attempts + 1, started_at = ?, due_at = NULL, debounce_key = NULL
       WHERE seq = ? AND status = 'pending' RETURNING *`,
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
       WHERE seq = ? AND status = 'pending' AND (expires_at IS NULL OR expires_at > ?)
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
   * running → pending: the turn starts over.
   *
   * @param now the time of the decision; when the attempt was interrupted is not known
   * @param end.isFree whether a reset of the platform ended the attempt, which is not counted then
   * @param end.isWait whether it waited for a limit, which is not counted either
   * @param end.usage tokens so far, where they are known
   * @param end.timeline its model calls, where they are known
   * @param end.isNext whether it goes before all others of its thread, because its messages are in the conversation
   */
  startOver(
    { seq, attempts, startedAt, timeline: earlier }: Interrupted,
    now: number,
    {
      isFree = false,
      isWait = false,
      usage,
      timeline,
      isNext = false,
    }: {
      isFree?: boolean;
      isWait?: boolean;
      usage?: TokenUsage | undefined;
      timeline?: AttemptTimeline | undefined;
      isNext?: boolean;
    } = {},
  ): Submission | undefined {
    const attempt = { ...timeline, attempt: attempts, startedAt: startedAt ?? now, endedAt: now };
    // Only where it is asked for: a change of the rank writes an index entry.
    const rank = isNext ? `, rank = rank - ${NEXT_RANK}` : "";
    return this.#counted(
      +1,
      `UPDATE perdure_submissions SET status = 'pending', started_at = NULL, due_at = NULL, merged_into = NULL, waiting_for = NULL, resets = resets + ?,
         waits = waits + ?, usage = COALESCE(?, usage), timeline = ?${rank}
       WHERE seq = ? AND status = 'running' AND attempts = ? RETURNING *`,
      isFree || isWait ? 1 : 0,
      isWait ? 1 : 0,
      json(usage),
      json(withInterrupted(earlier, attempt)),
      seq,
      attempts,
    );
  }

  /** running → pending, maybe due later: records the failed attempt. An isolated one is scheduled like `notBefore`. */
  retryAt({ seq, attempts }: Seen, end: FailedEnd, now: number): Submission | undefined {
    const { dueAt, usage } = end;
    const failed = this.#counted(
      +1,
      `UPDATE perdure_submissions SET status = 'pending', due_at = ?, waiting_for = NULL, usage = COALESCE(?, usage)
       WHERE seq = ? AND status = 'running' AND attempts = ? RETURNING *`,
      dueAt ?? null,
      json(usage),
      seq,
      attempts,
    );
    if (failed && isIsolated(failed.thread) && dueAt !== undefined) {
      this.open.reschedule();
      const query = "UPDATE perdure_submissions SET not_before = due_at WHERE seq = ?";
      this.storage.sql.exec(query, seq);
    }
    if (failed) {
      const startedAt = failed.startedAt ?? now;
      this.attempts.add({ ...end, seq, attempt: attempts, startedAt, endedAt: now });
    }
    return failed;
  }

  isRunning({ seq, attempt }: AttemptRef): boolean {
    const query = `SELECT 1 FROM perdure_submissions
                   WHERE seq = ? AND status = 'running' AND attempts = ?`;
    return valuesOf(this.storage.sql, query, seq, attempt).length > 0;
  }

  /** running → running: a tool is about to run. From here on no attempt would give an answer that is held again. */
  beginCall(ref: AttemptRef, ordinal: number, call: NewCall, now: number): void {
    const held = this.answers.heldOf(ref);
    this.toolCalls.add(ref, ordinal, call, now);
    if (held === undefined) return;
    const query = "UPDATE perdure_submissions SET output = COALESCE(output, ?) WHERE seq = ?";
    this.storage.sql.exec(query, held, ref.seq);
    this.answers.drop(ref.seq);
  }

  /** Tokens of a running one so far: a budget has to survive a crash. */
  spend({ seq, attempt }: AttemptRef, usage: TokenUsage): void {
    const query = `UPDATE perdure_submissions SET usage = ?
                   WHERE seq = ? AND status = 'running' AND attempts = ?`;
    this.storage.sql.exec(query, json(usage), seq, attempt);
  }

  get(seq: number): Submission | undefined {
    return this.#one("SELECT * FROM perdure_submissions WHERE seq = ?", seq);
  }

  /** pending or running → terminal, if it is still as the caller saw it, with its output; in a transaction. */
  settle(seen: Seen, ending: SettledState, now: number): Submission | undefined {
    const { status } = ending;
    const { name, message, cause }: Partial<Failure> = ending.failure ?? {};
    if (!(NEXT[seen.status] as readonly SubmissionStatus[]).includes(status)) return undefined;
    const ref = { seq: seen.seq, attempt: seen.attempts };
    const output =
      status === "completed"
        ? this.answers.outputAtEnd(ref, ending.text)
        : (ending.refused ?? null);
    return this.#counted(
      seen.status === "pending" ? -1 : 0,
      `UPDATE perdure_submissions
       SET status = ?, error = ?, error_name = ?, request_id = ?, message_id = ?, finish_reason = ?,
         usage = COALESCE(?, usage), rollback_state = ?, settled_at = ?, output = COALESCE(output, ?),
         timeline = COALESCE(?, timeline)
       WHERE seq = ? AND status = ? AND attempts = ? RETURNING *`,
      status,
      message === undefined ? null : storedFailure({ message, cause }),
      name ?? null,
      ending.requestId ?? null,
      ending.messageId ?? null,
      ending.finishReason ?? null,
      json(ending.usage),
      ending.isRolledBack ? "pending" : null,
      now,
      output,
      json(ending.timeline),
      seen.seq,
      seen.status,
      seen.attempts,
    );
  }

  /** The turn of a cancelled submission has ended, and has left a reply. */
  recordReply({ seq, attempts }: Seen, messageId: string): void {
    const query = `UPDATE perdure_submissions SET message_id = ?
       WHERE seq = ? AND attempts = ? AND status = 'aborted' AND message_id IS NULL AND rollback_state IS NULL`;
    this.storage.sql.exec(query, messageId, seq, attempts);
  }

  /** completed → completed, with an answer that its workflow refuses: a later run asks again. */
  refuse(submissionIds: readonly string[]): void {
    const query = `UPDATE perdure_submissions SET is_refused = 1
       WHERE seq IN (SELECT ${SEQ_OF_EACH} FROM json_each(?)) AND status = 'completed' AND is_refused = 0`;
    this.storage.sql.exec(query, bindIds(submissionIds));
  }

  /** Some of the pending ones of a thread → skipped. */
  skipPending(thread: string, failure: Failure, now: number): Summary[] {
    const rows = `SELECT seq ${QUEUED} AND thread = ? AND status = 'pending'
                  UNION ALL SELECT seq ${SCHEDULED} AND thread = ?`;
    return this.open.endPending(rows, [thread, thread], { status: "skipped", failure, now });
  }

  /** pending → pending, with the latest messages, and later if its time has not come. */
  replaceDebounced(
    seq: number,
    { messages, metadata, notify, expiresAt }: NewSubmission,
    notBefore: number,
  ): Submission {
    this.open.reschedule();
    const replaced = this.#one(
      `UPDATE perdure_submissions SET messages = ?, metadata = ?, notify = ?, expires_at = ?,
         due_at = iif(not_before IS NULL, due_at, NULL),
         not_before = CASE WHEN not_before IS NULL THEN NULL ELSE MIN(?, debounce_until) END
       WHERE seq = ? AND status = 'pending' RETURNING *`,
      messages,
      json(metadata),
      json(notify),
      expiresAt ?? null,
      notBefore,
      seq,
    );
    if (!replaced) throw new Error(`Submission ${seq} is no longer pending`);
    return replaced;
  }

  /** Takes the key from a submission, so that new work can have it, e.g. the retry that was made of it. */
  releaseKey(seq: number, retryId: string | null = null): void {
    const query = `UPDATE perdure_submissions
                   SET idempotency_key = NULL, retried_by = COALESCE(?, retried_by) WHERE seq = ?`;
    this.storage.sql.exec(query, retryId, seq);
  }

  /** Runs a transition of one row. `change` is its effect on the number of pending ones. */
  #counted(change: number, query: string, ...bindings: SqlStorageValue[]): Submission | undefined {
    const row = this.#one(query, ...bindings);
    if (!row) return undefined;
    this.open.count(change);
    return row;
  }

  #one(query: string, ...bindings: SqlStorageValue[]): Submission | undefined {
    return select(this.storage.sql, query, ...bindings)[0];
  }
}
