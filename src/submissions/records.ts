/**
 * What is asked of the ledger's history, and what is forgotten of it. Changes
 * no state: it reads, and deletes what has ended.
 */

import { bindId, SEQ_OF_ID } from "./ids.ts";
import { select } from "./rows.ts";
import type { SubmissionStatus, TerminalStatus } from "./states.ts";
import type { FailedAttempt, ListSubmissionsOptions, TokenUsage } from "./types.ts";

/** What a list is asked for. */
type Query = Omit<ListSubmissionsOptions, "status" | "limit"> & {
  readonly statuses: readonly SubmissionStatus[] | undefined;
  readonly limit: number;
};

export class SubmissionRecords {
  constructor(private readonly storage: DurableObjectStorage) {}

  /** The attempts of a submission that failed and were not its last, oldest first. */
  failedAttempts(seq: number): FailedAttempt[] {
    return this.storage.sql
      .exec<Omit<FailedAttempt, "usage"> & { usage: string | null }>(
        `SELECT attempt, started_at AS startedAt, ended_at AS endedAt, error, error_name AS errorName, usage
         FROM perdure_attempts WHERE seq = ? ORDER BY attempt`,
        seq,
      )
      .toArray()
      .map(({ usage, ...attempt }) => ({
        ...attempt,
        ...(usage !== null && { usage: JSON.parse(usage) as TokenUsage }),
      }));
  }

  /** Newest first. */
  list({ statuses, limit, before, thread, metadata = {}, createdAfter, createdBefore }: Query) {
    const where: string[] = ["1"];
    const bindings: SqlStorageValue[] = [];
    const only = (condition: string, ...values: SqlStorageValue[]) => {
      where.push(condition);
      bindings.push(...values);
    };
    if (statuses) only("status IN (SELECT value FROM json_each(?))", JSON.stringify(statuses));
    if (before !== undefined) only(`seq < ${SEQ_OF_ID}`, ...bindId(before));
    if (thread !== undefined) only("thread = ?", thread);
    if (createdAfter) only("created_at >= ?", createdAfter.getTime());
    if (createdBefore) only("created_at < ?", createdBefore.getTime());
    for (const [key, value] of Object.entries(metadata)) {
      // json_extract() gives 1 and 0 for true and false.
      const stored = typeof value === "boolean" ? Number(value) : value;
      only("json_extract(metadata, ?) = ?", `$.${JSON.stringify(key)}`, stored);
    }
    return select(
      this.storage.sql,
      `SELECT * FROM perdure_submissions WHERE ${where.join(" AND ")} ORDER BY seq DESC LIMIT ?`,
      ...bindings,
      limit,
    );
  }

  /** Forgets ended submissions, the oldest first, and returns them. */
  delete(
    statuses: readonly TerminalStatus[],
    completedBefore: number | undefined,
    limit: number,
  ): number {
    return this.storage.sql
      .exec(
        `DELETE FROM perdure_submissions WHERE seq IN (
           SELECT seq FROM perdure_submissions
           WHERE status IN (${statuses.map(() => "?").join(", ")}) AND settled_at < ? AND is_undone IS NOT 0
           ORDER BY seq LIMIT ?) RETURNING seq`,
        ...statuses,
        completedBefore ?? Number.MAX_SAFE_INTEGER,
        limit,
      )
      .toArray().length;
  }

  /** Forgets one ended submission. */
  deleteOne(submissionId: string): boolean {
    return (
      this.storage.sql
        .exec(
          `DELETE FROM perdure_submissions
           WHERE seq = ${SEQ_OF_ID} AND settled_at IS NOT NULL AND is_undone IS NOT 0 RETURNING seq`,
          ...bindId(submissionId),
        )
        .toArray().length > 0
    );
  }

  /**
   * Forgets ended submissions that are older than the retention, looking at
   * the oldest `scan` rows only, so that it costs the same however many there
   * are. Returns how many went.
   */
  prune(endedBefore: number, maxCount: number, scan: number): number {
    const keepAll = maxCount === Number.POSITIVE_INFINITY;
    return this.storage.sql
      .exec(
        `DELETE FROM perdure_submissions WHERE seq IN (
           SELECT seq FROM (SELECT seq, settled_at FROM perdure_submissions WHERE is_undone IS NOT 0 ORDER BY seq LIMIT ?)
           WHERE settled_at < ? OR (settled_at IS NOT NULL AND seq <= (SELECT MAX(seq) FROM perdure_submissions) - ?)
         ) RETURNING seq`,
        scan,
        endedBefore,
        keepAll ? Number.MAX_SAFE_INTEGER : maxCount,
      )
      .toArray().length;
  }
}
