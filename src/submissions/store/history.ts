/** Lists submissions, and deletes ended ones. Changes no state. */

import { valuesOf } from "../../core/sql.ts";
import type { Sweep } from "../../engine/sweep.ts";
import { ListScanLimitError } from "../errors.ts";
import { isTerminal, type SubmissionStatus, type TerminalStatus } from "../states.ts";
import { ISOLATED, POOL } from "../threads.ts";
import type { ListSubmissionsOptions } from "../types.ts";
import { QUEUED, SCHEDULED } from "./open.ts";
import { bindId, each, SEQ_OF_ID, SUMMARY, type Summary } from "./rows.ts";

/** Rows that a list reads at a time, and in all: as many as retention keeps by default. */
export const LIST_WINDOW = 10_000;
export const LIST_SCAN = 100_000;
/** How many of the newest rows are searched for a turn's id of the host. */
const RECENT_TURNS = 1_000;
/** The form of turn ids of hosts. */
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** A rollback still needs the messages of its row. */
const MAY_GO = "rollback_state IS NOT 'pending'";

type Query = Pick<ListSubmissionsOptions, "before" | "thread" | "metadata"> & {
  readonly statuses: readonly SubmissionStatus[] | undefined;
  readonly limit: number;
  readonly createdAfter?: number;
  readonly createdBefore?: number;
};

export class SubmissionHistory {
  constructor(private readonly sql: SqlStorage) {}

  /**
   * Newest first, one by one. Reads at most {@link LIST_SCAN} rows, or only open ones if only those are asked for.
   *
   * @throws ListScanLimitError when none of these matches, and there are more
   */
  *list({ limit, before, ...query }: Query): Generator<Summary> {
    const { sql } = this;
    const { conditions, bindings } = filterOf(query);
    const isOpenOnly = query.statuses?.every((status) => !isTerminal(status));
    if (isOpenOnly)
      conditions.push(`seq IN (SELECT seq ${QUEUED} UNION ALL SELECT seq ${SCHEDULED})`);
    const where = conditions.map((condition) => ` AND ${condition}`).join("");
    const page = `SELECT ${SUMMARY} FROM perdure_submissions WHERE seq < ? AND seq >= ?${where} ORDER BY seq DESC LIMIT ?`;
    let found = 0;
    let top = before === undefined ? Number.MAX_SAFE_INTEGER : this.#seqOf(before);
    for (let scanned = 0; top !== null; scanned += LIST_WINDOW) {
      const first = this.#newest(top);
      if (first === null) return;
      if (scanned >= LIST_SCAN && found > 0) return;
      if (scanned >= LIST_SCAN)
        throw new ListScanLimitError(LIST_SCAN, this.#lastRead(top), before);
      const from = isOpenOnly ? 0 : first - LIST_WINDOW + 1;
      for (const one of each(sql, page, first + 1, from, ...bindings, limit - found)) {
        found++;
        yield one;
      }
      if (found >= limit) return;
      top = from;
    }
  }

  /** The latest submission whose turn had this id of its host's own, among the last {@link RECENT_TURNS}. */
  ofTurn(requestId: string): string | undefined {
    // No read for anything else.
    if (!UUID.test(requestId)) return undefined;
    const query = `SELECT submission_id FROM perdure_submissions
      WHERE seq > (SELECT MAX(seq) FROM perdure_submissions) - ${RECENT_TURNS} AND request_id = ? ORDER BY seq DESC LIMIT 1`;
    return valuesOf<string>(this.sql, query, requestId)[0];
  }

  #seqOf(submissionId: string): number | null {
    return (
      valuesOf<number | null>(this.sql, `SELECT ${SEQ_OF_ID}`, ...bindId(submissionId))[0] ?? null
    );
  }

  #lastRead(from: number): string {
    const query =
      "SELECT submission_id FROM perdure_submissions WHERE seq >= ? ORDER BY seq LIMIT 1";
    return valuesOf<string>(this.sql, query, from)[0] as string;
  }

  #newest(below: number): number | null {
    const query = "SELECT MAX(seq) FROM perdure_submissions WHERE seq < ?";
    return valuesOf<number | null>(this.sql, query, below)[0] ?? null;
  }

  /** Deletes ended submissions, the oldest first. Returns how many. */
  delete(
    statuses: readonly TerminalStatus[],
    completedBefore: number | undefined,
    limit: number,
  ): number {
    const query = `DELETE FROM perdure_submissions WHERE seq IN (
        SELECT seq FROM perdure_submissions
        WHERE status IN (${statuses.map(() => "?").join(", ")}) AND settled_at < ? AND ${MAY_GO}
        ORDER BY seq LIMIT ?) RETURNING seq`;
    const before = completedBefore ?? Number.MAX_SAFE_INTEGER;
    return valuesOf(this.sql, query, ...statuses, before, limit).length;
  }

  deleteOne(submissionId: string): boolean {
    const query = `DELETE FROM perdure_submissions
                   WHERE seq = ${SEQ_OF_ID} AND settled_at IS NOT NULL AND ${MAY_GO} RETURNING seq`;
    return valuesOf(this.sql, query, ...bindId(submissionId)).length > 0;
  }

  /** Deletes some of what exceeds the retention. Returns how many. */
  prune(endedBefore: number, maxCount: number, sweep: Sweep): number {
    const kept = Math.min(maxCount, Number.MAX_SAFE_INTEGER);
    const isLast = "seq <= (SELECT IFNULL(MAX(seq), 0) FROM perdure_submissions) - ?";
    const isOver = `settled_at IS NOT NULL AND ${MAY_GO} AND (settled_at < ? OR ${isLast})`;
    return sweep.prune(this.sql, isOver, endedBefore, kept);
  }
}

export function filterOf({
  statuses,
  thread,
  metadata = {},
  createdAfter,
  createdBefore,
}: Omit<Query, "limit" | "before">) {
  const conditions: string[] = [];
  const bindings: SqlStorageValue[] = [];
  const only = (condition: string, ...values: SqlStorageValue[]) => {
    conditions.push(condition);
    bindings.push(...values);
  };
  if (statuses) only("status IN (SELECT value FROM json_each(?))", JSON.stringify(statuses));
  if (thread === ISOLATED)
    only("(thread = ? OR substr(thread, 1, ?) = ?)", ISOLATED, POOL.length, POOL);
  else if (thread !== undefined) only("thread = ?", thread);
  if (createdAfter !== undefined) only("created_at >= ?", createdAfter);
  if (createdBefore !== undefined) only("created_at < ?", createdBefore);
  for (const [key, value] of Object.entries(metadata)) {
    // json_extract() gives 1 and 0 for true and false.
    const stored = typeof value === "boolean" ? Number(value) : value;
    only("json_extract(metadata, ?) = ?", `$.${JSON.stringify(key)}`, stored);
  }
  return { conditions, bindings };
}
