/**
 * All SQL of entries that are not attempted any more: dead letters, discarded entries, and delivered ones that are kept. Owns
 * `perdure_outbox_ended`.
 */

import { type Failure, readFailure, storedFailure } from "../../core/failures.ts";
import type { Json } from "../../core/json.ts";
import { byTime, cursorsOf, type Page, type Position, pageOf } from "../../engine/page.ts";
import { deleteValue } from "../../engine/values.ts";
import { type Destination, withoutSecrets } from "../destinations/index.ts";
import type { KeepLimits } from "../options.ts";
import type { DeadLetter } from "../types.ts";
import { type OutboxEntry, ownerOf } from "./entries.ts";

export const DEAD_LETTERS = cursorsOf("dead-letters", byTime);

/** A dead letter as lists and hooks get it, without a long event, so that a page of them fits into memory. */
const SELECT = `SELECT id, attempts, reason AS lastError, created_at AS createdAt, ended_at AS since, is_uncertain AS isUncertain, destination,
    iif(length(payload) <= 16384, payload, NULL) AS payload
  FROM perdure_outbox_ended WHERE state = 'dead'`;

type Row = Pick<DeadLetter, "id" | "attempts" | "lastError" | "createdAt"> & {
  since: number;
  isUncertain: 0 | 1;
  destination: string;
  payload: string | null;
};

/** Maximum entries of one state that one call deletes, by age and by count each. */
const MAX_PRUNED = 256;
/** Ids of deleted dead letters that the log names. */
const MAX_LOGGED = 10;

/** Dead letters since a time, of one destination, and with or without a known outcome. Undefined: of all. */
export type Selection = {
  readonly since: number;
  readonly key?: string | undefined;
  readonly isUncertain?: boolean | undefined;
};
/** A redrive leaves these out: they would become dead letters again at once. */
const IS_SENT =
  "destination_key NOT IN (SELECT key FROM perdure_endpoints WHERE disabled_at IS NOT NULL)";
const SELECTED =
  "state = 'dead' AND ended_at >= ? AND ifnull(destination_key = ?, 1) AND ifnull(is_uncertain = ?, 1)";

export class EndedStore {
  readonly #sql: SqlStorage;
  /** The number of dead letters; undefined: not counted yet. */
  #count: number | undefined;
  /** True while a dead letter may exist that the app was not notified of. */
  #mayHaveNews = true;

  /** @param limits of dead letters */
  constructor(
    private readonly storage: DurableObjectStorage,
    private readonly limits: KeepLimits,
  ) {
    this.#sql = storage.sql;
  }

  /**
   * waiting → dead: the entry moves here with its event.
   *
   * @param attempts how many were started
   * @param isUncertain whether it may have been delivered
   * @returns how many entries have moved
   */
  bury(
    id: string,
    attempts: number,
    error: Pick<Failure, "message" | "cause">,
    isUncertain: boolean,
    now: number,
  ): number {
    this.#mayHaveNews = true;
    return this.storage.transactionSync(() => {
      const letter = { attempts, isNotified: 0, isUncertain, reason: storedFailure(error) };
      const moved = this.#move(id, "dead", letter, now);
      this.#changed(moved);
      return moved;
    });
  }

  /**
   * waiting → delivered: the entry is deleted, or moves here with its event for `inspect()` and `read()`. Returns how many have left.
   *
   * @param isKept whether it moves here
   * @param isWhole whether it was sent whole; the receiver of a reference reads the event
   */
  delivered(
    { id, isInParts }: Pick<OutboxEntry, "id" | "isInParts">,
    { isKept, isWhole }: { isKept: boolean; isWhole: boolean },
    now: number,
  ): number {
    if (!isKept && !isInParts) return this.#leave(id);
    return this.storage.transactionSync(() => {
      // Its own value, or that of a kept entry with the same id, which this one replaces.
      if (isInParts ? !isKept : this.#isInParts(id)) deleteValue(this.#sql, ownerOf(id));
      const reason = isWhole ? null : "sent as a reference";
      return isKept ? this.#move(id, "delivered", { reason }, now) : this.#leave(id);
    });
  }

  /** waiting → discarded: its receiver does not need it. It is listed for a while, without its event. Returns how many have left. */
  discard({ id, isInParts }: Pick<OutboxEntry, "id" | "isInParts">, reason: string, now: number) {
    return this.storage.transactionSync(() => {
      if (isInParts || this.#isInParts(id)) deleteValue(this.#sql, ownerOf(id));
      return this.#move(id, "discarded", { reason }, now);
    });
  }

  /** Returns how many have moved. */
  #move(
    id: string,
    state: "dead" | "delivered" | "discarded",
    {
      attempts,
      isNotified,
      isUncertain = false,
      reason,
    }: {
      readonly attempts?: number;
      readonly isNotified?: number;
      readonly isUncertain?: boolean;
      readonly reason: string | null;
    },
    now: number,
  ): number {
    this.#sql.exec(
      `INSERT OR REPLACE INTO perdure_outbox_ended
         (id, destination_key, state, seq, is_ordered, attempts, created_at, ended_at, is_notified, is_uncertain, reason, trace_parent, destination, payload)
       SELECT id, destination_key, ?1, seq, is_ordered, IFNULL(?2, attempts), created_at, ?3, ?4, ?5, ?6, trace_parent, destination,
         iif(?1 = 'discarded', 'null', payload)
       FROM perdure_outbox WHERE id = ?7`,
      state,
      attempts ?? null,
      now,
      isNotified ?? null,
      Number(isUncertain),
      reason,
      id,
    );
    return this.#leave(id);
  }

