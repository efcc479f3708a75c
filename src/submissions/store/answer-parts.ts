/**
 * Recorded answers. Owns `perdure_answer_parts`, for those that do not fit into
 * the row of their submission: written with the answer, never changed, gone
 * with the row by its trigger, which is in the schema so that no way of deleting
 * can forget it. A foreign key would look for parts of every row that goes.
 */

import { byteLength, type Json } from "../../core/json.ts";
import { PART_LENGTH, partsOf } from "../../core/text.ts";
import type { AnswerPart } from "../types.ts";

/** `output` of a row whose answer is in parts. No JSON is empty, so this is never an answer. */
export const IN_PARTS = "";

/** Stores an answer in parts, in the transaction that marks its row as {@link IN_PARTS}. */
export function writeParts(sql: SqlStorage, seq: number, text: string): void {
  for (const [part, piece] of partsOf(text).entries()) {
    const query = "INSERT INTO perdure_answer_parts (seq, part, text) VALUES (?, ?, ?)";
    sql.exec(query, seq, part, piece);
  }
}

/** The answer of one row. Parts are read when asked for: those of all rows of a query could be too much to hold. */
export class StoredAnswer {
  constructor(
    private readonly sql: SqlStorage,
    private readonly seq: number,
    /** The column `output`. */
    private readonly output: string,
  ) {}

  /** Whether it is more than one part, which may be more than the result of a step can hold (O4). */
  get isLarge(): boolean {
    return this.output === IN_PARTS || this.output.length > PART_LENGTH;
  }

  /** Of its JSON in UTF-8. */
  get bytes(): number {
    if (this.output !== IN_PARTS) return byteLength(this.output);
    const query = `SELECT SUM(LENGTH(CAST(text AS BLOB))) AS bytes
                   FROM perdure_answer_parts WHERE seq = ?`;
    return this.sql.exec<{ bytes: number }>(query, this.seq).one().bytes;
  }

  read(): Json {
    if (this.output !== IN_PARTS) return JSON.parse(this.output) as Json;
    const query = "SELECT text FROM perdure_answer_parts WHERE seq = ? ORDER BY part";
    const rows = this.sql.exec<{ text: string }>(query, this.seq).toArray();
    return JSON.parse(rows.map(({ text }) => text).join("")) as Json;
  }

  /** A part of its JSON, from 0 on; undefined behind the last one. */
  part(part: number): AnswerPart | undefined {
    if (this.output !== IN_PARTS) {
      const parts = partsOf(this.output);
      const text = parts[part];
      return text === undefined ? undefined : { text, parts: parts.length };
    }
    const query = `SELECT text, (SELECT MAX(part) + 1 FROM perdure_answer_parts WHERE seq = piece.seq) AS parts
                   FROM perdure_answer_parts AS piece WHERE seq = ? AND part = ?`;
    return this.sql.exec<AnswerPart>(query, this.seq, part).toArray()[0];
  }
}
