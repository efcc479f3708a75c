/** Triggers the nightly task, and waits for the report. With `crash` it kills the runtime while the model writes. */

import { setTimeout as sleep } from "node:timers/promises";
import { call, type Run } from "../runtime.ts";

const POLL_MS = 200;
const LIFE_MS = 1_000;
const KILLS = 2;

/** Resolves with whether there is one report. */
export async function runReport({ runtime, crash, signal }: Run): Promise<boolean> {
  await call(runtime, "nightly/today", {});
  for (let kill = 1; crash && kill <= KILLS; kill++) {
    await sleep(LIFE_MS);
    await runtime.kill();
    console.log(`  kill ${kill} of the runtime`);
    await runtime.start(signal);
    await runtime.resume(signal);
    // As a client does that has got no answer.
    await call(runtime, "nightly/today", {});
  }
  for (;;) {
    signal.throwIfAborted();
    const reports = await call<object[]>(runtime, "reports");
    if (reports.length > 0) {
      console.log(
        `report: ${reports.length === 1 ? "complete" : "twice"}`,
        JSON.stringify(reports),
      );
      return reports.length === 1;
    }
    await sleep(POLL_MS, undefined, { signal });
  }
}