  #isInParts(id: string): boolean {
    const query = "SELECT 1 FROM perdure_outbox_ended WHERE id = ? AND payload IS NULL";
    return this.#sql.exec(query, id).toArray().length > 0;
  }

  #leave(id: string): number {
    const left = this.#sql.exec("DELETE FROM perdure_outbox WHERE id = ? RETURNING 1", id);
    return left.toArray().length;
  }

  isEmpty(): boolean {
    return this.#sql.exec("SELECT 1 FROM perdure_outbox_ended LIMIT 1").toArray().length === 0;
  }

  /** Deletes some of the delivered and discarded entries that are too old or too many; one that went as a reference only by its age. */
  pruneKept({ maxAgeMs, maxCount }: KeepLimits, now: number): void {
    const oldOf = (state: string) =>
      `SELECT id FROM perdure_outbox_ended WHERE state = '${state}' AND ended_at < ?1
       UNION SELECT id FROM (SELECT id FROM perdure_outbox_ended WHERE state = '${state}' AND (state = 'discarded' OR reason IS NULL)
         ORDER BY ended_at DESC, id DESC LIMIT -1 OFFSET ?2)`;
    const old = `id IN (${oldOf("delivered")} UNION ${oldOf("discarded")} LIMIT ?3)`;
    const offset = Number.isFinite(maxCount) ? maxCount : Number.MAX_SAFE_INTEGER;
    this.#deleteWhere(old, now - maxAgeMs, offset, MAX_PRUNED);
  }

  /**
   * Deletes some of the dead letters that are too old or too many, once the app was notified of them.
   *
   * @param isStart by their age alone, which reads an index: counting them reads all
   */
  prune(now: number, isStart: boolean): void {
    const { maxAgeMs, maxCount } = this.limits;
    const gone = this.#deleteOldest("ended_at < ?", now - maxAgeMs, MAX_PRUNED);
    if (!isStart) {
      this.#count ??= this.count({ since: 0 });
      const tooMany = Math.min(this.#count - maxCount, MAX_PRUNED);
      if (tooMany > 0) gone.push(...this.#deleteOldest("1", tooMany));
    }
    if (gone.length === 0) return;
    const ids = gone.slice(0, MAX_LOGGED).join(", ") + (gone.length > MAX_LOGGED ? ", ..." : "");
    console.warn(`[perdure] ${gone.length} dead letters were deleted by keepDeadLetters: ${ids}`);
  }

  #deleteOldest(which: string, ...values: SqlStorageValue[]): string[] {
    const oldest = `SELECT id FROM perdure_outbox_ended
      WHERE state = 'dead' AND is_notified = 1 AND ${which} ORDER BY ended_at, id LIMIT ?`;
    return this.#delete(`id IN (${oldest})`, ...values);
  }

  /** One page, newest first, after a position. */
  list(selection: Selection, limit: number, after: Position | undefined): Page<DeadLetter> {
    const [time, id] = after ?? [Number.MAX_SAFE_INTEGER, ""];
    const query = `${SELECT} AND (ended_at, id) < (?, ?) AND ${SELECTED} ORDER BY ended_at DESC, id DESC LIMIT ?`;
    const rows = this.#sql.exec<Row>(query, time, id, ...valuesOf(selection), limit + 1).toArray();
    return pageOf(rows, limit, toLetter, ({ since, id }) => DEAD_LETTERS.at(since, id));
  }

  /** Counts a selection, or with `isSent` those of it that {@link redriveAll} sends. */
  count(selection: Selection, isSent = false): number {
    const which = isSent ? `${SELECTED} AND ${IS_SENT}` : SELECTED;
    const query = `SELECT COUNT(*) AS count FROM perdure_outbox_ended WHERE ${which}`;
    return this.#sql.exec<{ count: number }>(query, ...valuesOf(selection)).one().count;
  }

  /** dead → waiting, due at once, in its old place in the order. Returns whether it is sent again. */
  redrive(id: string, now: number): boolean {
    return this.#redrive("state = 'dead' AND id = ?", [id], now) > 0;
  }

  /** dead → waiting: all of a selection. Returns how many are sent again. */
  redriveAll(selection: Selection, now: number): number {
    return this.#redrive(SELECTED, valuesOf(selection), now);
  }

  #redrive(which: string, values: SqlStorageValue[], now: number): number {
    return this.storage.transactionSync(() => {
      const sent = this.#sql
        .exec<{ id: string }>(
          `INSERT INTO perdure_outbox
             (id, destination_key, seq, due_at, is_ordered, attempts, started, earlier_attempts, created_at, queued_at, last_error, trace_parent, destination, payload)
           SELECT id, destination_key, seq, ?, is_ordered, attempts + 1, 0, attempts, created_at, ?, reason, trace_parent, destination, payload
           FROM perdure_outbox_ended WHERE ${which} AND ${IS_SENT}
           ON CONFLICT (id) DO NOTHING RETURNING id`,
          now,
          now,
          ...values,
        )
        .toArray()
        .map(({ id }) => id);
      const gone = "DELETE FROM perdure_outbox_ended WHERE id IN (SELECT value FROM json_each(?))";
      if (sent.length > 0) this.#sql.exec(gone, JSON.stringify(sent));
      this.#changed(-sent.length);
      return sent.length;
    });
  }

  delete(id: string): boolean {
    return this.#delete("state = 'dead' AND id = ?", id).length > 0;
  }

  deleteBefore(time: number): number {
    return this.#delete("state = 'dead' AND ended_at < ?", time).length;
  }

  /** Deletes dead letters. Returns their ids. */
  #delete(which: string, ...values: SqlStorageValue[]): string[] {
    const ids = this.#deleteWhere(which, ...values);
    this.#changed(-ids.length);
    return ids;
  }

  #deleteWhere(which: string, ...values: SqlStorageValue[]): string[] {
    return this.storage.transactionSync(() => {
      const query = `DELETE FROM perdure_outbox_ended WHERE ${which} RETURNING id, payload IS NULL AS isInParts`;
      const rows = this.#sql.exec<{ id: string; isInParts: number }>(query, ...values).toArray();
      for (const { id, isInParts } of rows) if (isInParts) deleteValue(this.#sql, ownerOf(id));
      return rows.map(({ id }) => id);
    });
  }

  #changed(by: number): void {
    if (this.#count !== undefined) this.#count += by;
  }

  /** One that the app was not notified of. */
  nextToNotify(): DeadLetter | undefined {
    if (!this.#mayHaveNews) return undefined;
    const query = `${SELECT} AND is_notified = 0 ORDER BY id LIMIT 1`;
    const [row] = this.#sql.exec<Row>(query).toArray();
    this.#mayHaveNews = row !== undefined;
    return row && toLetter(row);
  }

  /** The app was notified. The entry may have been redriven and have died again since: that is a new dead letter. */
  notified({ id, attempts, diedAt }: DeadLetter): void {
    this.#sql.exec(
      "UPDATE perdure_outbox_ended SET is_notified = 1 WHERE id = ? AND attempts = ? AND ended_at = ?",
      id,
      attempts,
      diedAt,
    );
  }
}

/** For SELECTED. */
function valuesOf({ since, key, isUncertain }: Selection): SqlStorageValue[] {
  return [since, key ?? null, isUncertain === undefined ? null : Number(isUncertain)];
}

function toLetter({ destination, payload, since: diedAt, isUncertain, ...row }: Row): DeadLetter {
  const event = payload !== null && { event: JSON.parse(payload) as Json };
  const shown = withoutSecrets(JSON.parse(destination) as Destination);
  const lastError = readFailure(row.lastError).message;
  return {
    ...row,
    lastError,
    destination: shown,
    ...event,
    diedAt,
    isUncertain: isUncertain === 1,
  };
}
