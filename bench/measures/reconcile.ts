/** The cost of reconciling a thousand unchanged tasks. */

import type { Measure } from "../measure.ts";
import { atMost, type Result } from "../result.ts";

const COUNT = 1_000;

export const reconcile: Measure = {
  name: "reconcile",
  does: `reconciles ${COUNT.toLocaleString("en")} unchanged tasks`,
  hasCounts: true,
  async run({ worker }) {
    const { same, next } = await worker.ask("reconcile", { count: COUNT });
    if (same.tasks !== COUNT || next.tasks !== COUNT) {
      throw new Error(`${same.tasks} tasks are there, and ${next.tasks} after a restart`);
    }
    const theirs = await worker.ask("reconcileBuiltIn", { count: COUNT });
    const what = `reconcile of ${COUNT.toLocaleString("en")} unchanged tasks`;
    const restarted = `${what}, at the start of another life`;
    const results: Result[] = [
      {
        what,
        unit: "rows written",
        perdure: same.rowsWritten,
        builtIn: theirs.rowsWritten,
        limit: atMost(0),
      },
      {
        what,
        unit: "SQL statements",
        perdure: same.statements,
        builtIn: theirs.statements,
        limit: atMost(3),
      },
      { what, unit: "ms", perdure: same.ms, builtIn: theirs.ms },
      { what: restarted, unit: "rows written", perdure: next.rowsWritten, limit: atMost(0) },
      {
        what: restarted,
        unit: "SQL statements on its tables",
        perdure: next.ownStatements,
        limit: atMost(3),
      },
    ];
    return results;
  },
};
