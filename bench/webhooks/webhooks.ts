/**
 * `npm run soak:webhooks`: sends deliveries, half of them duplicates, to `wrangler dev`, and kills its whole process group at
 * random moments. Counts outside of it what was lost, run twice or is stuck. Exit code 1 for any finding.
 *
 *   npm run soak:webhooks -- --deliveries 10000 --kills 20 --seed 7
 */

import { randomInt } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Runtime } from "../../examples/runtime.ts";
import { between, randomOf } from "../soak/random.ts";
import { type Evidence, FINDINGS, findingsOf, openIn, sentOf } from "./count.ts";
import {
  agentsOf,
  type Delivery,
  KINDS,
  type Look,
  planOf,
  SECRET,
  SOURCES,
} from "./deliveries.ts";
import { Sender } from "./sender.ts";

const POLL_MS = 20;
const LOOK_MS = 2_000;
const SETTLE_MS = 180_000;
const LIMIT_MS = 3_600_000;
/** Rows of the log for a delivery with one call; each further call has one more. */
const MAX_ROWS = 2;
const MOST_SHOWN = 20;

const { values } = parseArgs({
  options: {
    deliveries: { type: "string", default: "10000" },
    kills: { type: "string", default: "20" },
    seed: { type: "string", default: String(randomInt(2 ** 31)) },
    agents: { type: "string", default: "8" },
    connections: { type: "string", default: "16" },
  },
});
const [count, kills, seed, agentCount, connections] = (
  ["deliveries", "kills", "seed", "agents", "connections"] as const
).map((option) => wholeNumber(option, values[option])) as [number, number, number, number, number];

const runtime = new Runtime(fileURLToPath(new URL(".", import.meta.url).href), { SECRET });
process.on("exit", () => runtime.destroy());
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(130));
const signal = AbortSignal.timeout(LIMIT_MS);
const startedAt = Date.now();
let downMs = 0;
try {
  process.exitCode = await soak();
} catch (error) {
  console.error(error, `\nThe end of the runtime's log:\n${runtime.logTail(25)}`);
  process.exitCode = 1;
} finally {
  runtime.destroy();
}
process.exit();

async function soak(): Promise<number> {
  console.log(`seed ${seed}: ${count} deliveries to ${agentCount} agents, ${kills} kills`);
  const agents = agentsOf(agentCount);
  const plan = planOf(randomOf(seed, "plan"), count, agents);
  await runtime.start(signal);
  const rows = await rowsOfLog();
  const sender = new Sender(runtime.url, randomOf(seed, "sender"));
  const killing = killAtTimes(sender);
  const [sendMs] = await Promise.all([
    timed(() => sender.sendAll(plan, connections)),
    // A kill that comes after the last answer is a kill of what was accepted.
    killing,
  ]);
  const records = [...sender.records.values()];
  const settledFrom = Date.now();
  const { looks, workflows } = await settled(agents);
  const settleMs = Date.now() - settledFrom;
  const { invalid, wrong } = sender;
  const evidence: Evidence = { records, looks, workflows, invalid, wrong: [...wrong, ...rows] };
  tellOfLoad(evidence, { sendMs, settleMs });
  return report(evidence);
}

/** Rows that the log writes: for new deliveries of each sender and kind, and for their duplicates. */
async function rowsOfLog(): Promise<string[]> {
  const agent = `counted-${seed}`;
  const plan = SOURCES.flatMap((source) =>
    KINDS.map((kind): Delivery => {
      return { source, kind, id: `counted-${kind}`, agent, delayMs: 0, again: [] };
    }),
  );
  const sender = new Sender(runtime.url, randomOf(seed, "counted"));
  // The first delivery of an agent creates the table.
  await sender.send({ ...(plan[0] as Delivery), id: "counted-first" });
  await call("rows", agent);
  const wrong: string[] = [];
  for (const most of [MAX_ROWS, 1]) {
    for (const delivery of plan) {
      await sender.send(delivery);
      const rows = await call<number>("rows", agent);
      // A second call, and the end of both.
      const isMore = rows > most + (most === MAX_ROWS && delivery.kind === "two" ? 2 : 0);
      const known = `${delivery.source}, ${delivery.kind}: ${rows} rows of the log, at most ${most}`;
      if (isMore) wrong.push(known);
    }
  }
  return [...wrong, ...sender.wrong];
}

