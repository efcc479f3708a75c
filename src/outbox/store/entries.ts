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

import { migrate } from "../../core/migrations.ts";
import { partsOf } from "../../core/text.ts";
import { AT_ONCE, type Due, PER_DESTINATION } from "../delivery/ready-queue.ts";
import { isEndpoint } from "../delivery/slots.ts";
import { InvalidEventError } from "../errors.ts";
import type { DeliveryState, Destination } from "../types.ts";
import { type StateRow, stateOf } from "./listing.ts";
import { MIGRATIONS } from "./schema.ts";

/** Values of `is_begun`. An entry is begun from the start, because its first attempt follows its put without a write. */
const NOT_BEGUN = 0;
const BEGUN = 1;
/** Nothing else was under way when it began, and nothing else has begun since. */
const BEGUN_ALONE = 2;
/** After so many lost attempts in a row an entry is tried alone. */
export const SUSPECT_AFTER = 2;

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
  /** Attempts in a row that a crash of the object may have interrupted. */
  readonly lost: number;
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
  lost: number;
  attempts_before: number;
  is_ordered: number;
  since: number;
  last_error: string | null;
  destination: string;
  payload: string | null;
};

export class OutboxStore {
  readonly #sql: SqlStorage;
  #lastSeq: number | undefined;
  /** At most so many entries wait; undefined: not counted yet. Counted again when that seems to be too many. */
  #atMost: number | undefined;

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
    if (this.#atMost !== undefined) this.#atMost++;
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
   * @param bornAt what was begun before this time is not attempted, but found to be lost
   * @param except keys of destinations, and ids of entries, to leave out
   */
  due(
    now: number,
    bornAt: number,
    except: { keys: readonly string[]; ids: readonly string[] },
  ): Due[] {
    return this.#sql
      .exec<{ id: string; key: string; isSuspect: number }>(
        `SELECT id, destination_key AS key, isSuspect FROM (
           SELECT *, ROW_NUMBER() OVER (PARTITION BY destination_key ORDER BY seq) AS place FROM (
             SELECT id, destination_key, seq, due_at, is_ordered,
               lost >= ${SUSPECT_AFTER} AND (is_begun = ${NOT_BEGUN} OR due_at >= ?) AS isSuspect,
               MAX(due_at) OVER (PARTITION BY destination_key ORDER BY seq) AS all_due_at
             FROM perdure_outbox
             WHERE destination_key NOT IN (SELECT value FROM json_each(?))
               AND id NOT IN (SELECT value FROM json_each(?))
           ) WHERE iif(is_ordered, all_due_at, due_at) <= ?
         ) WHERE place <= ? ORDER BY place, seq LIMIT ?`,
        bornAt,
        JSON.stringify(except.keys),
        JSON.stringify(except.ids),
        now,
        PER_DESTINATION,
        AT_ONCE,
      )
      .toArray()
      .map(({ id, key, isSuspect }) => ({
        id,
        key,
        isSuspect: isSuspect === 1 && !isEndpoint(key),
      }));
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
      isBegun: row.is_begun !== NOT_BEGUN,
      lost: row.lost,
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
      .exec<StateRow>(
        `SELECT 'waiting' AS state, attempts AS attempt, created_at AS since, due_at, last_error AS why
           FROM perdure_outbox WHERE id = ?1
         UNION ALL SELECT 'dead', attempts, died_at, NULL, last_error FROM perdure_dead_letters WHERE id = ?1
         UNION ALL SELECT iif(discarded_because IS NULL, 'delivered', 'discarded'), attempts, delivered_at, NULL, discarded_because
           FROM perdure_delivered WHERE id = ?1 LIMIT 1`,
        id,
      )
      .toArray();
    return row ? stateOf(row) : null;
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

  /** How many entries wait, where they are `limit` or more; undefined for fewer. */
  full(limit: number): number | undefined {
    if (this.#atMost === undefined || this.#atMost >= limit) this.#count();
    const atMost = this.#atMost ?? 0;
    return atMost >= limit ? atMost : undefined;
  }

  has(id: string): boolean {
    const query = "SELECT 1 FROM perdure_outbox WHERE id = ?";
    return this.#sql.exec(query, id).toArray().length > 0;
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
  begin(id: string, attempt: number, isAlone: boolean): void {
    this.#sql.exec(
      "UPDATE perdure_outbox SET attempts = ?, is_begun = ? WHERE id = ?",
      attempt,
      isAlone ? BEGUN_ALONE : BEGUN,
      id,
    );
  }

  /** Resolves when all that was written is durable: no crash undoes it. */
  durable(): Promise<void> {
    return this.storage.sync();
  }

  /** The attempt goes on, and others may begin. */
  notAlone(id: string): void {
    this.#sql.exec(
      `UPDATE perdure_outbox SET is_begun = ${BEGUN} WHERE id = ? AND is_begun = ${BEGUN_ALONE}`,
      id,
    );
  }

  /** The entry that was under way alone when the object crashed. Read before this life begins any. */
  loner(): string | undefined {
    const query = `SELECT id FROM perdure_outbox WHERE is_begun = ${BEGUN_ALONE} LIMIT 1`;
    return this.#sql.exec<{ id: string }>(query).toArray()[0]?.id;
  }

  /** waiting → waiting: a crash may have interrupted an attempt, which is not one of those that its policy allows if it is free. */
  lost(
    id: string,
    { dueAt, lost, isFree }: { dueAt: number; lost: number; isFree: boolean },
    error: string,
  ): void {
    this.#sql.exec(
      `UPDATE perdure_outbox SET attempts = attempts + 1, attempts_before = attempts_before + ?, is_begun = ${NOT_BEGUN},
         lost = ?, due_at = ?, last_error = ? WHERE id = ?`,
      isFree ? 1 : 0,
      lost,
      dueAt,
      error,
      id,
    );
  }

  /** waiting → waiting: an attempt has failed, and the next one is due at `time`. */
  retryAt(id: string, time: number, error: string): void {
    this.#sql.exec(
      `UPDATE perdure_outbox SET attempts = attempts + 1, is_begun = ${NOT_BEGUN}, lost = 0, due_at = ?, last_error = ? WHERE id = ?`,
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
          `INSERT OR REPLACE INTO perdure_delivered
             (id, destination_key, attempts, created_at, delivered_at, is_whole, destination, payload)
           SELECT id, destination_key, attempts, created_at, ?, ?, destination, payload
           FROM perdure_outbox WHERE id = ?`,
          now,
          isWhole ? 1 : 0,
          id,
        );
      }
      this.#forget(id);
    });
  }

  /** waiting → discarded: nobody waits for it any more. It is listed for a while, without its event. */
  discard({ id, isInParts }: Entry, why: string, now: number): void {
    this.storage.transactionSync(() => {
      if (isInParts) this.#forgetParts(id);
      this.#sql.exec(
        `INSERT OR REPLACE INTO perdure_delivered
           (id, destination_key, attempts, created_at, delivered_at, is_whole, discarded_because, destination, payload)
         SELECT id, destination_key, attempts, created_at, ?, 1, ?, destination, 'null'
         FROM perdure_outbox WHERE id = ?`,
        now,
        why,
        id,
      );
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
    if (this.#lastSeq === undefined) this.#count();
    this.#lastSeq = Math.max((this.#lastSeq ?? 0) + 1, now * 1_000);
    return this.#lastSeq;
  }

  /** Both in one statement, because it reads through the table. */
  #count(): void {
    const query = "SELECT ifnull(MAX(seq), 0) AS seq, COUNT(*) AS count FROM perdure_outbox";
    const { seq, count } = this.#sql.exec<{ seq: number; count: number }>(query).one();
    this.#lastSeq = Math.max(this.#lastSeq ?? 0, seq);
    this.#atMost = count;
  }

  /** Entries have come back from elsewhere. */
  countAgain(): void {
    this.#atMost = undefined;
  }
}
