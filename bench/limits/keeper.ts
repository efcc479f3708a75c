/**
 * `npm run bench:limits`: how many asks a second one keeper answers, by the number of its keys and of the work that waits. Each
 * ask gives back the lease before it, so that it is one row. Times depend on the machine: compare those of one run.
 *
 *   npm run bench:limits -- --asks 20000 --concurrency 64
 */

import { parseArgs } from "node:util";
import { startWorker } from "../start-worker.ts";
import type { Load, Result } from "./worker.ts";

const { values } = parseArgs({
  options: {
    asks: { type: "string", default: "20000" },
    concurrency: { type: "string", default: "64" },
  },
});
const asks = Number(values.asks);
const concurrency = Number(values.concurrency);

const LOADS: readonly (readonly [what: string, load: Pick<Load, "keys" | "waiters">])[] = [
  ["1 key", { keys: 1, waiters: 0 }],
  ["100 keys", { keys: 100, waiters: 0 }],
  ["10,000 keys", { keys: 10_000, waiters: 0 }],
  ["1 key, 1,000 wait", { keys: 1, waiters: 1_000 }],
];

const ROUNDS = 3;

const worker = await startWorker(import.meta.dirname);
try {
  console.log(`${asks} asks, ${concurrency} at a time: the median of ${ROUNDS} rounds`);
  // The first load also loads the code.
  await run("warm", { keys: 100, waiters: 0 });
  const rounds: Result[][] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const results: Result[] = [];
    for (const [what, load] of LOADS) results.push(await run(`${what} ${round}`, load));
    rounds.push(results);
  }
  console.log(["".padEnd(20), "asks/s", "p50 ms", "p99 ms"].join("\t"));
  for (const [index, [what]] of LOADS.entries()) {
    const results = rounds.flatMap((round) => round[index] ?? []);
    const median = results.sort((one, other) => one.ms - other.ms)[Math.floor(ROUNDS / 2)];
    if (!median) continue;
    const { ms, p50, p99 } = median;
    const rate = Math.round((asks / ms) * 1_000);
    console.log([what.padEnd(20), rate, p50.toFixed(1), p99.toFixed(1)].join("\t"));
  }
} finally {
  await worker.dispose();
}

async function run(name: string, load: Pick<Load, "keys" | "waiters">): Promise<Result> {
  const body = JSON.stringify({ ...load, name, asks, concurrency } satisfies Load);
  const response = await worker.fetch("http://worker/run", { method: "POST", body });
  if (!response.ok) throw new Error(`${name}: ${await response.text()}`);
  return (await response.json()) as Result;
}