/** Kills the machine when random shares of all deliveries were answered, and restarts it. */
async function killAtTimes(sender: Sender): Promise<void> {
  const random = randomOf(seed, "kills");
  const times = Array.from({ length: kills }, () => between(random, 1, count - connections));
  for (const [index, time] of times.sort((one, other) => one - other).entries()) {
    while (sender.answered < time) await delay(POLL_MS, undefined, { signal });
    await delay(between(random, 0, 300));
    const killedAt = Date.now();
    const dying = runtime.kill();
    sender.isHeld = true;
    await dying;
    await runtime.start(signal);
    sender.isHeld = false;
    downMs += Date.now() - killedAt;
    const seconds = ((Date.now() - killedAt) / 1_000).toFixed(1);
    console.log(`  kill ${index + 1} after ${sender.answered} answers, up again in ${seconds} s`);
    await sender.afterKill();
  }
}

/** Waits until all work has ended, or for a time limit. */
async function settled(agents: readonly string[]): Promise<Pick<Evidence, "looks" | "workflows">> {
  const until = Date.now() + SETTLE_MS;
  const workflows: Record<string, string> = {};
  for (;;) {
    const looks = await Promise.all(agents.map((agent) => call<Look>("look", agent)));
    const open = looks.flatMap((look) => look.workflows).filter((id) => !isComplete(workflows[id]));
    Object.assign(workflows, await call<Record<string, string>>("workflows", open));
    const isDone = Object.values(workflows).every(isComplete);
    if ((isDone && looks.flatMap(openIn).length === 0) || Date.now() > until)
      return { looks, workflows };
    await delay(LOOK_MS, undefined, { signal });
  }
}

function isComplete(status: string | undefined): boolean {
  return status === "complete";
}

async function call<T>(name: string, args: unknown): Promise<T> {
  const init = { method: "POST", body: JSON.stringify(args), signal };
  const response = await fetch(`${runtime.url}/${name}`, init);
  if (response.ok) return (await response.json()) as T;
  throw new Error(`${name}: ${response.status} ${await response.text()}`);
}

function tellOfLoad(
  { records, looks, invalid }: Evidence,
  { sendMs, settleMs }: { sendMs: number; settleMs: number },
): void {
  const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);
  const verdicts = records.flatMap((record) => record.verdicts);
  const said = (verdict: string) => verdicts.filter((one) => one === verdict).length;
  const refused = (status: number) => sum(records.map((record) => record.refused.get(status) ?? 0));
  const effects = looks.flatMap((look) => look.effects);
  const repeats = (name: string) =>
    sum(effects.map(({ what, times }) => (what.startsWith(name) ? times - 1 : 0)));
  const seconds = (ms: number) => (ms / 1_000).toFixed(0);
  console.log(
    [
      `${kills} kills, ${seconds(downMs / Math.max(kills, 1))} s down each; sent in ${seconds(sendMs)} s, settled in ${seconds(settleMs)} s, ${seconds(Date.now() - startedAt)} s in all`,
      `${sum(records.map(sentOf))} requests for ${records.length} deliveries: ${said("accepted")} accepted, ${said("duplicate")} duplicates, ${said("filtered")} filtered; ` +
        `${refused(429)} without room (429), ${refused(503)} unreachable (503), ${sum(records.map(({ lost }) => lost))} without an answer`,
      `${invalid.length} forged or too large; ${sum(looks.map(({ log }) => log.length))} rows in the logs, ` +
        `${sum(looks.map(({ submissions }) => submissions.length))} submissions, ${sum(looks.map((look) => look.workflows.length))} workflows`,
      `ran again, as is allowed: ${repeats("async")} asynchronous methods, ${repeats("workflow")} steps of workflows`,
    ].join("\n"),
  );
}

/** Returns the exit code. */
function report(evidence: Evidence): number {
  const findings = findingsOf(evidence);
  const counts = FINDINGS.map((kind) => {
    const own = findings.filter((finding) => finding.kind === kind);
    for (const { id, what } of own.slice(0, MOST_SHOWN)) console.error(`${kind} ${id}: ${what}`);
    if (own.length > MOST_SHOWN) console.error(`... and ${own.length - MOST_SHOWN} more ${kind}`);
    return `${kind} ${own.length}`;
  });
  if (findings.length > 0) console.error(runtime.logTail(25));
  console.log(`seed ${seed}: ${counts.join(", ")}`);
  return findings.length > 0 ? 1 : 0;
}

async function timed(work: () => Promise<void>): Promise<number> {
  const from = Date.now();
  await work();
  return Date.now() - from;
}

function wholeNumber(option: string, text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= 0) return value;
  console.error(`--${option} is ${JSON.stringify(text)}; expected a whole number, e.g. 60.`);
  process.exit(2);
}
