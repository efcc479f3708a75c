/**
 * `npm run batches`: checks that an item of a large batch of `step.promptAll()` costs as much as one of a small batch,
 * and that a batch survives SIGKILL of the whole runtime. Times are compared within a run only.
 *
 *   node batches.ts --items 10000 --base 1000 --kills 3
 */

import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Runtime } from "../../examples/runtime.ts";
import { call, drive, endsAfter, numbersOf, reached } from "../../test/acceptance/soak/driver.ts";
import type { Batch, Outcome } from "./worker.ts";

const POLL_MS = 250;
const ASK_MS = 3_000;
const LIMIT_MS = 3_600_000;
/** An item takes some milliseconds. */
const BATCH_MS = 1_200_000;

const given = numbersOf({
  ...{ items: 10_000, base: 1_000, rounds: 2, kills: 3 },
  /** The largest ratio of the cost of an item in a large and in a small batch. CI allows more. */
  growth: 1.2,
});
const { items, base, rounds, kills } = given;

const runtime = new Runtime(fileURLToPath(new URL(".", import.meta.url).href));
const signal = endsAfter(LIMIT_MS);
await drive({ destroy: () => runtime.destroy(), log: () => runtime.logTail(25) }, run);

async function run(): Promise<boolean> {
  await runtime.start(signal);
  if (rounds > 0) {
    const grown = await growth();
    console.log(`an item of ${items} costs ${grown.toFixed(2)} times one of ${base}`);
    if (grown > given.growth) throw new Error(`More than ${given.growth} times`);
  }
  if (kills > 0) await killed(items);
  return true;
}

/** Waits until the workflow has ended. Polls rarely, because the local engine reads its whole log. Throws unless all answers are correct. */
async function outcomeOf(batch: Batch): Promise<Outcome> {
  type Status = { status: string; output?: Outcome; error?: unknown };
  for (const until = Date.now() + BATCH_MS; ; ) {
    const { status, output, error } = await call<Status>(runtime, "status", batch, signal);
    if (status === "complete" && output?.right === batch.items) return output;
    if (["complete", "errored", "terminated"].includes(status))
      throw new Error(`${status}: ${JSON.stringify(output ?? error)} of ${batch.items} items`);
    if (Date.now() > until) throw new Error(`${status} after ${BATCH_MS / 1_000} s.`);
    await sleep(ASK_MS, undefined, { signal });
  }
}

/** The cost of an item in milliseconds: processor time if it is known, otherwise time. */
async function timed(count: number): Promise<number> {
  const batch = { id: crypto.randomUUID(), items: count };
  const before = runtime.cpuMs;
  await call(runtime, "start", batch, signal);
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
  type Progress = { accepted: number; ended: number };
  const progress = () => call<Progress>(runtime, "progress", batch, signal);
  const endedNow = async () => (await progress()).ended;
  await call(runtime, "start", batch, signal);
  for (let kill = 1; kill <= kills; kill++) {
    const least = (count * kill) / (kills + 1);
    await reached(least, "ended items", endedNow, { pollMs: POLL_MS, signal });
    await runtime.kill();
    await runtime.start(signal);
    await call(runtime, "resume", batch, signal);
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
