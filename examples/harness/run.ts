/** Submits a turn, and waits for its end. With `crash` it kills the runtime while the harness runs the turn. */

import { setTimeout as sleep } from "node:timers/promises";
import { call, type Run } from "../runtime.ts";

const POLL_MS = 200;
/** The model answers after a tool call and four seconds. */
const LIFE_MS = 1_000;
const KILLS = 2;

type Turn = { status: string; output?: unknown; error?: string; attempts: number };

/** Resolves with whether the turn has completed, with one note. */
export async function runHarness({ runtime, crash, signal }: Run): Promise<boolean> {
  await call(runtime, "turns/turn-1", { text: "Note that turns are durable." });
  for (let kill = 1; crash && kill <= KILLS; kill++) {
    await sleep(LIFE_MS);
    await runtime.kill();
    console.log(`  kill ${kill} of the runtime`);
    await runtime.start(signal);
    // As a client does that has got no answer.
    await call(runtime, "turns/turn-1", { text: "Note that turns are durable." });
  }
  for (;;) {
    signal.throwIfAborted();
    const { status, output, error, attempts } = await call<Turn>(runtime, "turns/turn-1");
    if (status !== "pending" && status !== "running") {
      const notes = await call<object[]>(runtime, "notes");
      console.log(`harness: ${status}`, JSON.stringify({ output, error, attempts, notes }));
      return status === "completed" && notes.length === 1;
    }
    await sleep(POLL_MS, undefined, { signal });
  }
}
