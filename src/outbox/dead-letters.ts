/** All SQL of the entries that were given up. Owns `perdure_dead_letters`. */

import type { Json } from "../core/json.ts";
import { cursorOf, readCursor } from "./filters.ts";
import type { DeadLetter, DeadLetterPage, Destination, WorkflowDestination } from "./types.ts";

/** A letter as it is shown, without its event where that is long, so that a page of them fits into memory. */
const SHOWN = `SELECT id, attempts, created_at, died_at, last_error, destination,
    iif(length(payload) <= 16384, payload, NULL) AS payload
  FROM perdure_dead_letters`;

type Row = {
  id: string;
  attempts: number;
  created_at: number;
  died_at: number;
  last_error: string;
  destination: string;
  payload: string | null;
};

/** Letters of one destination, or of a time. */
export type Selection = { readonly key: string | undefined; readonly since: number };

export class DeadLetters {
  readonly #sql: SqlStorage;

  constructor(private readonly storage: DurableObjectStorage) {
    this.#sql = storage.sql;
  }

  /**
   * waiting → dead: the entry moves here with its event.
   *
   * @param attempts how many were begun
   */
  bury(id: string, attempts: number, error: string, now: number): void {
    this.storage.transactionSync(() => {
      this.#sql.exec(
        `INSERT OR REPLACE INTO perdure_dead_letters
           (id, destination_key, seq, is_ordered, attempts, created_at, died_at, last_error, destination, payload)
         SELECT id, destination_key, seq, is_ordered, ?, created_at, ?, ?, destination, payload
         FROM perdure_outbox WHERE id = ?`,
        attempts,
        now,
        error,
        id,
      );
      this.#sql.exec("DELETE FROM perdure_outbox WHERE id = ?", id);
    });
  }

  /** Newest first, from behind the cursor on. */
  list({ key, since }: Selection, limit: number, cursor: string | undefined): DeadLetterPage {
    const [time, id] = cursor === undefined ? [Number.MAX_SAFE_INTEGER, ""] : readCursor(cursor);
    const rows = this.#sql
      .exec<Row>(
        `${SHOWN} WHERE (died_at, id) < (?, ?) AND died_at >= ? AND ifnull(destination_key = ?, 1)
         ORDER BY died_at DESC, id DESC LIMIT ?`,
        time,
        id,
        since,
        key ?? null,
        // One more tells whether there is another page.
        limit + 1,
      )
      .toArray();
    const page = rows.slice(0, limit);
    const last = page.at(-1);
    return {
      deadLetters: page.map(toLetter),
      ...(last && rows.length > limit && { cursor: cursorOf(last.died_at, last.id) }),
    };
  }

  count({ key, since }: Selection): number {
    return this.#sql
      .exec<{ count: number }>(
        "SELECT COUNT(*) AS count FROM perdure_dead_letters WHERE died_at >= ? AND ifnull(destination_key = ?, 1)",
        since,
        key ?? null,
      )
      .one().count;
  }

  /** dead → waiting, due at once, in the place in line that it had. Returns whether there was one. */
  redrive(id: string, now: number): boolean {
    return this.#redrive("id = ?", [id], now) > 0;
  }

  /** dead → waiting: all of a selection. Returns how many. */
  redriveAll({ key, since }: Selection, now: number): number {
    return this.#redrive(
      "died_at >= ? AND ifnull(destination_key = ?, 1)",
      [since, key ?? null],
      now,
    );
  }

  #redrive(which: string, values: SqlStorageValue[], now: number): number {
    return this.storage.transactionSync(() => {
      this.#sql.exec(
        `INSERT INTO perdure_outbox
           (id, destination_key, seq, due_at, is_ordered, attempts, is_begun, attempts_before, created_at, since, last_error, destination, payload)
         SELECT id, destination_key, seq, ?, is_ordered, attempts + 1, 0, attempts, created_at, ?, last_error, destination, payload
         FROM perdure_dead_letters WHERE ${which} ON CONFLICT (id) DO NOTHING`,
        now,
        now,
        ...values,
      );
      const gone = `DELETE FROM perdure_dead_letters WHERE ${which} RETURNING id`;
      return this.#sql.exec(gone, ...values).toArray().length;
    });
  }

  /** Forgets one for good. Returns whether there was one. */
  delete(id: string): boolean {
    return this.#delete("id = ?", id) > 0;
  }

  /** Forgets those that died before a time for good. Returns how many. */
  deleteBefore(time: number): number {
    return this.#delete("died_at < ?", time);
  }

  #delete(which: string, value: SqlStorageValue): number {
    return this.storage.transactionSync(() => {
      const gone = `DELETE FROM perdure_dead_letters WHERE ${which} RETURNING id, payload IS NULL AS isInParts`;
      const letters = this.#sql.exec<{ id: string; isInParts: number }>(gone, value).toArray();
      for (const { id, isInParts } of letters) {
        if (isInParts) this.#sql.exec("DELETE FROM perdure_outbox_parts WHERE id = ?", id);
      }
      return letters.length;
    });
  }

  /** One that the app has not been told of. */
  untold(): DeadLetter | undefined {
    const [row] = this.#sql.exec<Row>(`${SHOWN} WHERE is_told = 0 ORDER BY id LIMIT 1`).toArray();
    return row && toLetter(row);
  }

  /** The app has been told of this death of it; it may have been redriven and have died again since. */
  told({ id, attempts, diedAt }: DeadLetter): void {
    this.#sql.exec(
      "UPDATE perdure_dead_letters SET is_told = 1 WHERE id = ? AND attempts = ? AND died_at = ?",
      id,
      attempts,
      diedAt,
    );
  }
}

function toLetter(row: Row): DeadLetter {
  const { proof: _, ...destination } = JSON.parse(row.destination) as WorkflowDestination;
  return {
    id: row.id,
    destination: destination as Destination,
    ...(row.payload !== null && { event: JSON.parse(row.payload) as Json }),
    attempts: row.attempts,
    lastError: row.last_error,
    createdAt: row.created_at,
    diedAt: row.died_at,
  };
}
