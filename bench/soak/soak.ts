/**
 * `npm run soak`: runs some hundred workflows, turns, webhooks and schedules on the local runtime, kills it at random times
 * every few seconds, waits for the ends, and counts lost, stuck and repeated work, and alarms. Exit code 1 for any finding.
 *
 *   npm run soak -- --seconds 180 --seed 7 --agents 20 --open 200 --settle 120
 */

import { randomInt } from "node:crypto";
import { parseArgs } from "node:util";
import { Chaos } from "./chaos.ts";
import { Client } from "./client.ts";
import { findingsOf } from "./count.ts";
import { Load } from "./load.ts";
import { Machine } from "./machine.ts";
import { oneOf, randomOf } from "./random.ts";
import { Receiver } from "./receiver.ts";
import { report } from "./report.ts";
import { lastLook, settled } from "./settle.ts";
import { HOOK_SECRET } from "./words.ts";

/** What the agents are built on: the end of their names. */
const HOSTS = ["think", "agent", "chat"] as const;
/** Disturbed ones run no workflows: those of a plain object are another class, whose steps have no agent tools. */
const DISTURBED = [...HOSTS, "object"] as const;

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "180" },
    seed: { type: "string", default: String(randomInt(2 ** 31)) },
    agents: { type: "string", default: "20" },
    open: { type: "string", default: "200" },
    settle: { type: "string", default: "120" },
  },
});
const [seconds, seed, agentCount, open, settle] = (
  ["seconds", "seed", "agents", "open", "settle"] as const
).map((option) => wholeNumber(option, values[option])) as [number, number, number, number, number];

const receiver = new Receiver(randomOf(seed, "receiver"));
const receiverUrl = await receiver.start();
const machine = new Machine({ RECEIVER: receiverUrl, HOOK_SECRET });
process.on("exit", () => machine.destroy());
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(130));
try {
  process.exitCode = await soak();
} catch (error) {
  console.error(error, `\nThe end of the runtime's log:\n${machine.log().slice(-4_000)}`);
  process.exitCode = 1;
} finally {
  machine.destroy();
  receiver.stop();
}

async function soak(): Promise<number> {
  console.log(`seed ${seed}: ${open} things on ${agentCount} agents, killed for ${seconds} s`);
  const over = new AbortController();
  await machine.build();
  await machine.start(over.signal);
  const client = new Client(machine.url, over.signal);
  const drawn = randomOf(seed, "hosts");
  // Every fifth one is disturbed: cleared, reset, and killed by its own tools and deliveries.
  const agents = Array.from({ length: agentCount }, (_, index) =>
    index % 5 === 4 ? `d${index}-${oneOf(drawn, DISTURBED)}` : `a${index}-${oneOf(drawn, HOSTS)}`,
  );
  for (const host of DISTURBED) {
    const count = agents.filter((name) => name.endsWith(host)).length;
    console.log(`  ${count} on perdure/${host}`);
  }
  const load = new Load(client, receiver.records, randomOf(seed, "load"), agents);
  const workflows = () => load.entries.flatMap(({ kind, id }) => (kind === "workflow" ? [id] : []));
  const chaos = new Chaos(machine, client, randomOf(seed, "chaos"), workflows);
  const loading = load.keep(open);
  const granting = load.grant(over.signal);
  const disturbing = load.disturb(over.signal);
  await chaos.reign(Date.now() + seconds * 1_000, over.signal);
  load.stop();
  await Promise.all([loading, disturbing]);
  await Promise.all(agents.map((agent) => client.insist(agent, "pauseTasks")));
  // After the last kill no call reaches the agents: they must wake by their alarms.
  await chaos.strike(over.signal);
  const openAtLast = load.open().length;
  const settledFrom = Date.now();
  await settled(load, chaos, { until: settledFrom + settle * 1_000, signal: over.signal });
  const settleMs = Date.now() - settledFrom;
  const evidence = {
    entries: load.entries,
    records: receiver.records,
    acceptedMalformed: load.acceptedMalformed,
    ...(await lastLook(client, agents, workflows())),
  };
  over.abort();
  await granting;
  const isFine = report(findingsOf(evidence), evidence, {
    seed,
    kills: chaos.kills,
    downMs: chaos.downMs,
    openAtLast,
    settleMs,
    refusals: receiver.refusals,
    asked: load.asked,
    failures: client.failures,
    log: machine.log(),
  });
  return isFine ? 0 : 1;
}

function wholeNumber(option: string, text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= 0) return value;
  console.error(`--${option} is ${JSON.stringify(text)}; expected a whole number, e.g. 60.`);
  process.exit(2);
}
