/**
 * All SQL of the entries that are still to be delivered. Owns `perdure_outbox`
 * and, for events of more than one part, `perdure_outbox_parts`, which an
 * entry keeps when it becomes a dead letter or is kept after its delivery.
 *
 * There is no index beside the key: a delivered entry leaves the table, so it
 * is as long as what is under way, and reading it through now and then costs
 * less than the index row that every single delivery would bill. The payload
 * is the last column, so that this reading passes over it.
 */

import { migrate } from "../core/migrations.ts";
import { partsOf } from "../core/parts.ts";
import { AT_ONCE, type Due, PER_DESTINATION } from "./due.ts";
import { InvalidEventError } from "./errors.ts";
import type { DeliveryState, Destination } from "./types.ts";

const MIGRATIONS = [
  `CREATE TABLE perdure_outbox (
     id TEXT PRIMARY KEY,
     destination_key TEXT NOT NULL,
     seq INTEGER NOT NULL,
     due_at INTEGER NOT NULL,
     is_ordered INTEGER NOT NULL,
     attempts INTEGER NOT NULL DEFAULT 1,
     is_begun INTEGER NOT NULL DEFAULT 1,
     attempts_before INTEGER NOT NULL DEFAULT 0,
     created_at INTEGER NOT NULL,
     since INTEGER NOT NULL,
     last_error TEXT,
     destination TEXT NOT NULL,
     payload TEXT
   ) WITHOUT ROWID;
   CREATE TABLE perdure_outbox_parts (
     id TEXT NOT NULL,
     part INTEGER NOT NULL,
     text TEXT NOT NULL,
     PRIMARY KEY (id, part)
   ) WITHOUT ROWID;
   CREATE TABLE perdure_dead_letters (
     id TEXT PRIMARY KEY,
     destination_key TEXT NOT NULL,
     seq INTEGER NOT NULL,
     is_ordered INTEGER NOT NULL,
     attempts INTEGER NOT NULL,
     created_at INTEGER NOT NULL,
     died_at INTEGER NOT NULL,
     is_told INTEGER NOT NULL DEFAULT 0,
     last_error TEXT NOT NULL,
     destination TEXT NOT NULL,
     payload TEXT
   ) WITHOUT ROWID;
   CREATE INDEX perdure_dead_letters_by_time ON perdure_dead_letters (died_at, id);
   CREATE INDEX perdure_dead_letters_untold ON perdure_dead_letters (id) WHERE is_told = 0;
   CREATE TABLE perdure_delivered (
     id TEXT PRIMARY KEY,
     attempts INTEGER NOT NULL,
     delivered_at INTEGER NOT NULL,
     is_whole INTEGER NOT NULL,
     payload TEXT
   ) WITHOUT ROWID;
   CREATE INDEX perdure_delivered_by_time ON perdure_delivered (delivered_at, id);
   CREATE TABLE perdure_endpoints (
     key TEXT PRIMARY KEY,
     url TEXT NOT NULL,
     failing_since INTEGER NOT NULL,
     held_until INTEGER,
     disabled_at INTEGER,
     reason TEXT NOT NULL
   ) WITHOUT ROWID;`,
] as const;

/** What is put. */
export type NewEntry = {
  readonly id: string;
  readonly key: string;
  readonly destination: Destination;
  /** The event as JSON. */
  readonly payload: string;
  readonly isOrdered: boolean;
};

/** An entry on its way. */
export type Entry = {
  readonly id: string;
  readonly key: string;
  readonly destination: Destination;
  readonly dueAt: number;
  /** The number of the attempt that is under way, or comes next. */
  readonly attempt: number;
  /** Whether that attempt may have begun: as soon as it is put, but after a failure only when it is due. */
  readonly isBegun: boolean;
  /** Attempts that do not count any more: it has been redriven after them. */
  readonly attemptsBefore: number;
  /** Whether those behind it wait for it. */
  readonly isOrdered: boolean;
  /** When it was put or redriven, epoch milliseconds. */
  readonly since: number;
  /** The event as JSON. */
  readonly payload: string;
  /** Whether the event is in more than one part. */
  readonly isInParts: boolean;
};

type Row = {
  id: string;
  destination_key: string;
  due_at: number;
  attempts: number;
  is_begun: number;
  attempts_before: number;
  is_ordered: number;
  since: number;
  last_error: string | null;
  destination: string;
  payload: string | null;
};

type Found = {
  state: DeliveryState["state"];
  attempts: number;
  time: number;
  last_error: string | null;
};

export class OutboxStore {
  readonly #sql: SqlStorage;
  #lastSeq: number | undefined;

  constructor(private readonly storage: DurableObjectStorage) {
    this.#sql = storage.sql;
  }

  migrate(): void {
    migrate(this.storage, "outbox", MIGRATIONS);
  }

