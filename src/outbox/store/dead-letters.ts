/** All SQL of the entries that were given up. Owns `perdure_dead_letters`. */

import type { Json } from "../../core/json.ts";
import { cursorOf, readCursor } from "../filters.ts";
import type { DeadLetter, DeadLetterPage, Destination, WorkflowDestination } from "../types.ts";

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

/** How many are kept, and for how long. */
export type LetterLimits = { readonly maxAgeMs: number; readonly maxCount: number };

/** Letters that one look at what can go deletes at most, by age and by count each. */
const AT_ONCE = 256;
/** Of those that are deleted, ids that are logged. */
const LOGGED = 10;

/** Letters of one destination, or of a time. */
export type Selection = { readonly key: string | undefined; readonly since: number };

export class DeadLetters {
  readonly #sql: SqlStorage;

  /** How many there are; undefined: not counted yet. */
  #count: number | undefined;

  constructor(
    private readonly storage: DurableObjectStorage,
    private readonly limits: LetterLimits,
  ) {
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
      const moved = this.#sql.exec("DELETE FROM perdure_outbox WHERE id = ? RETURNING id", id);
      this.#changed(moved.toArray().length);
    });
  }

  /** dead → gone: some of those that are too old, and of too many, once the app has been told of them. */
  prune(now: number): void {
    const { maxAgeMs, maxCount } = this.limits;
    this.#count ??= this.count({ key: undefined, since: 0 });
    if (this.#count === 0) return;
    const oldest = "SELECT id FROM perdure_dead_letters WHERE is_told = 1";
    const which = `id IN (${oldest} AND died_at < ? ORDER BY died_at, id LIMIT ?)`;
    const tooOld = this.#delete(which, now - maxAgeMs, AT_ONCE);
    const over = Math.min(this.#count - maxCount, AT_ONCE);
    const tooMany =
      over > 0 ? this.#delete(`id IN (${oldest} ORDER BY died_at, id LIMIT ?)`, over) : [];
    const gone = [...tooOld, ...tooMany];
    if (gone.length === 0) return;
    const ids = gone.slice(0, LOGGED).join(", ") + (gone.length > LOGGED ? ", ..." : "");
    console.warn(`[perdure] ${gone.length} dead letters were deleted by keepDeadLetters: ${ids}`);
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

  /** dead → waiting, due at once, in the place in line that it had. Returns whether it is sent again. */
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

  /** Leaves out what is for a disabled endpoint, which would be given up again at once. */
  #redrive(which: string, values: SqlStorageValue[], now: number): number {
    return this.storage.transactionSync(() => {
      const sent = this.#sql
        .exec<{ id: string }>(
          `INSERT INTO perdure_outbox
             (id, destination_key, seq, due_at, is_ordered, attempts, is_begun, attempts_before, created_at, since, last_error, destination, payload)
           SELECT id, destination_key, seq, ?, is_ordered, attempts + 1, 0, attempts, created_at, ?, last_error, destination, payload
           FROM perdure_dead_letters WHERE ${which}
             AND destination_key NOT IN (SELECT key FROM perdure_endpoints WHERE disabled_at IS NOT NULL)
           ON CONFLICT (id) DO NOTHING RETURNING id`,
          now,
          now,
          ...values,
        )
        .toArray()
        .map(({ id }) => id);
      const gone = "DELETE FROM perdure_dead_letters WHERE id IN (SELECT value FROM json_each(?))";
      if (sent.length > 0) this.#sql.exec(gone, JSON.stringify(sent));
      this.#changed(-sent.length);
      return sent.length;
    });
  }

  /** Forgets one for good. Returns whether there was one. */
  delete(id: string): boolean {
    return this.#delete("id = ?", id).length > 0;
  }

  /** Forgets those that died before a time for good. Returns how many. */
  deleteBefore(time: number): number {
    return this.#delete("died_at < ?", time).length;
  }

  /** Returns the ids of those that are gone. */
  #delete(which: string, ...values: SqlStorageValue[]): string[] {
    return this.storage.transactionSync(() => {
      const gone = `DELETE FROM perdure_dead_letters WHERE ${which} RETURNING id, payload IS NULL AS isInParts`;
      const letters = this.#sql.exec<{ id: string; isInParts: number }>(gone, ...values).toArray();
      for (const { id, isInParts } of letters) {
        if (isInParts) this.#sql.exec("DELETE FROM perdure_outbox_parts WHERE id = ?", id);
      }
      this.#changed(-letters.length);
      return letters.map(({ id }) => id);
    });
  }

  #changed(by: number): void {
    if (this.#count !== undefined) this.#count += by;
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
