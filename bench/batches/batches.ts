/**
 * `npm run batches`: checks that an item of a large batch of `step.promptAll()` costs as much as one of a small batch,
 * and that a batch survives SIGKILL of the whole runtime. Times are compared within a run only.
 *
 *   node batches.ts --items 10000 --base 1000 --kills 3
 */

import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Runtime } from "../../examples/runtime.ts";
import type { Batch, Outcome } from "./worker.ts";

const POLL_MS = 250;
const ASK_MS = 3_000;
const LIMIT_MS = 3_600_000;
const { values } = parseArgs({
  options: {
    items: { type: "string", default: "10000" },
    base: { type: "string", default: "1000" },
    rounds: { type: "string", default: "2" },
    kills: { type: "string", default: "3" },
    /** The largest ratio of the cost of an item in a large and in a small batch. CI allows more. */
    growth: { type: "string", default: "1.2" },
  },
});
const [items, base, rounds, kills, mostGrowth] = (
  ["items", "base", "rounds", "kills", "growth"] as const
).map((option) => Number(values[option])) as [number, number, number, number, number];

const runtime = new Runtime(fileURLToPath(new URL(".", import.meta.url).href));
process.on("exit", () => runtime.destroy());
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(130));
const signal = AbortSignal.timeout(LIMIT_MS);

async function call<T>(verb: string, body: object): Promise<T> {
  const response = await fetch(`${runtime.url}/${verb}`, {
    method: "POST",
    body: JSON.stringify(body),
    signal,
  });
  if (!response.ok) throw new Error(`${verb}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

/** Waits until the workflow has ended. Polls rarely, because the local engine reads its whole log. Throws unless all answers are correct. */
async function outcomeOf(batch: Batch): Promise<Outcome> {
  for (;;) {
    const { status, output, error } = await call<{
      status: string;
      output?: Outcome;
      error?: unknown;
    }>("status", batch);
    if (status === "complete" && output?.right === batch.items) return output;
    if (["complete", "errored", "terminated"].includes(status))
      throw new Error(`${status}: ${JSON.stringify(output ?? error)} of ${batch.items} items`);
    await sleep(ASK_MS, undefined, { signal });
  }
}

/** The cost of an item in milliseconds: processor time if it is known, otherwise time. */
async function timed(count: number): Promise<number> {
  const batch = { id: crypto.randomUUID(), items: count };
  const before = runtime.cpuMs;
  await call("start", batch);
  const { ms } = await outcomeOf(batch);
  const cpu = before === undefined ? undefined : (runtime.cpuMs ?? 0) - before;
  const each = (total: number) => (total / count).toFixed(2);
  const ofCpu = cpu === undefined ? "" : `, ${each(cpu)} ms of processor time`;
  console.log(`${count} items: ${each(ms)} ms each${ofCpu}`);
  return (cpu ?? ms) / count;
}

/** Kills the runtime when the next part of a batch has ended. */
async function killed(count: number): Promise<void> {
  const batch = { id: crypto.randomUUID(), items: count };
  const progress = () => call<{ accepted: number; ended: number }>("progress", batch);
  await call("start", batch);
  for (let kill = 1; kill <= kills; kill++) {
    while ((await progress()).ended < (count * kill) / (kills + 1)) {
      await sleep(POLL_MS, undefined, { signal });
    }
    await runtime.kill();
    await runtime.start(signal);
    await call("resume", batch);
    console.log(`kill ${kill}: ${JSON.stringify(await progress())}`);
  }
  await outcomeOf(batch);
  const { accepted, ended } = await progress();
  console.log(`${count} items, ${kills} kills: ${accepted} submissions, ${ended} completed`);
  if (accepted !== count || ended !== count) throw new Error("A submission was lost or made twice");
}

/** The ratio of the cost of an item in a large and in a small batch. */
async function growth(): Promise<number> {
  // The first batch of a runtime includes compilation.
  await timed(base);
  const small: number[] = [];
  const large: number[] = [];
  for (let round = 0; round < rounds; round++) {
    small.push(await timed(base));
    large.push(await timed(items));
    small.push(await timed(base));
  }
  return mean(large) / mean(small);
}

function mean(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
}

try {
  await runtime.start(signal);
  if (rounds > 0) {
    const grown = await growth();
    console.log(`an item of ${items} costs ${grown.toFixed(2)} times one of ${base}`);
    if (grown > mostGrowth) throw new Error(`More than ${mostGrowth} times`);
  }
  if (kills > 0) await killed(items);
} catch (error) {
  console.error(error, `\nThe end of the runtime's log:\n${runtime.logTail(25)}`);
  process.exitCode = 1;
} finally {
  runtime.destroy();
}
process.exit();
