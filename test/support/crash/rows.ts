/** Checks of rows that no public verb lists: waits, reports of dead letters, and parts of large events. For tests of the internals. */

import { runInDurableObject } from "cloudflare:test";

type Check = readonly [table: string, problem: string, where: string];

const OPEN: readonly Check[] = [
  ["perdure_outbox_ended", "'O3 the dead letter ' || id || ' was not reported'", "is_notified = 0"],
  [
    "perdure_jobs",
    "'W2 job ' || id || ' is ' || state || ' and not cleaned up'",
    "ended_at IS NOT NULL AND due_at IS NOT NULL",
  ],
];

/** Tables whose rows keep a large payload elsewhere. */
const WITH_VALUES = ["perdure_outbox", "perdure_outbox_ended"];

const OWNERS = WITH_VALUES.map(
  (table) => `SELECT 'delivery:' || id FROM ${table} WHERE payload IS NULL`,
);

const LEFT: readonly Check[] = [
  ...OPEN,
  [
    "perdure_values",
    "DISTINCT 'O4 the value ' || owner || ' belongs to nothing'",
    `owner LIKE 'delivery:%' AND owner NOT IN (${OWNERS.join(" UNION ")})`,
  ],
  ...WITH_VALUES.map(
    (table): Check => [
      table,
      "'O4 the event of delivery ' || id || ' is missing'",
      "payload IS NULL AND 'delivery:' || id NOT IN (SELECT owner FROM perdure_values)",
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
      const exists = (name: string) => sql.exec(query, name).toArray().length > 0;
      if (!exists(table)) return [];
      // The first large value makes its table.
      const all = exists("perdure_values") ? where : where.replace(/SELECT owner FROM .*$/, "'')");
      const found = sql.exec<{ problem: string }>(
        `SELECT ${problem} AS problem FROM ${table} WHERE ${all}`,
      );
      return found.toArray().map(({ problem }) => problem);
    }),
  );
}
