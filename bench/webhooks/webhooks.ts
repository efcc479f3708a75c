/**
 * `npm run soak:webhooks`: sends deliveries, half of them duplicates, to `wrangler dev`, and kills its whole process group at
 * random moments. Counts outside of it what was lost, run twice or is stuck. Exit code 1 for any finding.
 *
 *   npm run soak:webhooks -- --deliveries 10000 --kills 20 --seed 7
 */

import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Runtime } from "../../examples/runtime.ts";
import {
  call,
  drive,
  endsAfter,
  numbersOf,
  reached,
  tell,
} from "../../test/acceptance/soak/driver.ts";
import { between, randomOf } from "../../test/acceptance/soak/random.ts";
import { type Evidence, FINDINGS, findingsOf, openIn, sentOf } from "./count.ts";
import { agentsOf, type Delivery, type Look, planOf, SECRET, SOURCES } from "./deliveries.ts";
import { Sender } from "./sender.ts";

const LOOK_MS = 2_000;
const SETTLE_MS = 180_000;
const LIMIT_MS = 3_600_000;
/** Deliveries whose rows are counted: the others go on when they are answered. */
const COUNTED = ["none", "sync"] as const;
/** Rows of a delivery with one call: two of the log, and its own effect. */
const MAX_ROWS = 3;
const MAX_DUPLICATE_ROWS = 1;

const given = numbersOf({ deliveries: 10_000, kills: 20, agents: 8, connections: 16 });
const { deliveries: count, kills, seed, connections } = given;
const runtime = new Runtime(fileURLToPath(new URL(".", import.meta.url).href), { SECRET });
const signal = endsAfter(LIMIT_MS);
const startedAt = Date.now();
let downMs = 0;
await drive({ destroy: () => runtime.destroy(), log: () => runtime.logTail(25) }, soak);

async function soak(): Promise<boolean> {
  console.log(`seed ${seed}: ${count} deliveries to ${given.agents} agents, ${kills} kills`);
  const agents = agentsOf(given.agents);
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
  const findings = findingsOf(evidence);
  console.log(`seed ${seed}: ${tell(findings, FINDINGS)}`);
  if (findings.length > 0) console.error(runtime.logTail(25));
  return findings.length === 0;
}

/** Rows that deliveries write which start no work that goes on: new ones of each sender, and their duplicates. */
async function rowsOfLog(): Promise<string[]> {
  const agent = `counted-${seed}`;
  const plan = SOURCES.flatMap((source) =>
    COUNTED.map((kind): Delivery => {
      return { source, kind, id: `counted-${kind}`, agent, delayMs: 0, again: [] };
    }),
  );
  const sender = new Sender(runtime.url, randomOf(seed, "counted"));
  // The first delivery of an agent creates the table.
  await sender.send({ ...(plan[0] as Delivery), id: "counted-first" });
  await call(runtime, "rows", agent, signal);
  const wrong: string[] = [];
  for (const max of [MAX_ROWS, MAX_DUPLICATE_ROWS]) {
    for (const delivery of plan) {
      await sender.send(delivery);
      const rows = await call<number>(runtime, "rows", agent, signal);
      const known = `${delivery.source}, ${delivery.kind}: ${rows} rows written, maximum ${max}`;
      if (rows > max) wrong.push(known);
    }
  }
  return [...wrong, ...sender.wrong];
}

/** Kills the machine when random shares of all deliveries were answered, and restarts it. */
async function killAtTimes(sender: Sender): Promise<void> {
  const random = randomOf(seed, "kills");
  const times = Array.from({ length: kills }, () => between(random, 1, count - connections));
  for (const [index, time] of times.sort((one, other) => one - other).entries()) {
    await reached(time, "answers", () => sender.answered, { signal });
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
    const looks = await Promise.all(
      agents.map((agent) => call<Look>(runtime, "look", agent, signal)),
    );
    const open = looks.flatMap((look) => look.workflows).filter((id) => !isComplete(workflows[id]));
    const statuses = await call<Record<string, string>>(runtime, "workflows", open, signal);
    Object.assign(workflows, statuses);
    const isDone = Object.values(workflows).every(isComplete);
    if ((isDone && looks.flatMap(openIn).length === 0) || Date.now() > until)
      return { looks, workflows };
    await delay(LOOK_MS, undefined, { signal });
  }
}

function isComplete(status: string | undefined): boolean {
  return status === "complete";
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

async function timed(work: () => Promise<void>): Promise<number> {
  const from = Date.now();
  await work();
  return Date.now() - from;
}
