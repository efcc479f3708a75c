/**
 * `npm run bench`: measures Perdure and Think's own implementation in one worker, with one model, on one machine, alternately.
 * Writes `results.md` and `results.json` after a whole run. Exit code 1 when a count or a size is above its limit.
 *
 *     npm run bench -- --counts               counts and sizes, which are the same on every machine, in a minute
 *     npm run bench -- --only resume          one measure; --only a --only b for more
 *     npm run bench -- --only slope --steps 1000
 *     npm run bench -- --only pages --ended 100000
 */

import { writeFileSync } from "node:fs";
import path from "node:path";
import { parseArgs } from "node:util";
import { commit, machine, versions } from "./machine.ts";
import type { Ask, Bench, BenchWorker, Measure } from "./measure.ts";
import { evaluation } from "./measures/evaluation.ts";
import { isolatedCost } from "./measures/isolated-cost.ts";
import { latency } from "./measures/latency.ts";
import { limitedTurn } from "./measures/limited-turn.ts";
import { memory } from "./measures/memory.ts";
import { occurrences } from "./measures/occurrences.ts";
import { promptCost } from "./measures/prompt-cost.ts";
import { reconcile } from "./measures/reconcile.ts";
import { resume } from "./measures/resume.ts";
import { firstStart, pages, rows } from "./measures/rows.ts";
import { size } from "./measures/size.ts";
import { slopes } from "./measures/slope.ts";
import { stored } from "./measures/stored.ts";
import { submitCost } from "./measures/submit-cost.ts";
import { submitRate } from "./measures/submit-rate.ts";
import { type Found, failuresOf, jsonOf, lineOf, markdownOf } from "./report.ts";
import { type StartedWorker, startWorker } from "./start-worker.ts";

const MEASURES: readonly Measure[] = [
  resume,
  promptCost,
  isolatedCost,
  firstStart,
  rows,
  pages,
  latency,
  limitedTurn,
  submitCost,
  submitRate,
  stored,
  occurrences,
  reconcile,
  slopes,
  memory,
  size,
  evaluation,
];

const { values } = parseArgs({
  options: {
    counts: { type: "boolean", default: false },
    only: { type: "string", multiple: true, default: [] },
    steps: { type: "string", default: "200" },
    ended: { type: "string", default: "10000" },
  },
});
const steps = Number(values.steps);
if (!(Number.isInteger(steps) && steps >= 2)) {
  refuse(`--steps is ${values.steps}; expected a whole number from 2 on`);
}
const ended = Number(values.ended);
if (!(Number.isInteger(ended) && ended >= 1)) {
  refuse(`--ended is ${values.ended}; expected a whole number from 1 on`);
}
const names = MEASURES.map(({ name }) => name);
const unknown = values.only.filter((name) => !names.includes(name));
if (unknown.length > 0)
  refuse(`No such measure: ${unknown.join(", ")}. There are ${names.join(", ")}`);

const date = new Date();
const about = {
  date: date.toISOString(),
  commit: commit(),
  machine: machine(),
  versions: versions(),
};
const workers: StartedWorker[] = [];
try {
  const bench: Bench = {
    onlyCounts: values.counts,
    steps,
    ended,
    worker: lazily(() => start("worker")),
    start,
  };
  const found: Found[] = [];
  for (const measure of MEASURES.filter(isWanted)) found.push(await foundBy(measure, bench));
  const isWhole = values.only.length === 0 && !values.counts;
  if (isWhole) write(found);
  const failures = failuresOf(found);
  const seconds = Math.round((Date.now() - date.getTime()) / 1_000);
  console.log(
    `${found.length} measures in ${seconds} s, ${failures.length} counts above their limits`,
  );
  for (const failure of failures) console.error(failure);
  process.exitCode = failures.length === 0 ? 0 : 1;
} finally {
  await Promise.all(workers.map((worker) => worker.dispose()));
}

function isWanted({ name, hasCounts, isOnlyByName = false }: Measure): boolean {
  if (values.only.length > 0) return values.only.includes(name);
  return hasCounts || !(values.counts || isOnlyByName);
}

async function foundBy(measure: Measure, bench: Bench): Promise<Found> {
  const { name, does } = measure;
  const from = Date.now();
  console.log(`${name}: ${does}`);
  const results = await measure.run(bench);
  for (const result of results) console.log(lineOf(result));
  console.log(`  in ${((Date.now() - from) / 1_000).toFixed(1)} s`);
  return { measure: name, does, results };
}

/** A measure without Think does not load it. */
function lazily(start: () => Promise<BenchWorker>): Pick<BenchWorker, "ask"> {
  let started: Promise<BenchWorker> | undefined;
  const ask = async (...request: Parameters<Ask>) => {
    started ??= start();
    return (await started).ask(...request);
  };
  return { ask: ask as Ask };
}

async function start(folder: string): Promise<BenchWorker> {
  const worker = await startWorker(path.join(import.meta.dirname, folder));
  workers.push(worker);
  const ask = async (name: string, args: unknown = {}) => {
    const response = await worker.fetch(`http://worker/${name}`, {
      method: "POST",
      body: JSON.stringify(args),
    });
    if (!response.ok) throw new Error(`${name} ${JSON.stringify(args)}: ${await response.text()}`);
    return response.json();
  };
  const inspectorUrl = await worker.inspectorUrl;
  if (!inspectorUrl) throw new Error("The runtime has no inspector");
  return { ask: ask as Ask, inspectorUrl };
}

function write(found: readonly Found[]): void {
  const seconds = (Date.now() - date.getTime()) / 1_000;
  const run = { ...about, seconds: Math.round(seconds), found };
  writeFileSync(path.join(import.meta.dirname, "results.md"), markdownOf(run));
  writeFileSync(path.join(import.meta.dirname, "results.json"), jsonOf(run));
}

function refuse(problem: string): never {
  console.error(problem);
  process.exit(2);
}
