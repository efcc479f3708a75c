/**
 * Writes `perdure_inbound`, by transition verbs only. An arrival bills 2 rows (the row and its key), a later call, a
 * duplicate or another verdict 1. Rows are deleted from the oldest on, so that their numbers have no gaps.
 */

import { byteLength, type Json } from "../../core/json.ts";
import { insert } from "../../core/sql.ts";
import { migrate } from "../../engine/migrations.ts";
import { failureText } from "./facts.ts";
import type { Limits, Selection } from "./options.ts";
import type { RawArrival } from "./protocol.ts";
import { MIGRATIONS } from "./schema.ts";
import { type StoredVerdict, verdictsBefore } from "./states.ts";
import type {
  InboundFailure,
  InspectedArrival,
  LoggedArrival,
  LoggedCall,
  LoggedWait,
} from "./types.ts";

/** All columns but the body, with the names of their fields. */
const COLUMNS = `seq, source, id, type, verdict, bytes, hash, received_at AS receivedAt, stored_at AS storedAt, duplicates,
  has_conflict AS hasConflict, replay_of AS replayOf, error, calls`;

/** Arrivals between two deletions. @internal */
export const PRUNE_EVERY = 64;
/** Rows that one call deletes or empties at most: more than come in between. */
const MAX_PRUNED = 4 * PRUNE_EVERY;
/** Rows that one page of a list reads at most. */
export const MAX_SCANNED = 10_000;
/** UTF-16 units of JSON in a list: an object has 128 MB in all. */
const MAX_LISTED = 8_000_000;

export type NewArrival = {
  readonly arrival: RawArrival;
  /** The body as JSON. */
  readonly text: string | undefined;
  readonly replayOf: string | undefined;
};

/** The columns that are stored with a verdict. */
export type Decision = {
  readonly verdict: StoredVerdict;
  readonly calls: readonly (LoggedCall | LoggedWait)[];
  /** Why its handler has not ended. */
  readonly error: InboundFailure | undefined;
  readonly hasConflict: boolean;
};

export type StoredArrival = LoggedArrival & {
  readonly seq: number;
  readonly hasConflict: boolean;
};

/** Counts of all rows, which the newest row has. */
type Tail = {
  readonly seq: number;
  readonly storedAt: number;
  /** Bytes of all bodies. */
  readonly keptBytes: number;
  /** This row, and all before it, have no body. */
  readonly emptied: number;
};

const NO_TAIL: Tail = { seq: 0, storedAt: 0, keptBytes: 0, emptied: 0 };

export class InboundStore {
  #tail: Tail | undefined;
  #hasPruned = false;
  /** Counts the writes, so that a caller sees whether a row may have changed since it was read. */
  writes = 0;

  constructor(
    readonly storage: DurableObjectStorage,
    private readonly limits: Limits,
  ) {
    migrate(storage, "inbound", MIGRATIONS);
  }

  transaction<T>(work: () => T): T {
    try {
      return this.storage.transactionSync(work);
    } catch (error) {
      this.forget();
      throw error;
    }
  }

  /** A transaction around this store's writes was rolled back. */
  forget(): void {
    this.#tail = undefined;
    this.writes++;
  }

  /** (new) → any verdict. Deletes old arrivals first, now and then. */
  insert({ arrival, text, replayOf }: NewArrival, decision: Decision, now: number): void {
    this.transaction(() => {
      const tail = this.#newest();
      const seq = tail.seq + 1;
      const isPruned = !this.#hasPruned || seq % PRUNE_EVERY === 0;
      const kept = isPruned ? this.#prune(tail, seq, now) : tail;
      const bodyBytes = text === undefined ? 0 : byteLength(text);
      const body = bodyBytes > this.limits.maxBytes ? undefined : text;
      const room = this.limits.maxBytes - (body === undefined ? 0 : bodyBytes);
      const emptied = this.#emptyBodies(kept, room);
      const next = {
        seq,
        storedAt: Math.max(now, tail.storedAt),
        keptBytes: emptied.keptBytes + (body === undefined ? 0 : bodyBytes),
        emptied: emptied.emptied,
      };
      this.writes++;
      insert(this.storage.sql, "perdure_inbound", {
        ...arrival,
        ...decision,
        ...next,
        bodyBytes: body === undefined ? 0 : bodyBytes,
        replayOf,
        body,
      });
      this.#tail = next;
      this.#hasPruned = true;
    });
  }

