/** The waits of a workflow, by the beginning of their idempotency keys, for operators. Found by the index of keys. */

import { endOfPrefix } from "../../core/text.ts";
import type { JobStore } from "../../engine/store.ts";
import type { Wait } from "./protocol.ts";
import { STATUS, workflowField } from "./wait-job.ts";

export type StepRow = {
  readonly waitId: string;
  readonly kind: string;
  readonly status: Wait["status"];
  readonly step: string;
  readonly createdAt: number;
  readonly settledAt: number | null;
  /** Why it ended otherwise than by its result. */
  readonly error: string | null;
  /** The beginning of its request as JSON; null above 64 KiB. So is that of its result. */
  readonly input: string | null;
  readonly output: string | null;
};

const IS_COMPLETED = "reason = 'completed'";

/**
 * @param kind of all waits whose keys have the prefix
 * @param prefix ends with a colon
 */
export function stepsWithPrefix(
  store: JobStore,
  kind: string,
  prefix: string,
  limit: number,
): StepRow[] {
  return store.query<StepRow>(
    `SELECT id AS waitId, ? AS kind, ${STATUS} AS status, ${workflowField("stepName")} AS step, created_at AS createdAt,
         ended_at AS settledAt, iif(${IS_COMPLETED}, NULL, substr(result ->> '$.error', 1, 1000)) AS error,
         iif(octet_length(request) > 65536, NULL, substr(request, 1, 1000)) AS input,
         iif(${IS_COMPLETED} AND octet_length(result) <= 65536, substr(result, 1, 1000), NULL) AS output
       FROM perdure_jobs WHERE key >= ? AND key < ? LIMIT ?`,
    kind,
    prefix,
    endOfPrefix(prefix),
    limit,
  );
}

/** Whether one of these waits is open. @param prefix ends with a colon */
export function hasOpenWait(store: JobStore, prefix: string): boolean {
  const query =
    "SELECT 1 FROM perdure_jobs WHERE key >= ? AND key < ? AND ended_at IS NULL LIMIT 1";
  return store.query(query, prefix, endOfPrefix(prefix)).length > 0;
}

/**
 * Gives closed waits to a run that has ended, so that they answer no later one by themselves.
 *
 * @param prefix ends with a colon
 * @param since when the first of them was opened, epoch milliseconds
 */
export function endRun(store: JobStore, prefix: string, since: number, run: string): void {
  store.query(
    `UPDATE perdure_jobs SET data = json_set(data, '$.run', ?)
     WHERE key >= ? AND key < ? AND ended_at IS NOT NULL AND created_at >= ?`,
    run,
    prefix,
    endOfPrefix(prefix),
    since,
  );
}
