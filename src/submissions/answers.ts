/** How an answer is recorded: in the row of its submission, or in parts. All SQL that writes `output`. */

import { byteLength } from "../core/json.ts";
import { IN_PARTS, writeParts } from "./answer-parts.ts";
import { AnswerTooLargeError } from "./errors.ts";
import { ANSWER_BYTES, ROW_BYTES } from "./options.ts";
import { type Submission, select } from "./rows.ts";

/** Bytes of a row that are there before its answer. */
const SUBMITTED_BYTES = ["messages", "metadata", "answer", "notify"]
  .map((column) => `LENGTH(CAST(IFNULL(${column}, '') AS BLOB))`)
  .join(" + ");

export class Answers {
  constructor(private readonly storage: DurableObjectStorage) {}

  /**
   * running → running, with the answer recorded, once (L7): in the row, or where
   * that would become too long, in parts (O4).
   *
   * @param output its JSON
   * @throws AnswerTooLargeError for one over 16 MiB; nothing is recorded then
   */
  record(seq: number, attempt: number, output: string): Submission | undefined {
    const bytes = byteLength(output);
    const room = ROW_BYTES - bytes;
    const inRow = room >= 0 ? this.#write(seq, attempt, output, room) : undefined;
    if (inRow) return inRow;
    return this.storage.transactionSync(() => {
      const marked = this.#write(seq, attempt, IN_PARTS, Number.MAX_SAFE_INTEGER);
      if (marked && bytes > ANSWER_BYTES) throw new AnswerTooLargeError(bytes, ANSWER_BYTES);
      if (marked) writeParts(this.storage.sql, seq, output);
      return marked;
    });
  }

  /** Into a row that runs, is not answered, and has no more than `room` bytes yet. */
  #write(seq: number, attempt: number, output: string, room: number): Submission | undefined {
    const [written] = select(
      this.storage.sql,
      `UPDATE perdure_submissions SET output = ?
       WHERE seq = ? AND status = 'running' AND attempts = ? AND output IS NULL AND ${SUBMITTED_BYTES} <= ?
       RETURNING *`,
      output,
      seq,
      attempt,
      room,
    );
    return written;
  }
}
