/**
 * Records answers. If another attempt would follow a crash (`isAskedAgain()`), an answer waits in memory for the statement of
 * the turn's end. Otherwise it is written at once. One that does not fit into its row is a large value. A trigger deletes it with
 * the row: a foreign key would search values for every deleted row.
 */

import { MAX_TIMER_MS } from "../../core/clock.ts";
import { byteLength, type Json } from "../../core/json.ts";
import { valuesOf } from "../../core/sql.ts";
import { PART_LENGTH, type Part, partOf } from "../../core/text.ts";
import { readPart, readValue, writeValue } from "../../engine/values.ts";
import { AnswerTooLargeError } from "../errors.ts";
import { ANSWER_BYTES, type Limits, ROW_BYTES, SMALL_OUTPUT_BYTES } from "../options.ts";
import type { AttemptRef } from "../states.ts";
import type { SubmitMessagesOptions } from "../submit-options.ts";
import { isAskedAgain } from "../turns/next-attempt.ts";

/** Bytes of a row that are there before its answer. */
const SUBMITTED_BYTES = ["messages", "metadata", "answer", "notify"]
  .map((column) => `LENGTH(CAST(IFNULL(${column}, '') AS BLOB))`)
  .join(" + ");

/** An attempt that runs and has no answer yet, as SQLite has it. */
type Row = {
  bytes: number;
  resets: number;
  retry: string | null;
  /** Of tokens, or of dollars. */
  budget: number | null;
  has_effects: number;
};

type Held = {
  readonly attempt: number;
  readonly output: string;
  readonly timer: ReturnType<typeof setTimeout>;
};

export class Answers {
  /** By the number of the submission. */
  readonly #held = new Map<number, Held>();

  constructor(
    private readonly storage: DurableObjectStorage,
    private readonly limits: Pick<Limits, "holdAnswerMs" | "maxAttempts">,
  ) {}

  /**
   * Records the answer of a running attempt, once: in memory, in the row, or in parts.
   *
   * @param output its JSON
   * @returns whether it was recorded now
   * @throws AnswerTooLargeError for one over 16 MiB; nothing is recorded then
   */
  record(ref: AttemptRef, output: string): boolean {
    const row = this.heldOf(ref) === undefined ? this.#unanswered(ref) : undefined;
    if (!row) return false;
    const bytes = byteLength(output);
    if (bytes > ANSWER_BYTES) throw new AnswerTooLargeError(bytes, ANSWER_BYTES);
    if (row.bytes + bytes > ROW_BYTES) return this.#writeInParts(ref, output);
    if (!this.#mayBeLost(ref, row)) return this.#write(ref, output);
    this.#hold(ref, output);
    return true;
  }

  /** The output for the statement that writes an end: the held answer, or the text of the reply; a long one goes to parts. */
  outputAtEnd(ref: AttemptRef, text = ""): string {
    const held = this.heldOf(ref);
    if (held !== undefined) return held;
    const output = JSON.stringify(text);
    // No UTF-16 unit takes more than three bytes.
    if (output.length * 3 <= SMALL_OUTPUT_BYTES) return output;
    const row = this.#unanswered(ref);
    if (!row || row.bytes + byteLength(output) <= ROW_BYTES) return output;
    writeParts(this.storage.sql, ref.seq, output);
    return IN_PARTS;
  }

  /** The answer that this attempt has given, where it is not written yet. */
  heldOf({ seq, attempt }: AttemptRef): string | undefined {
    const held = this.#held.get(seq);
    return held?.attempt === attempt ? held.output : undefined;
  }

