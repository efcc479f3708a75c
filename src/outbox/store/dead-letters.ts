/** All SQL of dead letters: entries that are not attempted any more. Owns `perdure_dead_letters`. */

import type { Json } from "../../core/json.ts";
import { cursorOf, type Position } from "../filters.ts";
import type { DeadLetter, DeadLetterPage } from "../types.ts";
import { withoutProof } from "./listing.ts";

/** A dead letter as lists and hooks get it, without a long event, so that a page of them fits into memory. */
const SELECT = `SELECT id, attempts, created_at, died_at, last_error, destination,
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

/** Dead letters that one call deletes at most, by age and by count each. */
const MAX_PRUNED = 256;
/** Ids of deleted dead letters that the log names. */
const MAX_LOGGED = 10;

/** Dead letters of one destination (undefined: of all), since a time. */
export type Selection = { readonly key: string | undefined; readonly since: number };

export class DeadLetterStore {
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
   * @param attempts how many were started
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

  /** Deletes some of those that are too old or too many, once the app was notified of them. */
  prune(now: number): void {
    const { maxAgeMs, maxCount } = this.limits;
    this.#count ??= this.count({ key: undefined, since: 0 });
    if (this.#count === 0) return;
    const oldest = "SELECT id FROM perdure_dead_letters WHERE is_notified = 1";
    const which = `id IN (${oldest} AND died_at < ? ORDER BY died_at, id LIMIT ?)`;
    const tooOld = this.#delete(which, now - maxAgeMs, MAX_PRUNED);
    const over = Math.min(this.#count - maxCount, MAX_PRUNED);
    const tooMany =
      over > 0 ? this.#delete(`id IN (${oldest} ORDER BY died_at, id LIMIT ?)`, over) : [];
    const gone = [...tooOld, ...tooMany];
    if (gone.length === 0) return;
    const ids = gone.slice(0, MAX_LOGGED).join(", ") + (gone.length > MAX_LOGGED ? ", ..." : "");
    console.warn(`[perdure] ${gone.length} dead letters were deleted by keepDeadLetters: ${ids}`);
  }

  /** One page, newest first, after a position. */
  list({ key, since }: Selection, limit: number, after: Position | undefined): DeadLetterPage {
    const [time, id] = after ?? [Number.MAX_SAFE_INTEGER, ""];
    const rows = this.#sql
      .exec<Row>(
        `${SELECT} WHERE (died_at, id) < (?, ?) AND died_at >= ? AND ifnull(destination_key = ?, 1)
         ORDER BY died_at DESC, id DESC LIMIT ?`,
        time,
        id,
        since,
        key ?? null,
        // One more shows whether there is another page.
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

  /** dead → waiting, due at once, in its old place in the order. Returns whether it is sent again. */
  redrive(id: string, now: number): boolean {
    return this.#redrive("id = ?", [id], now) > 0;
  }

  /** dead → waiting: all of a selection. Returns how many are sent again. */
  redriveAll({ key, since }: Selection, now: number): number {
    return this.#redrive(
      "died_at >= ? AND ifnull(destination_key = ?, 1)",
      [since, key ?? null],
      now,
    );
  }

  /** Without those for a disabled endpoint, which would become dead letters again at once. */
  #redrive(which: string, values: SqlStorageValue[], now: number): number {
    return this.storage.transactionSync(() => {
      const sent = this.#sql
        .exec<{ id: string }>(
          `INSERT INTO perdure_outbox
             (id, destination_key, seq, due_at, is_ordered, attempts, started, earlier_attempts, created_at, queued_at, last_error, destination, payload)
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

  /** Returns whether there was one. */
  delete(id: string): boolean {
    return this.#delete("id = ?", id).length > 0;
  }

  /** Deletes those that died before a time. Returns how many. */
  deleteBefore(time: number): number {
    return this.#delete("died_at < ?", time).length;
  }

  /** Returns the ids of those that were deleted. */
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

  /** One that the app was not notified of. */
  nextToNotify(): DeadLetter | undefined {
    const [row] = this.#sql
      .exec<Row>(`${SELECT} WHERE is_notified = 0 ORDER BY id LIMIT 1`)
      .toArray();
    return row && toLetter(row);
  }

  /** The app was notified. The entry may have been redriven and have died again since: that is a new dead letter. */
  notified({ id, attempts, diedAt }: DeadLetter): void {
    this.#sql.exec(
      "UPDATE perdure_dead_letters SET is_notified = 1 WHERE id = ? AND attempts = ? AND died_at = ?",
      id,
      attempts,
      diedAt,
    );
  }
}

function toLetter(row: Row): DeadLetter {
  return {
    id: row.id,
    destination: withoutProof(row.destination),
    ...(row.payload !== null && { event: JSON.parse(row.payload) as Json }),
    attempts: row.attempts,
    lastError: row.last_error,
    createdAt: row.created_at,
    diedAt: row.died_at,
  };
}
