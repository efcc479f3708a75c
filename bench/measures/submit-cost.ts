/** The cost of accepting a submission, by the number of pending ones. */

import type { Bench, Measure } from "../measure.ts";
import { atMost, type Result } from "../result.ts";
import type { Kind } from "../worker/requests.ts";

/** Counted together, because a burst shares its wakes. */
const TIMES = 10;
const WAITING = [20, 50, 10_000];
/** Think's own implementation reads all pending ones each time, so more would take minutes. */
const MOST_OF_BUILT_IN = 50;
const MOST_READ = 4;

const UNITS = {
  statements: "SQL statements",
  rowsWritten: "rows written",
  setAlarms: "setAlarm calls",
  rowsRead: "rows read",
} as const;

export const submitCost: Measure = {
  name: "submit-cost",
  does: `counts what ${TIMES} acceptances do to the object's storage while a turn runs and others wait`,
  hasCounts: true,
  async run(bench) {
    const results: Result[] = [];
    for (const pending of WAITING) {
      const ours = await costOf(bench, "perdure", pending);
      const theirs =
        pending > MOST_OF_BUILT_IN ? undefined : await costOf(bench, "built-in", pending);
      const row = (key: keyof typeof UNITS, most: number): Result => ({
        what: `one accepted submission, ${pending.toLocaleString("en")} waiting`,
        unit: UNITS[key],
        perdure: ours[key] / TIMES,
        builtIn: theirs && theirs[key] / TIMES,
        limit: atMost(most),
      });
      if (results.length === 0) {
        results.push(row("statements", 6), row("rowsWritten", 3), row("setAlarms", 1));
      }
      // Constant: not more than with the fewest pending.
      const fewest = results.find(({ unit }) => unit === UNITS.rowsRead)?.perdure;
      results.push(row("rowsRead", Math.min(MOST_READ, fewest ?? MOST_READ)));
    }
    return results;
  },
};

function costOf({ worker }: Bench, kind: Kind, pending: number) {
  return worker.ask("submitCost", { kind, pending, times: TIMES });
}
