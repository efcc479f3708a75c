/** Submits a turn, and waits for its end. With `crash` it kills the runtime in the second and in the third step. */

import { setTimeout as sleep } from "node:timers/promises";
import { call, type Run } from "../runtime.ts";

const POLL_MS = 200;
const STEPS = ["reserve", "pay", "pack"];
const KILLED_IN = ["pay", "pack"];

type Act = { name: string; key: string };
type Order = { turn: { status: string; output?: unknown; error?: string }; acts: Act[] };

/** Resolves with whether the turn has completed, and repeated only the steps that a kill had interrupted. */
export async function runDurableTool(run: Run): Promise<boolean> {
  const { runtime, crash, signal } = run;
  await call(runtime, "orders/7", {});
  for (const step of crash ? KILLED_IN : []) {
    await until(run, ({ acts }) => acts.some(({ name }) => name === step));
    await runtime.kill();
    console.log(`  kill of the runtime in the step "${step}"`);
    await runtime.start(signal);
  }
  const { turn, acts } = await until(
    run,
    ({ turn: { status } }) => status !== "pending" && status !== "running",
  );
  console.log(`durable-tool: ${turn.status}`, JSON.stringify({ output: turn.output, acts }));
  return turn.status === "completed" && isAsExpected(acts, crash ? KILLED_IN.length : 0);
}

/** Each step has one key and ran in its order, and each kill has repeated at most the step that it interrupted. */
function isAsExpected(acts: readonly Act[], kills: number): boolean {
  const names = new Set(acts.map(({ name }) => name));
  const keys = new Set(acts.map(({ key }) => key));
  const isInOrder = String([...names]) === String(STEPS);
  return isInOrder && keys.size === STEPS.length && acts.length <= STEPS.length + kills;
}

async function until({ runtime, signal }: Run, isSo: (order: Order) => boolean): Promise<Order> {
  for (;;) {
    signal.throwIfAborted();
    const order = await call<Order>(runtime, "orders/7");
    if (isSo(order)) return order;
    await sleep(POLL_MS, undefined, { signal });
  }
}