  /** Any verdict → the same, or one that may follow it. Returns whether the row had such a verdict. */
  decide(seq: number, { verdict, calls, error, hasConflict }: Decision): boolean {
    const changed = this.#exec(
      `UPDATE perdure_inbound SET verdict = ?, calls = ?, error = ?, has_conflict = max(has_conflict, ?)
       WHERE seq = ? AND verdict IN (SELECT value FROM json_each(?)) RETURNING seq`,
      verdict,
      JSON.stringify(calls),
      error ? JSON.stringify(error) : null,
      hasConflict ? 1 : 0,
      seq,
      JSON.stringify(verdictsBefore(verdict)),
    );
    return changed.toArray().length > 0;
  }

  /** Any verdict → the same: the arrival was sent again. */
  repeat(seq: number, hasConflict: boolean): void {
    this.#exec(
      "UPDATE perdure_inbound SET duplicates = duplicates + 1, has_conflict = max(has_conflict, ?) WHERE seq = ?",
      hasConflict ? 1 : 0,
      seq,
    );
  }

  /** Counts a replay of an accepted arrival. Returns its number, from 1; undefined if the arrival was deleted meanwhile. */
  countReplay(seq: number): number | undefined {
    return this.#exec<{ replays: number }>(
      "UPDATE perdure_inbound SET replays = replays + 1 WHERE seq = ? RETURNING replays",
      seq,
    ).toArray()[0]?.replays;
  }

  /** accepted → accepted: its handler has ended. */
  finish(source: string, id: string): void {
    this.#exec(
      "UPDATE perdure_inbound SET error = NULL WHERE source = ? AND id = ? AND verdict = 'accepted' AND error IS NOT NULL",
      source,
      id,
    );
  }

  find(source: string, id: string): StoredArrival | undefined {
    const query = `SELECT ${COLUMNS} FROM perdure_inbound WHERE source = ? AND id = ?`;
    const [row] = this.storage.sql.exec<Row>(query, source, id).toArray();
    return row && toArrival(row);
  }

  /** An arrival with its body. */
  inspect(source: string, id: string): (InspectedArrival & StoredArrival) | undefined {
    const query = `SELECT ${COLUMNS}, body FROM perdure_inbound WHERE source = ? AND id = ?`;
    const [row] = this.storage.sql.exec<RowWithBody>(query, source, id).toArray();
    if (!row) return undefined;
    const { body, ...rest } = row;
    return { ...toArrival(rest), ...bodyOf(body) };
  }

  /**
   * Arrivals without their bodies and results, newest first, of a bounded number of rows.
   *
   * @param before only those with a lower number
   * @returns `next` is the `before` of the next page; undefined on the last one
   */
  list(
    selection: Selection,
    limit: number,
    before = Number.MAX_SAFE_INTEGER,
  ): { arrivals: StoredArrival[]; next: number | undefined } {
    const { first, last } = this.#range(selection);
    const to = Math.min(last, before - 1);
    const from = Math.max(first, to - MAX_SCANNED + 1);
    const arrivals: StoredArrival[] = [];
    let length = 0;
    for (const row of this.#select(selection, from, to, "DESC")) {
      length += row.calls.length;
      if (arrivals.length === limit || (length > MAX_LISTED && arrivals.length > 0)) {
        return { arrivals, next: arrivals.at(-1)?.seq };
      }
      arrivals.push(withoutResults(toArrival(row)));
    }
    return { arrivals, next: from > first ? from : undefined };
  }

  /**
   * The keys of arrivals, oldest first, of a bounded number of rows.
   *
   * @param after only those with a higher number
   * @param until the highest number
   */
  keys(selection: Selection, limit: number, after: number, until: number) {
    const { first, last } = this.#range(selection);
    const from = Math.max(first, after + 1);
    const end = Math.min(last, until);
    const to = Math.min(end, from + MAX_SCANNED - 1);
    const keys: { seq: number; source: string; id: string; failure: string }[] = [];
    for (const { seq, source, id, error } of this.#select(selection, from, to, "ASC")) {
      const failure = failureText(error);
      if (selection.matches?.(failure) === false) continue;
      if (keys.length === limit) return { keys, next: keys.at(-1)?.seq };
      keys.push({ seq, source, id, failure });
    }
    return { keys, next: to < end ? to : undefined };
  }

  /** The number of the newest row; 0 without rows. */
  get newest(): number {
    return this.#newest().seq;
  }

  /** The newest arrivals with bodies since a time, oldest first, and whether there are more than the limit. */
  recent(since: number, source: string | undefined, limit: number) {
    const { first, last } = this.#range({ since, until: undefined });
    const { sql } = this.storage;
    const query = sql.exec<{ seq: number }>(
      `SELECT seq FROM perdure_inbound WHERE seq BETWEEN ? AND ? AND +source = ifnull(?, source) AND body_bytes > 0 AND verdict <> 'held'
       ORDER BY seq DESC LIMIT ?`,
      first,
      last,
      source ?? null,
      limit + 1,
    );
    const newest = query.toArray();
    const seqs = newest.slice(0, limit).reverse();
    return { arrivals: this.#arrivals(seqs), hasMore: newest.length > limit };
  }

  /** Each body is read when its turn comes. */
  *#arrivals(seqs: readonly { readonly seq: number }[]): Generator<RawArrival> {
    for (const { seq } of seqs) {
      const query = `SELECT ${COLUMNS}, body FROM perdure_inbound WHERE seq = ?`;
      const [row] = this.storage.sql.exec<RowWithBody>(query, seq).toArray();
      if (!row) continue;
      const { source, id, type, bytes, hash, receivedAt, body } = row;
      yield { source, id, type, bytes, hash, receivedAt, ...bodyOf(body) };
    }
  }

  #select(
    { source, verdicts, type, isUnfinished }: Selection,
    from: number,
    to: number,
    order: "ASC" | "DESC",
  ) {
    const where = ["seq BETWEEN ? AND ?"];
    const values: SqlStorageValue[] = [from, to];
    const only = (condition: string, value: SqlStorageValue) => {
      where.push(condition);
      values.push(value);
    };
    // `+` keeps SQLite from the index by source, which would have to be sorted.
    if (source !== undefined) only("+source = ?", source);
    if (verdicts) only("verdict IN (SELECT value FROM json_each(?))", JSON.stringify(verdicts));
    if (type !== undefined) only("type = ?", type);
    if (isUnfinished) where.push("error IS NOT NULL AND verdict <> 'held'");
    const query = `SELECT ${COLUMNS} FROM perdure_inbound WHERE ${where.join(" AND ")} ORDER BY seq ${order}`;
    return this.storage.sql.exec<Row>(query, ...values);
  }

  /** The first and the last number of the rows of a time. */
  #range({ since, until }: Pick<Selection, "since" | "until">): { first: number; last: number } {
    const { seq: last } = this.#newest();
    const query = "SELECT ifnull(MIN(seq), 1) AS seq FROM perdure_inbound";
    const first = this.storage.sql.exec<{ seq: number }>(query).one().seq;
    return {
      first: since === undefined ? first : this.#firstAt(since, first, last),
      last: until === undefined ? last : this.#firstAt(until, first, last) - 1,
    };
  }

  /** The number of the first row that was stored at a time or later, by bisection: times grow with the numbers. */
  #firstAt(time: number, first: number, last: number): number {
    let [low, high] = [first, last + 1];
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      const query = "SELECT stored_at FROM perdure_inbound WHERE seq = ?";
      const [row] = this.storage.sql.exec<{ stored_at: number }>(query, middle).toArray();
      if ((row?.stored_at ?? 0) >= time) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  #newest(): Tail {
    this.#tail ??=
      this.storage.sql
        .exec<Tail>(
          `SELECT seq, stored_at AS storedAt, kept_bytes AS keptBytes, emptied FROM perdure_inbound
           ORDER BY seq DESC LIMIT 1`,
        )
        .toArray()[0] ?? NO_TAIL;
    return this.#tail;
  }

  /** Deletes some of the arrivals that are too old or too many, the oldest first. */
  #prune(tail: Tail, newest: number, now: number): Tail {
    const { maxAgeMs, maxCount } = this.limits;
    const oldest = this.storage.sql.exec<{ seq: number; storedAt: number; bodyBytes: number }>(
      `SELECT seq, stored_at AS storedAt, body_bytes AS bodyBytes FROM perdure_inbound ORDER BY seq LIMIT ${MAX_PRUNED}`,
    );
    let last: number | undefined;
    let { keptBytes } = tail;
    for (const { seq, storedAt, bodyBytes } of oldest) {
      if (seq > newest - maxCount && storedAt >= now - maxAgeMs) break;
      last = seq;
      keptBytes -= bodyBytes;
    }
    if (last !== undefined) this.#exec("DELETE FROM perdure_inbound WHERE seq <= ?", last);
    return { ...tail, keptBytes };
  }

  /** Deletes some of the bodies, the oldest first, until all of them together have at most so many bytes. */
  #emptyBodies(tail: Tail, maxBytes: number): Tail {
    let { keptBytes, emptied } = tail;
    if (keptBytes <= maxBytes) return tail;
    const oldest = this.storage.sql.exec<{ seq: number; bodyBytes: number }>(
      `SELECT seq, body_bytes AS bodyBytes FROM perdure_inbound WHERE seq > ? ORDER BY seq LIMIT ${MAX_PRUNED}`,
      emptied,
    );
    for (const { seq, bodyBytes } of oldest) {
      if (keptBytes <= maxBytes) break;
      keptBytes -= bodyBytes;
      emptied = seq;
    }
    this.#exec(
      "UPDATE perdure_inbound SET body = NULL, body_bytes = 0 WHERE seq > ? AND seq <= ? AND body IS NOT NULL",
      tail.emptied,
      emptied,
    );
    return { ...tail, keptBytes, emptied };
  }

  #exec<T extends Record<string, SqlStorageValue>>(query: string, ...values: SqlStorageValue[]) {
    this.writes++;
    return this.storage.sql.exec<T>(query, ...values);
  }
}

type Row = Omit<StoredArrival, "hasConflict" | "replayOf" | "error" | "calls"> & {
  readonly hasConflict: number;
  readonly replayOf: string | null;
  readonly error: string | null;
  readonly calls: string;
};
type RowWithBody = Row & { readonly body: string | null };

function toArrival({ hasConflict, replayOf, error, calls, ...rest }: Row): StoredArrival {
  return {
    ...rest,
    hasConflict: hasConflict === 1,
    ...(replayOf !== null && { replayOf }),
    calls: JSON.parse(calls) as LoggedArrival["calls"],
    ...(error !== null && { error: JSON.parse(error) as InboundFailure }),
  };
}

function bodyOf(body: string | null): { body?: Json } {
  return body === null ? {} : { body: JSON.parse(body) as Json };
}

function withoutResults(arrival: StoredArrival): StoredArrival {
  const calls = arrival.calls.map((call) => {
    if (call.kind === "wait") return call;
    const { result: _, ...rest } = call;
    return rest;
  });
  return { ...arrival, calls };
}
