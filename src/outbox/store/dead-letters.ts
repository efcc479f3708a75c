/** All SQL of dead letters: entries that are not attempted any more. Owns `perdure_dead_letters`. */

import { type Failure, readFailure, storedFailure } from "../../core/failures.ts";
import type { Json } from "../../core/json.ts";
import { byTime, cursorsOf, type Page, type Position, pageOf } from "../../engine/page.ts";
import { type Destination, withoutSecrets } from "../destinations/index.ts";
import type { KeepLimits } from "../options.ts";
import type { DeadLetter } from "../types.ts";
import { deleteWithParts } from "./parts.ts";

export const DEAD_LETTERS = cursorsOf("dead-letters", byTime);

/** A dead letter as lists and hooks get it, without a long event, so that a page of them fits into memory. */
const SELECT = `SELECT id, attempts, last_error AS lastError, created_at AS createdAt, died_at AS since, is_uncertain AS isUncertain, destination,
    iif(length(payload) <= 16384, payload, NULL) AS payload
  FROM perdure_dead_letters`;

type Row = Pick<DeadLetter, "id" | "attempts" | "lastError" | "createdAt"> & {
  since: number;
  isUncertain: 0 | 1;
  destination: string;
  payload: string | null;
};

/** Dead letters that one call deletes at most, by age and by count each. */
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
const SELECTED = "died_at >= ? AND ifnull(destination_key = ?, 1) AND ifnull(is_uncertain = ?, 1)";

export class DeadLetterStore {
  readonly #sql: SqlStorage;
  /** How many there are; undefined: not counted yet. */
  #count: number | undefined;
  /** Whether there may be one that the app was not notified of. */
  #mayHaveNews = true;

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
      this.#sql.exec(
        `INSERT OR REPLACE INTO perdure_dead_letters
           (id, destination_key, seq, is_ordered, attempts, created_at, died_at, is_uncertain, last_error, trace_parent, destination, payload)
         SELECT id, destination_key, seq, is_ordered, ?, created_at, ?, ?, ?, trace_parent, destination, payload
         FROM perdure_outbox WHERE id = ?`,
        attempts,
        now,
        Number(isUncertain),
        storedFailure(error),
        id,
      );
      const moved = this.#sql.exec("DELETE FROM perdure_outbox WHERE id = ? RETURNING id", id);
      const { length } = moved.toArray();
      this.#changed(length);
      return length;
    });
  }

  /** Deletes some of those that are too old or too many, once the app was notified of them. */
  prune(now: number): void {
    const { maxAgeMs, maxCount } = this.limits;
    this.#count ??= this.count({ since: 0 });
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
  list(selection: Selection, limit: number, after: Position | undefined): Page<DeadLetter> {
    const [time, id] = after ?? [Number.MAX_SAFE_INTEGER, ""];
    const query = `${SELECT} WHERE (died_at, id) < (?, ?) AND ${SELECTED} ORDER BY died_at DESC, id DESC LIMIT ?`;
    const rows = this.#sql.exec<Row>(query, time, id, ...valuesOf(selection), limit + 1).toArray();
    return pageOf(rows, limit, toLetter, ({ since, id }) => DEAD_LETTERS.at(since, id));
  }

  /** How many of a selection there are, or with `isSent` how many {@link redriveAll} sends. */
  count(selection: Selection, isSent = false): number {
    const which = isSent ? `${SELECTED} AND ${IS_SENT}` : SELECTED;
    const query = `SELECT COUNT(*) AS count FROM perdure_dead_letters WHERE ${which}`;
    return this.#sql.exec<{ count: number }>(query, ...valuesOf(selection)).one().count;
  }

  /** dead → waiting, due at once, in its old place in the order. Returns whether it is sent again. */
  redrive(id: string, now: number): boolean {
    return this.#redrive("id = ?", [id], now) > 0;
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
           SELECT id, destination_key, seq, ?, is_ordered, attempts + 1, 0, attempts, created_at, ?, last_error, trace_parent, destination, payload
           FROM perdure_dead_letters WHERE ${which} AND ${IS_SENT}
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

  delete(id: string): boolean {
    return this.#delete("id = ?", id).length > 0;
  }

  deleteBefore(time: number): number {
    return this.#delete("died_at < ?", time).length;
  }

  /** Returns the ids of those that were deleted. */
  #delete(which: string, ...values: SqlStorageValue[]): string[] {
    return this.storage.transactionSync(() => {
      const ids = deleteWithParts(this.#sql, "perdure_dead_letters", which, values);
      this.#changed(-ids.length);
      return ids;
    });
  }

  #changed(by: number): void {
    if (this.#count !== undefined) this.#count += by;
  }

  /** One that the app was not notified of. */
  nextToNotify(): DeadLetter | undefined {
    if (!this.#mayHaveNews) return undefined;
    const query = `${SELECT} WHERE is_notified = 0 ORDER BY id LIMIT 1`;
    const [row] = this.#sql.exec<Row>(query).toArray();
    this.#mayHaveNews = row !== undefined;
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
