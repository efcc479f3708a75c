/** The spans of a workflow's steps that wait for a row here. */

import type { KeyedSpan, NewSpan, SpanSource } from "../../../engine/operated/spans.ts";
import { KIND_SIZE } from "../../../engine/store.ts";
import type { InstanceOf } from "../../../outbox/destinations/workflow-event.ts";
import { STATUS_OF } from "../kinds/approval.ts";
import type { WaitStatus } from "../protocol.ts";
import { STATUS, workflowField } from "../wait-job.ts";

/** The kinds that have stored jobs. */
const KINDS =
  "SELECT substr(module, 6) AS kind, version AS number FROM perdure_schema WHERE module LIKE 'kind:%'";
/** How many of the newest waits of a kind are searched: no index leads from an instance to its closed waits. */
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
function waitsOfWorkflow(sql: SqlStorage, of: InstanceOf, limit: number): TracedWait[] {
  const kinds = sql.exec<{ kind: string; number: number }>(KINDS).toArray();
  const [stepName, instance, workflow] = (["stepName", "id", "name"] as const).map(workflowField);
  const query = `SELECT id AS waitId, ${STATUS} AS status, ${stepName} AS stepName, created_at AS createdAt, ended_at AS settledAt,
      substr(result ->> '$.by', 1, 500) AS by FROM (
      SELECT * FROM perdure_jobs WHERE seq >= ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ${SEARCHED})
    WHERE ${instance} = ?3 AND ${workflow} = ?4 AND parent IS NULL ORDER BY seq LIMIT ?5`;
  const found = kinds.flatMap(({ kind, number }) => {
    const [from, to] = [number * KIND_SIZE, (number + 1) * KIND_SIZE];
    type Row = Omit<TracedWait, "kind">;
    const rows = sql.exec<Row>(query, from, to, of.instance, of.workflow, limit).toArray();
    return rows.map((row) => ({ ...row, kind, by: kind === "approval" ? row.by : null }));
  });
  return found.sort((one, other) => one.createdAt - other.createdAt).slice(0, limit);
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
