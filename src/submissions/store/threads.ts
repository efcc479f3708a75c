/** The threads that submissions have used. Reads only. */

import { valuesOf } from "../../core/sql.ts";
import { ISOLATED, POOL } from "../threads.ts";
import { filterOf, LIST_SCAN } from "./history.ts";
import { QUEUED, SCHEDULED } from "./open.ts";

export type ThreadRow = {
  readonly thread: string;
  /** Pending and running ones. */
  readonly open: number;
  /** Of the submissions that are stored, up to the newest 100,000. */
  readonly total: number;
  /** When the latest one was accepted, epoch milliseconds. */
  readonly lastAt: number;
};

const THREAD = `iif(substr(thread, 1, ${POOL.length}) = '${POOL}', '${ISOLATED}', thread)`;

/**
 * One page, the latest thread first. No index has all rows by their thread, because each submission would pay for it: the
 * newest {@link LIST_SCAN} rows are read.
 *
 * @param before the `next` of the page before
 */
export function listThreads(
  sql: SqlStorage,
  limit: number,
  before: number | undefined,
): { threads: ThreadRow[]; next: number | undefined } {
  const newest =
    valuesOf<number>(sql, "SELECT IFNULL(MAX(seq), 0) FROM perdure_submissions")[0] ?? 0;
  // SQLite takes `created_at` from the row with the highest number.
  const rows = sql
    .exec<ThreadRow & { seq: number }>(
      `SELECT ${THREAD} AS thread, SUM(settled_at IS NULL) AS open, COUNT(*) AS total, MAX(seq) AS seq,
         created_at AS lastAt
       FROM perdure_submissions WHERE seq > ? GROUP BY 1 HAVING MAX(seq) < ? ORDER BY seq DESC LIMIT ?`,
      newest - LIST_SCAN,
      before ?? Number.MAX_SAFE_INTEGER,
      limit + 1,
    )
    .toArray();
  const page = rows.slice(0, limit);
  return {
    threads: page.map(({ seq: _, ...thread }) => thread),
    next: rows.length > limit ? page.at(-1)?.seq : undefined,
  };
}

export function countOpen(sql: SqlStorage, thread: string): number {
  const query = `SELECT (SELECT COUNT(*) ${QUEUED} AND thread = ?1) + (SELECT COUNT(*) ${SCHEDULED} AND thread = ?1)`;
  return valuesOf<number>(sql, query, thread)[0] ?? 0;
}

/** A submission of a thread, where it is in the thread's history. Without `settledAt` it is open. */
export type Place = {
  readonly seq: number;
  readonly submissionId: string;
  readonly createdAt: number;
  readonly settledAt: number | null;
};

export type Places = { readonly ended: readonly Place[]; readonly open?: readonly Place[] };

const PLACE = `SELECT seq, submission_id AS submissionId, created_at AS createdAt, settled_at AS settledAt
  FROM perdure_submissions`;
const ENDS = 1_000;

/** What a thread's followers read: ends in the order of their times, then of their numbers. */
export class ThreadHistory {
  readonly #where: string;
  readonly #bindings: SqlStorageValue[];

  constructor(
    private readonly sql: SqlStorage,
    thread: string,
  ) {
    const { conditions, bindings } = filterOf({ statuses: undefined, thread });
    this.#where = conditions.join(" AND ");
    this.#bindings = bindings;
  }

  /** The numbers of its open submissions, in the order of acceptance. */
  open(): number[] {
    const query = `SELECT seq ${QUEUED} AND ${this.#where} UNION ALL SELECT seq ${SCHEDULED} AND ${this.#where} ORDER BY seq`;
    return valuesOf(this.sql, query, ...this.#bindings, ...this.#bindings);
  }

  /** The newest submission of any thread, up to this number. */
  newest(upTo = Number.MAX_SAFE_INTEGER): Place | undefined {
    const query = `${PLACE} WHERE seq <= ? ORDER BY seq DESC LIMIT 1`;
    return this.sql.exec<Place>(query, upTo).toArray()[0];
  }

  /**
   * The `chosen` submissions, and of those from number `low` on the open ones and those that have ended after `end`. Without
   * `open` there are more ends to read before.
   */
  read(chosen: Iterable<number>, low: number, end: readonly [number, number]): Places {
    const isChosen = "seq IN (SELECT value FROM json_each(?))";
    const numbers = JSON.stringify([...chosen]);
    // Two queries in one: SQLite would scan all rows for an OR.
    const rows = (of: string, after: string, limit: number, ...bindings: SqlStorageValue[]) => {
      const where = `AND settled_at IS ${of} AND ${this.#where}`;
      const query = `${PLACE} WHERE ${isChosen} ${where}
        UNION ${PLACE} WHERE seq >= ? ${where} ${after} ORDER BY settledAt, seq LIMIT ${limit}`;
      const own = this.#bindings;
      return this.sql.exec<Place>(query, numbers, ...own, low, ...own, ...bindings).toArray();
    };
    const ended = rows("NOT NULL", "AND (settled_at, seq) > (?, ?)", ENDS, ...end);
    if (ended.length === ENDS) return { ended };
    return { ended, open: rows("NULL", "", -1) };
  }
}