  /** (new) → waiting, due at once. Returns false for an id that is waiting or dead already, which stays as it is. */
  put({ id, key, destination, payload, isOrdered }: NewEntry, now: number): boolean {
    const parts = partsOf(payload);
    const isInParts = parts.length > 1;
    const put = this.#sql.exec(
      `INSERT INTO perdure_outbox (id, destination_key, seq, due_at, is_ordered, created_at, since, destination, payload)
       SELECT ?1, ?2, ?3, ?4, ?5, ?4, ?4, ?6, ?7
       WHERE NOT EXISTS (SELECT 1 FROM perdure_dead_letters WHERE id = ?1)
       ON CONFLICT (id) DO NOTHING RETURNING id`,
      id,
      key,
      this.#nextSeq(now),
      now,
      isOrdered ? 1 : 0,
      JSON.stringify(destination),
      isInParts ? null : payload,
    );
    if (put.toArray().length === 0) {
      this.#refuseForAnother(id, key);
      return false;
    }
    if (!isInParts) return true;
    // One with this id may have been delivered and kept: two of them cannot share their parts.
    this.#sql.exec("DELETE FROM perdure_delivered WHERE id = ?", id);
    this.#forgetParts(id);
    for (const [part, text] of parts.entries()) {
      this.#sql.exec("INSERT INTO perdure_outbox_parts VALUES (?, ?, ?)", id, part, text);
    }
    return true;
  }

  /** @throws InvalidEventError where the id is that of an event for another destination */
  #refuseForAnother(id: string, key: string): void {
    const known = this.#sql.exec<{ key: string }>(
      `SELECT destination_key AS key FROM perdure_outbox WHERE id = ?1
       UNION ALL SELECT destination_key FROM perdure_dead_letters WHERE id = ?1`,
      id,
    );
    if (known.toArray().every((entry) => entry.key === key)) return;
    throw new InvalidEventError(
      `id ${JSON.stringify(id)} is that of an event for another destination. Give each of them an id of its own, e.g. ${JSON.stringify(`${id}/2`)}.`,
    );
  }

  /**
   * Entries that are due, of each destination in the order in which they were
   * put: the first of every destination, then the second of every one, and so
   * on up to a bound, so that none is left out because of another's backlog.
   * One that is ordered is not due before those that were put before it are.
   *
   * @param except keys of destinations, and ids of entries, to leave out
   */
  due(now: number, except: { keys: readonly string[]; ids: readonly string[] }): Due[] {
    return this.#sql
      .exec<Due>(
        `SELECT id, destination_key AS key FROM (
           SELECT *, ROW_NUMBER() OVER (PARTITION BY destination_key ORDER BY seq) AS place FROM (
             SELECT id, destination_key, seq, due_at, is_ordered,
               MAX(due_at) OVER (PARTITION BY destination_key ORDER BY seq) AS all_due_at
             FROM perdure_outbox
             WHERE destination_key NOT IN (SELECT value FROM json_each(?))
               AND id NOT IN (SELECT value FROM json_each(?))
           ) WHERE iif(is_ordered, all_due_at, due_at) <= ?
         ) WHERE place <= ? ORDER BY place, seq LIMIT ?`,
        JSON.stringify(except.keys),
        JSON.stringify(except.ids),
        now,
        PER_DESTINATION,
        AT_ONCE,
      )
      .toArray();
  }

  get(id: string): Entry | undefined {
    const [row] = this.#sql.exec<Row>("SELECT * FROM perdure_outbox WHERE id = ?", id).toArray();
    if (!row) return undefined;
    return {
      id,
      key: row.destination_key,
      destination: JSON.parse(row.destination) as Destination,
      dueAt: row.due_at,
      attempt: row.attempts,
      isBegun: row.is_begun === 1,
      attemptsBefore: row.attempts_before,
      isOrdered: row.is_ordered === 1,
      since: row.since,
      payload: row.payload ?? this.#joined(id),
      isInParts: row.payload === null,
    };
  }

  /** The event of an entry, wherever it is now, as JSON; undefined for an unknown id. */
  read(id: string): string | undefined {
    const [row] = this.#sql
      .exec<{ payload: string | null }>(
        `SELECT payload FROM perdure_outbox WHERE id = ?1
         UNION ALL SELECT payload FROM perdure_dead_letters WHERE id = ?1
         UNION ALL SELECT payload FROM perdure_delivered WHERE id = ?1 LIMIT 1`,
        id,
      )
      .toArray();
    return row && (row.payload ?? this.#joined(id));
  }

  /** Where an event is; null for an unknown id. */
  inspect(id: string): DeliveryState | null {
    const [row] = this.#sql
      .exec<Found>(
        `SELECT 'waiting' AS state, attempts, due_at AS time, last_error FROM perdure_outbox WHERE id = ?1
         UNION ALL SELECT 'dead', attempts, died_at, last_error FROM perdure_dead_letters WHERE id = ?1
         UNION ALL SELECT 'delivered', attempts, delivered_at, NULL FROM perdure_delivered WHERE id = ?1 LIMIT 1`,
        id,
      )
      .toArray();
    if (!row) return null;
    const { state, attempts: attempt, time, last_error } = row;
    const lastError = last_error ?? undefined;
    if (state === "delivered") return { state, attempt, deliveredAt: time };
    if (state === "dead") return { state, attempt, diedAt: time, lastError: lastError ?? "" };
    return { state, attempt, dueAt: time, ...(lastError !== undefined && { lastError }) };
  }

  #joined(id: string): string {
    return this.#sql
      .exec<{ text: string }>(
        "SELECT text FROM perdure_outbox_parts WHERE id = ? ORDER BY part",
        id,
      )
      .toArray()
      .map(({ text }) => text)
      .join("");
  }

  /** When the next entry is due that is not due yet, and whether there are any at all. */
  waiting(now: number): { next: number | null; isEmpty: boolean } {
    const { next, count } = this.#sql
      .exec<{ next: number | null; count: number }>(
        "SELECT MIN(due_at) FILTER (WHERE due_at > ?) AS next, COUNT(*) AS count FROM perdure_outbox",
        now,
      )
      .one();
    return { next, isEmpty: count === 0 };
  }

  isEmpty(): boolean {
    return this.#sql.exec("SELECT 1 FROM perdure_outbox LIMIT 1").toArray().length === 0;
  }

  /** How many entries wait, and since when the one that waits longest does. */
  stats(): { waiting: number; oldestAt: number | null } {
    return this.#sql
      .exec<{ waiting: number; oldestAt: number | null }>(
        "SELECT COUNT(*) AS waiting, MIN(created_at) AS oldestAt FROM perdure_outbox",
      )
      .one();
  }

  /** waiting → waiting: the attempt with this number begins. */
  begin(id: string, attempt: number): void {
    this.#sql.exec(
      "UPDATE perdure_outbox SET attempts = ?, is_begun = 1 WHERE id = ?",
      attempt,
      id,
    );
  }

  /** waiting → waiting: an attempt has failed, and the next one is due at `time`. */
  retryAt(id: string, time: number, error: string): void {
    this.#sql.exec(
      "UPDATE perdure_outbox SET attempts = attempts + 1, is_begun = 0, due_at = ?, last_error = ? WHERE id = ?",
      time,
      error,
      id,
    );
  }

  /** waiting → waiting, due now instead of later: all of a destination. */
  dueNow(key: string, now: number): void {
    this.#sql.exec(
      "UPDATE perdure_outbox SET due_at = ?1 WHERE destination_key = ?2 AND due_at > ?1",
      now,
      key,
    );
  }

  /** waiting → waiting, due now instead of later. Returns whether there was such an entry. */
  hasten(id: string, now: number): boolean {
    const query =
      "UPDATE perdure_outbox SET due_at = ?1 WHERE id = ?2 AND due_at > ?1 RETURNING id";
    return this.#sql.exec(query, now, id).toArray().length > 0;
  }

  /** waiting → delivered: the entry is forgotten, or kept for who asks for it. */
  delivered(
    { id, isInParts }: Entry,
    { isKept, isWhole }: { isKept: boolean; isWhole: boolean },
    now: number,
  ): void {
    if (!isKept && !isInParts) {
      this.#forget(id);
      return;
    }
    this.storage.transactionSync(() => {
      // Its own, or those of one with the same id that was kept, and is not from now on.
      if (!(isKept && isInParts)) this.#forgetParts(id);
      if (isKept) {
        this.#sql.exec(
          `INSERT OR REPLACE INTO perdure_delivered (id, attempts, delivered_at, is_whole, payload)
           SELECT id, attempts, ?, ?, payload FROM perdure_outbox WHERE id = ?`,
          now,
          isWhole ? 1 : 0,
          id,
        );
      }
      this.#forget(id);
    });
  }

  #forgetParts(id: string): void {
    this.#sql.exec("DELETE FROM perdure_outbox_parts WHERE id = ?", id);
  }

  #forget(id: string): void {
    this.#sql.exec("DELETE FROM perdure_outbox WHERE id = ?", id);
  }

  /** Grows with every entry, over restarts as well, even when the clock was set back between two lives. */
  #nextSeq(now: number): number {
    this.#lastSeq ??= this.#highestSeq();
    this.#lastSeq = Math.max(this.#lastSeq + 1, now * 1_000);
    return this.#lastSeq;
  }

  #highestSeq(): number {
    const highest = "SELECT ifnull(MAX(seq), 0) AS seq FROM perdure_outbox";
    return this.#sql.exec<{ seq: number }>(highest).one().seq;
  }
}
