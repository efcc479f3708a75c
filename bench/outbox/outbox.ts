/**
 * Drains an outbox of 10,000 entries to 100 destinations, and measures throughput, delays and cost:
 * alone, with destinations that are slow or refuse half of their events, and in the two distributions that are worst for
 * finding ready entries. Fails when an entry is lost, out of order or left over, and above the limits.
 *
 *     node bench/outbox/outbox.ts --entries 10000 --destinations 100 --concurrency 8
 *
 * Counts are the same on every machine. Times are not: the local runtime limits them, where a timer and a commit take
 * milliseconds. Only times of one run are compared.
 */

import { parseArgs } from "node:util";
import { startWorker } from "../start-worker.ts";
import type { Result, Task } from "./worker.ts";

const { values } = parseArgs({
  options: {
    entries: { type: "string", default: "10000" },
    destinations: { type: "string", default: "100" },
    concurrency: { type: "string", default: "8" },
  },
});
const entries = Number(values.entries);
const destinations = Number(values.destinations);
const concurrency = Number(values.concurrency);

/** Half of this is explained by shared slots: slow entries hold a slot longer, and refused ones use it twice. */
const MAX_RATIO = 4;
/** Put, claim, delete, and the check for the last entry. A retry adds a claim, an update and a wake. */
const MAX_STATEMENTS = 4.2;
const MAX_STATEMENTS_OF_RETRY = 16;
/** A burst shares a wake. Each earlier retry moves it, and moves it back. */
const MAX_WAKE_ROWS = 24;
const MAX_WAKE_ROWS_OF_RETRY = 4;
/**
 * Each read of the rows serves at least 64 deliveries, and reads each waiting row up to ten times (as SQLite counts
 * sorting). On average half of the rows wait. A wake for a retry reads each once more.
 */
const maxRowsRead = (of: number) => 20 + (of * 10) / 2 / 64;

type Scenario = { readonly name: string; readonly task: Task };

function scenarios(): { alone: Scenario; beside: Scenario; others: Scenario[] } {
  const slow = Math.ceil(destinations / 10);
  const failing = Math.ceil(destinations / 20);
  const healthy = destinations - slow - failing;
  const each = entries / destinations;
  const none = { slow: 0, failing: 0, concurrency };
  return {
    alone: {
      name: "healthy ones",
      task: { ...none, entries: Math.round(each * healthy), healthy },
    },
    beside: {
      name: `${slow} slow, ${failing} failing`,
      task: { entries, healthy, slow, failing, concurrency },
    },
    others: [
      { name: "one destination", task: { ...none, entries, healthy: 1 } },
      { name: "one for each", task: { ...none, entries, healthy: entries } },
    ],
  };
}

/** The problems of a result. */
function problemsOf({ task }: Scenario, { problems, left, total, statements }: Result): string[] {
  const { put, forget, retry, wake, next } = statements;
  const each = (count: number) => count / task.entries;
  const checks: [boolean, string][] = [
    [
      put.times === task.entries && put.rowsWritten === task.entries,
      `${put.rowsWritten} rows to put`,
    ],
    [forget.rowsWritten === task.entries, `${forget.rowsWritten} rows to forget`],
    [
      total.rowsWritten - wake.rowsWritten === 2 * task.entries + retry.times,
      `${total.rowsWritten} rows written, ${wake.rowsWritten} of them for the wake`,
    ],
    [
      wake.rowsWritten <= MAX_WAKE_ROWS + MAX_WAKE_ROWS_OF_RETRY * retry.times,
      `${wake.rowsWritten} rows written for the wake`,
    ],
    [
      total.times <= task.entries * MAX_STATEMENTS + 100 + MAX_STATEMENTS_OF_RETRY * retry.times,
      `${each(total.times)} statements for each`,
    ],
    [
      each(total.rowsRead - next.rowsRead) <= maxRowsRead(task.entries),
      `${each(total.rowsRead)} rows read for each`,
    ],
    [left.entries === 0 && left.jobs === 0 && left.alarm === null, JSON.stringify(left)],
  ];
  return [...problems, ...checks.filter(([isFine]) => !isFine).map(([, problem]) => problem)];
}

function lineOf({ name, task }: Scenario, result: Result): string {
  const { putMs, allMs, delays, total, statements, setAlarms } = result;
  const perSecond = (ms: number) => Math.round((task.entries / ms) * 1_000);
  const each = (count: number) => (count / task.entries).toFixed(2);
  const cells = [
    perSecond(putMs),
    perSecond(allMs),
    delays.medianMs,
    delays.worstMs,
    each(total.rowsWritten),
    each(total.times),
    each(total.rowsRead),
    statements.look.times,
    statements.retry.times,
    setAlarms,
  ];
  return name.padEnd(22) + cells.map((cell) => String(cell).padStart(12)).join("");
}

const HEAD = ["put/s", "arrived/s", "median ms", "worst ms", "written", "statements", "read"];
const HEAD_OF_ALL = ["looks", "retries", "setAlarms"];

const worker = await startWorker(import.meta.dirname);
try {
  const wrong: string[] = [];
  const run = async (scenario: Scenario): Promise<Result> => {
    const response = await worker.fetch("http://worker/", {
      method: "POST",
      body: JSON.stringify(scenario.task),
    });
    if (!response.ok) throw new Error(`${scenario.name}: ${await response.text()}`);
    const result = (await response.json()) as Result;
    console.log(lineOf(scenario, result));
    wrong.push(...problemsOf(scenario, result).map((problem) => `${scenario.name}: ${problem}`));
    return result;
  };
  const { alone, beside, others } = scenarios();
  console.log(`${entries} entries to ${destinations} destinations, ${concurrency} at a time.`);
  console.log(
    "Delays are those of healthy destinations; written, statements and read are for each entry.",
  );
  console.log(
    " ".repeat(22) + [...HEAD, ...HEAD_OF_ALL].map((title) => title.padStart(12)).join(""),
  );
  const [quiet, loud] = [await run(alone), await run(beside)];
  for (const scenario of others) await run(scenario);
  const median = loud.delays.medianMs / quiet.delays.medianMs;
  const worst = loud.delays.worstMs / quiet.delays.worstMs;
  console.log(
    `Beside slow and failing ones, the delay of healthy ones is ${median.toFixed(2)} times as long in the median, ` +
      `${worst.toFixed(2)} at worst (at most ${MAX_RATIO}).`,
  );
  if (worst > MAX_RATIO) wrong.push(`the worst delay is ${worst.toFixed(2)} times as long`);
  for (const problem of wrong) console.error(problem);
  process.exitCode = wrong.length === 0 ? 0 : 1;
} finally {
  await worker.dispose();
}
