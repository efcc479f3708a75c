/**
 * Runs the examples of the steps on a local runtime and prints their results: `npm run examples`, or some of them by name.
 * With `--crash` it kills the runtime three times meanwhile, and the runtime continues from disk. Exit code 1 when an example
 * does not end as expected.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Runtime } from "../runtime.ts";

/** The params of each example, and the approval that it needs. */
const EXAMPLES: Readonly<Record<string, { params: object; grant?: object }>> = {
  prompt: { params: { report: "the printer is on fire" } },
  "prompt-all": { params: { reviews: ["lovely", "no", "very good indeed", "why", "yes", "hm"] } },
  approval: { params: { amount: 80 }, grant: { payload: { amount: 50 }, by: "ada" } },
  "agent-tool": { params: { topic: "durable execution" } },
  codemode: { params: { city: "Paris" }, grant: { by: "ada" } },
  "sleep-until-next": { params: {} },
};
const TIMEOUT_MS = 240_000;
const POLL_MS = 200;
const KILLS = 3;
/** How long the runtime runs before each kill: first during the first steps, then a little longer each time. */
const LIFE_MS = 700;

type Started = { readonly name: string; readonly id: string };
type State = { status: string; output?: unknown; error?: unknown };

const { values, positionals } = parseArgs({
  options: { crash: { type: "boolean", default: false } },
  allowPositionals: true,
});
const unknown = positionals.filter((name) => !(name in EXAMPLES));
if (unknown.length > 0) {
  const known = Object.keys(EXAMPLES).join(", ");
  console.error(`No such example: ${unknown.join(", ")}. There are ${known}.`);
  process.exit(2);
}
const runtime = new Runtime(fileURLToPath(new URL(".", import.meta.url).href));
process.on("exit", () => runtime.destroy());
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(130));
try {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  await runtime.start(signal);
  const names = positionals.length > 0 ? positionals : Object.keys(EXAMPLES);
  const started = await Promise.all(names.map(start));
  if (values.crash) await crash(started, signal);
  const ends = await Promise.all(started.map((one) => end(one, signal)));
  process.exitCode = ends.every((status) => status === "complete") ? 0 : 1;
} catch (error) {
  console.error(error, `\nThe end of the runtime's log:\n${runtime.logTail(25)}`);
  process.exitCode = 1;
} finally {
  runtime.destroy();
}

async function start(name: string): Promise<Started> {
  const { params } = exampleOf(name);
  const { id } = await call<{ id: string }>(`run/${name}`, params);
  return { name, id };
}

async function crash(started: readonly Started[], signal: AbortSignal): Promise<void> {
  for (let kill = 1; kill <= KILLS; kill++) {
    await sleep(LIFE_MS * kill);
    await runtime.kill();
    console.log(`  kill ${kill} of the runtime`);
    await runtime.start(signal);
    for (const { name, id } of started) await call(`run/${name}/${id}`, {});
  }
}

/** Waits until the example ends, and returns its status. */
async function end({ name, id }: Started, signal: AbortSignal): Promise<string> {
  const { grant } = exampleOf(name);
  for (;;) {
    signal.throwIfAborted();
    const { status, output, error } = await call<State>(`run/${name}/${id}`);
    if (["complete", "errored", "terminated"].includes(status)) {
      console.log(`${name}: ${status}`, JSON.stringify(output ?? error));
      return status;
    }
    if (grant) await grantFor(id, grant);
    await sleep(POLL_MS, undefined, { signal });
  }
}

async function grantFor(workflowId: string, grant: object): Promise<void> {
  type Waiting = { approvalId: string; title?: string; workflow: { id: string } };
  for (const waiting of await call<Waiting[]>("approvals")) {
    if (waiting.workflow.id !== workflowId) continue;
    console.log(`  approved "${waiting.title}"`);
    await call(`approvals/${waiting.approvalId}`, grant);
  }
}

async function call<T>(path: string, body?: object): Promise<T> {
  const init = body && { method: "POST", body: JSON.stringify(body) };
  const response = await fetch(`${runtime.url}/${path}`, init);
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

function exampleOf(name: string) {
  return EXAMPLES[name] as (typeof EXAMPLES)[string];
}
