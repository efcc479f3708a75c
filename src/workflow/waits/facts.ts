/** What a health report knows of the waits of workflows. Reads a bounded number of rows, and writes nothing. */

import { GRACE_MS } from "./waits.ts";

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

/** Live waits, by their own index: the planner would walk all rows. */
const LIVE = `FROM perdure_waits INDEXED BY perdure_waits_live
  WHERE done_at IS NULL AND kind IN (SELECT value FROM json_each(?1)) AND settled_at IS NULL`;

const RENAMED = `
  SELECT now.wait_id AS waitId, now.workflow, now.instance, now.step, now.created_at AS createdAt, earlier.step AS before
  FROM (SELECT wait_id, workflow, instance, run, kind, step, created_at, request
    ${LIVE} LIMIT ${MOST_OPEN}) AS now
  CROSS JOIN (SELECT workflow, instance, run, kind, step, status, created_at, settled_at, request FROM perdure_waits
    ORDER BY seq DESC LIMIT ${MOST_COMPARED}) AS earlier
  WHERE earlier.instance = now.instance AND earlier.workflow = now.workflow AND earlier.run = now.run
    AND earlier.kind = now.kind AND earlier.step <> now.step AND earlier.request = now.request
    AND (earlier.status IN ('completed', 'rejected') AND earlier.settled_at <= now.created_at
      OR earlier.status = 'open' AND earlier.created_at < now.created_at - ${PARALLEL_MS})`;

const EXPIRED = `
  SELECT wait_id AS approvalId, workflow, instance, step, created_at AS createdAt, settled_at AS expiredAt
  FROM perdure_waits WHERE seq > (SELECT MAX(seq) FROM perdure_waits) - ${MOST_LATEST} AND kind = 'approval' AND status = 'expired' AND settled_at > ? AND result ->> '$.isApproved' IS NULL`;

/** @param kinds those whose waits have rows */
export function waitFacts(sql: SqlStorage, kinds: readonly string[], now: number): WaitFacts {
  const pending: OpenApproval[] = [];
  let open = 0;
  const rows = sql.exec<OpenApproval & { kind: string; expires: number }>(
    `SELECT kind, wait_id AS approvalId, workflow, instance, step, created_at AS createdAt, expires_at AS expires
     ${LIVE} LIMIT ${MOST_READ}`,
    JSON.stringify(kinds),
  );
  for (const { kind, expires, ...approval } of rows) {
    open++;
    if (kind === "approval") pending.push({ ...approval, expiresAt: expires - GRACE_MS });
  }
  const renamed = open === 0 ? [] : sql.exec<RenamedStep>(RENAMED, JSON.stringify(kinds)).toArray();
  const expired = sql.exec<ExpiredApproval>(EXPIRED, now - DAY_MS).toArray();
  return { approvals: pending.length, open, pending, expired, renamed };
}
