/** What a health report knows of the waits of workflows. Reads a bounded number of rows, and writes nothing. */

import { KIND_SIZE, LIVE } from "../../engine/store.ts";
import { workflowField } from "./wait-job.ts";
import { GRACE_MS, type Waits } from "./waits.ts";

/** Open approvals that one report reads at most. */
const MOST_READ = 10_000;
/** The newest waits, in which one is looked for that asked the same under another name. */
const MOST_COMPARED = 1_000;
/** The newest waits that are searched for approvals without a decision. */
const MOST_LATEST = 500;
const DAY_MS = 86_400_000;
/** Open waits that are compared with them. */
const MOST_OPEN = 200;

/** Steps that a workflow runs in parallel are opened within this time of each other. */
const PARALLEL_MS = 10_000;

/** An approval that waits for a decision. */
export type OpenApproval = {
  readonly approvalId: string;
  readonly workflow: string;
  readonly instance: string;
  readonly step: string;
  readonly createdAt: number;
  /** When its step stops waiting. */
  readonly expiresAt: number;
};

/** An open wait whose workflow has asked the same before, in the same run, under another name of the step. */
type RenamedStep = {
  readonly waitId: string;
  readonly workflow: string;
  readonly instance: string;
  readonly step: string;
  readonly createdAt: number;
  /** The name of the step before. */
  readonly before: string;
};

/** An approval that expired without a decision, and whose `onTimeout` does not approve it. */
type ExpiredApproval = Omit<OpenApproval, "expiresAt"> & { readonly expiredAt: number };

export type WaitFacts = {
  /** How many approvals are open. */
  readonly approvals: number;
  /** Open waits of every kind. */
  readonly open: number;
  readonly pending: readonly OpenApproval[];
  /** Of the last 24 hours. */
  readonly expired: readonly ExpiredApproval[];
  readonly renamed: readonly RenamedStep[];
};

const [workflow, instance, step] = (["name", "id", "stepName"] as const).map(workflowField);
const FIELDS = `${workflow} AS workflow, ${instance} AS instance, ${step} AS step, created_at AS createdAt`;
const RUN = "data ->> '$.run'";

/** An open wait, and an earlier one of the same kind and run that asked the same under another name. */
const RENAMED = `
  SELECT now.id AS waitId, now.workflow, now.instance, now.step, now.createdAt, earlier.step AS before
  FROM (SELECT id, seq >> 44 AS kind, ${FIELDS}, ${RUN} AS run, request ${LIVE} AND ended_at IS NULL LIMIT ${MOST_OPEN}) AS now
  CROSS JOIN (SELECT seq >> 44 AS kind, ${FIELDS}, ${RUN} AS run, request, state, ended_at FROM perdure_jobs
    ORDER BY seq DESC LIMIT ${MOST_COMPARED}) AS earlier
  WHERE earlier.instance = now.instance AND earlier.workflow = now.workflow AND earlier.run = now.run
    AND earlier.kind = now.kind AND earlier.step <> now.step AND earlier.request = now.request
    AND (earlier.state = 'completed' AND earlier.ended_at <= now.createdAt
      OR earlier.state = 'pending' AND earlier.createdAt < now.createdAt - ${PARALLEL_MS})`;

const EXPIRED = `
  SELECT id AS approvalId, ${FIELDS}, ended_at AS expiredAt FROM perdure_jobs
  WHERE seq > (SELECT MAX(seq) FROM perdure_jobs WHERE seq < ?1) - ${MOST_LATEST} AND seq >= ?2 AND seq < ?1
    AND state = 'skipped' AND ended_at > ?3 AND result ->> '$.isApproved' IS NULL`;

/** Numbers of the kinds that have stored waits, by their names. */
export function readKindNumbers({ stored, store }: Waits): ReadonlyMap<string, number> {
  const all = stored.map((kind) => [kind, store.numberOf(kind)] as const);
  return new Map(all.filter(([, number]) => number > 0));
}

/** @param kinds numbers of the kinds whose waits are jobs, by their names */
export function waitFacts(
  sql: SqlStorage,
  kinds: ReadonlyMap<string, number>,
  now: number,
): WaitFacts {
  const pending: OpenApproval[] = [];
  const renamed: RenamedStep[] = [];
  let open = 0;
  for (const [kind, number] of kinds) {
    const rows = sql.exec<OpenApproval>(
      `SELECT id AS approvalId, ${FIELDS}, expires_at - ${GRACE_MS} AS expiresAt ${LIVE} AND ended_at IS NULL LIMIT ${MOST_READ}`,
      number,
    );
    let count = 0;
    for (const approval of rows) {
      count++;
      if (kind === "approval") pending.push(approval);
    }
    open += count;
    if (count > 0) renamed.push(...sql.exec<RenamedStep>(RENAMED, number));
  }
  const approvals = kinds.get("approval") ?? 0;
  const [from, to] = [approvals * KIND_SIZE, (approvals + 1) * KIND_SIZE];
  const expired =
    approvals === 0 ? [] : sql.exec<ExpiredApproval>(EXPIRED, to, from, now - DAY_MS).toArray();
  return { approvals: pending.length, open, pending, expired, renamed };
}
