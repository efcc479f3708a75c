/** The waits of a workflow, by the beginning of their idempotency keys, for operators. Found by the index of keys. */

import { endOfPrefix } from "../../core/text.ts";
import type { Wait } from "./protocol.ts";

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

/** @param prefix ends with a colon */
export function stepsWithPrefix(sql: SqlStorage, prefix: string, limit: number): StepRow[] {
  return sql
    .exec<StepRow>(
      `SELECT wait_id AS waitId, kind, status, step, created_at AS createdAt, settled_at AS settledAt,
         iif(status = 'completed', NULL, substr(result ->> '$.error', 1, 1000)) AS error,
         iif(octet_length(request) > 65536, NULL, substr(request, 1, 1000)) AS input,
         iif(status = 'completed' AND octet_length(result) <= 65536, substr(result, 1, 1000), NULL) AS output
       FROM perdure_waits WHERE idempotency_key >= ? AND idempotency_key < ? LIMIT ?`,
      prefix,
      endOfPrefix(prefix),
      limit,
    )
    .toArray();
}

/** Whether one of these waits is open. @param prefix ends with a colon */
export function hasOpenWait(sql: SqlStorage, prefix: string): boolean {
  const query = `SELECT 1 FROM perdure_waits
    WHERE idempotency_key >= ? AND idempotency_key < ? AND settled_at IS NULL LIMIT 1`;
  return sql.exec(query, prefix, endOfPrefix(prefix)).toArray().length > 0;
}