  /** The answer is written, or no longer needed. */
  drop(seq: number): void {
    clearTimeout(this.#held.get(seq)?.timer);
    this.#held.delete(seq);
  }

  /** Whether another attempt would follow a crash, and give an answer again. */
  #mayBeLost({ attempt }: AttemptRef, { resets, retry, budget, has_effects }: Row): boolean {
    const asked = JSON.parse(retry ?? "{}") as NonNullable<SubmitMessagesOptions["retry"]>;
    return isAskedAgain({
      hasEffects: has_effects === 1,
      hasBudget: budget !== null,
      attempts: attempt - resets,
      maxAttempts: asked.maxAttempts ?? this.limits.maxAttempts,
    });
  }

  #hold(ref: AttemptRef, output: string): void {
    this.drop(ref.seq);
    const ms = Math.min(this.limits.holdAnswerMs, MAX_TIMER_MS);
    const timer = setTimeout(() => this.#release(ref, output), ms);
    this.#held.set(ref.seq, { attempt: ref.attempt, output, timer });
  }

  #release(ref: AttemptRef, output: string): void {
    try {
      this.#write(ref, output);
      this.drop(ref.seq);
    } catch (error) {
      console.error("[perdure] an answer could not be stored, will be stored with its end:", error);
    }
  }

  #unanswered({ seq, attempt }: AttemptRef): Row | undefined {
    const query = `SELECT ${SUBMITTED_BYTES} AS bytes, resets, retry, IFNULL(budget, limits ->> 'usd') AS budget,
                     EXISTS (SELECT 1 FROM perdure_tool_calls WHERE seq = s.seq) AS has_effects FROM perdure_submissions s
                   WHERE seq = ? AND status = 'running' AND attempts = ? AND output IS NULL`;
    return this.storage.sql.exec<Row>(query, seq, attempt).toArray()[0];
  }

  #write({ seq, attempt }: AttemptRef, output: string): boolean {
    const query = `UPDATE perdure_submissions SET output = ?
                   WHERE seq = ? AND status = 'running' AND attempts = ? AND output IS NULL RETURNING seq`;
    return valuesOf(this.storage.sql, query, output, seq, attempt).length > 0;
  }

  #writeInParts(ref: AttemptRef, output: string): boolean {
    return this.storage.transactionSync(() => {
      const isMarked = this.#write(ref, IN_PARTS);
      if (isMarked) writeParts(this.storage.sql, ref.seq, output);
      return isMarked;
    });
  }
}

/**
 * `output` of a row whose answer is in parts. No JSON is empty, so this is never an answer.
 * @internal
 */
export const IN_PARTS = "";

const ownerOf = (seq: number) => `answer:${seq}`;
const TRIGGER = `CREATE TRIGGER IF NOT EXISTS perdure_submissions_values AFTER DELETE ON perdure_submissions
  WHEN OLD.output = '${IN_PARTS}' BEGIN DELETE FROM perdure_values WHERE owner = 'answer:' || OLD.seq; END;`;

/**
 * Stores an answer in parts, in the transaction that marks its row as {@link IN_PARTS}.
 * @internal
 */
export function writeParts(sql: SqlStorage, seq: number, text: string): void {
  writeValue(sql, ownerOf(seq), text, TRIGGER);
}

/** The answer of one row. */
export class StoredAnswer {
  constructor(
    private readonly sql: SqlStorage,
    private readonly seq: number,
    /** The column `output`. */
    private readonly output: string,
  ) {}

  /** Whether it is more than one part, which may be more than the result of a step can hold. */
  get isLarge(): boolean {
    return this.output === IN_PARTS || this.output.length > PART_LENGTH;
  }

  get bytes(): number {
    return byteLength(this.#json());
  }

  read(): Json {
    return JSON.parse(this.#json()) as Json;
  }

  #json(): string {
    const { sql, seq, output } = this;
    return output === IN_PARTS ? readValue(sql, ownerOf(seq)) : output;
  }

  /** A part of its JSON, from 0 on; undefined behind the last one. */
  part(part: number): Part | undefined {
    const { sql, seq, output } = this;
    return output === IN_PARTS ? readPart(sql, ownerOf(seq), part) : partOf(output, part);
  }
}
