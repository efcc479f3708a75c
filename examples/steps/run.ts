/** Runs the examples of the steps on a local runtime, and prints their results. With `crash` it kills the runtime three times. */

import { setTimeout as sleep } from "node:timers/promises";
import { call, type Run, type Runtime } from "../runtime.ts";

/** The params of each example, and the approval that it needs. */
export const STEPS: Readonly<Record<string, { params: object; grant?: object }>> = {
  prompt: { params: { report: "the printer is on fire" } },
  "prompt-all": { params: { reviews: ["lovely", "no", "very good indeed", "why", "yes", "hm"] } },
  approval: { params: { amount: 80 }, grant: { payload: { amount: 50 }, by: "ada" } },
  "agent-tool": { params: { topic: "durable execution" } },
  codemode: { params: { city: "Paris" }, grant: { by: "ada" } },
  "sleep-until-next": { params: {} },
};
const POLL_MS = 200;
const KILLS = 3;
/** How long the runtime runs before each kill: first during the first steps, then a little longer each time. */
const LIFE_MS = 700;

type Started = { readonly name: string; readonly id: string };
type State = { status: string; output?: unknown; error?: unknown };

/** Resolves with whether all completed. */
export async function runSteps(names: readonly string[], run: Run): Promise<boolean> {
  const started = await Promise.all(names.map((name) => start(name, run)));
  if (run.crash) await crash(run);
  const ends = await Promise.all(started.map((one) => end(one, run)));
  return ends.every((status) => status === "complete");
}

async function start(name: string, { runtime }: Run): Promise<Started> {
  const { params } = exampleOf(name);
  const { id } = await call<{ id: string }>(runtime, `run/${name}`, params);
  return { name, id };
}

async function crash({ runtime, signal }: Run): Promise<void> {
  for (let kill = 1; kill <= KILLS; kill++) {
    await sleep(LIFE_MS * kill);
    await runtime.kill();
    console.log(`  kill ${kill} of the runtime`);
    await runtime.start(signal);
    await runtime.resume(signal);
  }
}

/** Waits until the example ends, and returns its status. */
async function end({ name, id }: Started, { runtime, signal }: Run): Promise<string> {
  const { grant } = exampleOf(name);
  for (;;) {
    signal.throwIfAborted();
    const { status, output, error } = await call<State>(runtime, `run/${name}/${id}`);
    if (["complete", "errored", "terminated"].includes(status)) {
      console.log(`${name}: ${status}`, JSON.stringify(output ?? error));
      return status;
    }
    if (grant) await grantFor(runtime, id, grant);
    await sleep(POLL_MS, undefined, { signal });
  }
}

async function grantFor(runtime: Runtime, workflowId: string, grant: object): Promise<void> {
  type Waiting = { approvalId: string; title?: string; workflow: { id: string } };
  const { items } = await call<{ items: readonly Waiting[] }>(runtime, "approvals");
  for (const waiting of items) {
    if (waiting.workflow.id !== workflowId) continue;
    console.log(`  approved "${waiting.title}"`);
    await call(runtime, `approvals/${waiting.approvalId}`, grant);
  }
}

function exampleOf(name: string) {
  return STEPS[name] as (typeof STEPS)[string];
}
