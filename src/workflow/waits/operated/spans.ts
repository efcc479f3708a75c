/** The spans of a workflow's steps that wait for a row here. */

import type { KeyedSpan, NewSpan, SpanSource } from "../../../engine/operated/spans.ts";
import type { InstanceOf } from "../../../outbox/destinations/workflow-event.ts";
import { STATUS_OF } from "../kinds/approval.ts";
import type { WaitStatus } from "../protocol.ts";

/** How many of the newest waits are searched: no index leads from an instance to its closed waits. */
const SEARCHED = 10_000;

type TracedWait = {
  readonly waitId: string;
  readonly kind: string;
  readonly status: "open" | WaitStatus;
  readonly stepName: string;
  readonly createdAt: number;
  readonly settledAt: number | null;
  /** Who has decided an approval. */
  readonly by: string | null;
};

/** Oldest first, without those inside another wait. */
function waitsOfWorkflow(
  sql: SqlStorage,
  { workflow, instance }: InstanceOf,
  limit: number,
): TracedWait[] {
  const query = `SELECT wait_id AS waitId, kind, status, step AS stepName, created_at AS createdAt, settled_at AS settledAt,
      iif(kind = 'approval', substr(result ->> '$.by', 1, 500), NULL) AS by FROM (
      SELECT seq, wait_id, kind, status, step, created_at, settled_at, workflow, instance, parent, result
      FROM perdure_waits ORDER BY seq DESC LIMIT ${SEARCHED})
    WHERE instance = ? AND workflow = ? AND parent IS NULL ORDER BY seq LIMIT ?`;
  return sql.exec<TracedWait>(query, instance, workflow, limit).toArray();
}

function stepSpan(wait: TracedWait): KeyedSpan {
  const { waitId, kind, status, stepName, createdAt, settledAt, by } = wait;
  const isFailed = status === "failed" || status === "expired";
  const span: NewSpan = {
    name: `perdure.step ${stepName}`,
    kind: "step",
    startedAt: createdAt,
    endedAt: settledAt ?? undefined,
    status: isFailed ? "error" : status === "completed" ? "ok" : "unset",
    error: isFailed ? `The wait has ${status}` : undefined,
    attributes: {
      "perdure.step.name": stepName,
      "perdure.step.kind": kind,
      "perdure.wait.id": waitId,
      "perdure.wait.status": status,
      "perdure.approval.status": kind === "approval" ? STATUS_OF[status] : undefined,
      "perdure.approval.by": by ?? undefined,
    },
  };
  return [`step:${waitId}`, span];
}

export const SPANS = {
  waits: { steps: (sql, of, most) => waitsOfWorkflow(sql, of, most).map(stepSpan) },
} satisfies Readonly<Record<string, SpanSource>>;
