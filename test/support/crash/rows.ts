/** Checks of rows that no public verb lists: waits, reports of dead letters, and parts of large events. For tests of the internals. */

import { runInDurableObject } from "cloudflare:test";

type Check = readonly [table: string, problem: string, where: string];

const OPEN: readonly Check[] = [
  ["perdure_dead_letters", "'O3 the dead letter ' || id || ' was not reported'", "is_notified = 0"],
  [
    "perdure_jobs",
    "'W2 job ' || id || ' is ' || state || ' and not cleaned up'",
    "ended_at IS NOT NULL AND due_at IS NOT NULL",
  ],
];

/** Tables whose rows keep a large payload in parts. */
const WITH_PARTS = ["perdure_outbox", "perdure_dead_letters", "perdure_delivered"];

const IN_PARTS = WITH_PARTS.map((table) => `SELECT id FROM ${table} WHERE payload IS NULL`);

const LEFT: readonly Check[] = [
  ...OPEN,
  [
    "perdure_outbox_parts",
    "DISTINCT 'O4 parts of delivery ' || id || ' have no entry'",
    `id NOT IN (${IN_PARTS.join(" UNION ")})`,
  ],
  ...WITH_PARTS.map(
    (table): Check => [
      table,
      "'O4 the parts of delivery ' || id || ' are missing'",
      "payload IS NULL AND id NOT IN (SELECT id FROM perdure_outbox_parts)",
    ],
  ),
];

/** Work that has not ended and that no verb lists. Does not start the object. */
export function describeOpenRows(stub: object): Promise<string[]> {
  return describe(stub, OPEN);
}

/** Rows that an idle object must not have, in addition to what `invariantsOf()` finds. Does not start the object. */
export function describeLeftRows(
  stub: object,
  { openWaits = false }: { openWaits?: boolean | undefined } = {},
): Promise<string[]> {
  const waits: Check = ["perdure_jobs", "'W2 the job ' || id || ' is open'", "ended_at IS NULL"];
  return describe(stub, openWaits ? LEFT : [...LEFT, waits]);
}

function describe(stub: object, checks: readonly Check[]): Promise<string[]> {
  return runInDurableObject(stub as DurableObjectStub, (_, { storage: { sql } }) =>
    checks.flatMap(([table, problem, where]) => {
      const query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?";
      if (sql.exec(query, table).toArray().length === 0) return [];
      const found = sql.exec<{ problem: string }>(
        `SELECT ${problem} AS problem FROM ${table} WHERE ${where}`,
      );
      return found.toArray().map(({ problem }) => problem);
    }),
  );
}
