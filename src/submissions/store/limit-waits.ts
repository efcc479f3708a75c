/** Reads for `limits()`: which limits open submissions wait for, and what recent turns had for keys of limits. */

import type { Json } from "../../core/json.ts";
import { publicThreadOf } from "../threads.ts";
import { QUEUED, SCHEDULED } from "./open.ts";

/** Submissions that wait for the same key of a limit. */
export type LimitWaits = {
  readonly limit: string;
  readonly key: string;
  readonly why: "full" | "paused" | "closed" | "unreachable";
  readonly count: number;
  /** Since when the first of them waits. */
  readonly since: number;
  /** At most 10. */
  readonly ids: readonly string[];
};

/** Open rows that are read at most. */
const MOST_READ = 10_000;
const MOST_IDS = 10;

type Row = Omit<LimitWaits, "count" | "ids"> & { readonly submissionId: string };

/** Isolated ones are scheduled while they wait. */
export function limitWaits(sql: SqlStorage): LimitWaits[] {
  const waiting = "AND status = 'pending' AND due_at > 0 AND waiting_for IS NOT NULL";
  const rows = sql.exec<Row>(
    `SELECT submission_id AS submissionId, waiting_for ->> '$.limit' AS "limit", waiting_for ->> '$.key' AS key,
       waiting_for ->> '$.why' AS why, waiting_for ->> '$.since' AS since
     FROM (SELECT submission_id, waiting_for ${QUEUED} ${waiting}
       UNION ALL SELECT submission_id, waiting_for ${SCHEDULED} ${waiting} LIMIT ${MOST_READ})`,
  );
  const groups = Map.groupBy(rows, ({ limit, key, why }) => JSON.stringify([limit, key, why]));
  return [...groups.values()].flatMap((group) => {
    const [first] = group;
    if (!first) return [];
    const { submissionId: _, ...of } = first;
    return {
      ...of,
      count: group.length,
      since: Math.min(...group.map(({ since }) => since)),
      ids: group.slice(0, MOST_IDS).map(({ submissionId }) => submissionId),
    };
  });
}

/** A turn that has started, with what keys of limits read. */
export type StartedTurn = {
  readonly submissionId: string;
  readonly thread: string;
  readonly metadata: { readonly [name: string]: Json };
  /** Epoch milliseconds. */
  readonly startedAt: number;
};

/** Newest submissions that are read. */
const MAX_NEWEST = 200;
const DAY_MS = 86_400_000;

type TurnRow = Omit<StartedTurn, "metadata"> & { readonly metadata: string | null };

/** Turns among the newest submissions that have started within a day, newest first. */
export function startedTurns(sql: SqlStorage, now: number): StartedTurn[] {
  const rows = sql.exec<TurnRow>(
    `SELECT submissionId, thread, metadata, startedAt FROM (
       SELECT submission_id AS submissionId, thread, metadata, started_at AS startedAt
       FROM perdure_submissions ORDER BY seq DESC LIMIT ${MAX_NEWEST}) WHERE startedAt > ?`,
    now - DAY_MS,
  );
  return [...rows].map(({ metadata, thread, ...row }) => ({
    ...row,
    thread: publicThreadOf(thread),
    metadata: metadata === null ? {} : (JSON.parse(metadata) as StartedTurn["metadata"]),
  }));
}
