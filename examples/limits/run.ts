/** Submits turns of two tenants that share an account, and waits for their ends. With `crash` it kills the runtime meanwhile. */

import { setTimeout as sleep } from "node:timers/promises";
import { call, type Run } from "../runtime.ts";

const POLL_MS = 300;
const DESKS = ["acme-1", "acme-2", "acme-3", "acme-4"];
const OF_EACH = 10;
const OF_SMALL = 5;

type Turn = { status: string; completedAt?: number; cost?: number; error?: string };
type Account = { calls: number; refused: number };

/** Resolves with whether all turns have completed, no call was refused, and the small tenant was not kept waiting. */
export async function runLimits(run: Run): Promise<boolean> {
  const { runtime, crash, signal } = run;
  for (const desk of DESKS) await call(runtime, "turns", { tenant: "acme", desk, count: OF_EACH });
  await call(runtime, "turns", { tenant: "globex", desk: "globex-1", count: OF_SMALL });
  if (crash) {
    await sleep(2_000, undefined, { signal });
    await runtime.kill();
    console.log("  kill of the runtime while turns wait");
    await runtime.start(signal);
  }
  const small = await ended(run, ["globex-1"]);
  const large = await ended(run, DESKS);
  const account = await call<Account>(runtime, "account");
  const lastOfSmall = Math.max(...small.map(({ completedAt = Infinity }) => completedAt));
  const earlier = large.filter(({ completedAt = 0 }) => completedAt < lastOfSmall).length;
  const cost = [...small, ...large].reduce((sum, turn) => sum + (turn.cost ?? 0), 0);
  const summary = { ...account, acmeBeforeGlobex: earlier, dollars: Number(cost.toFixed(6)) };
  console.log(`limits: ${small.length + large.length} turns`, JSON.stringify(summary));
  const isCompleted = [...small, ...large].every(({ status }) => status === "completed");
  // First come, first served, the small tenant would be the last one.
  return isCompleted && account.refused === 0 && earlier < 0.75 * large.length && cost > 0;
}

async function ended({ runtime, signal }: Run, desks: readonly string[]): Promise<Turn[]> {
  for (;;) {
    signal.throwIfAborted();
    const all = await Promise.all(desks.map((desk) => call<Turn[]>(runtime, `turns/${desk}`)));
    const turns = all.flat();
    if (turns.every(({ status }) => status !== "pending" && status !== "running")) return turns;
    await sleep(POLL_MS, undefined, { signal });
  }
}
