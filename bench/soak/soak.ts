/**
 * `npm run soak`: runs some hundred workflows, turns, webhooks and schedules on the local runtime, kills it at random times
 * every few seconds, waits for the ends, and counts lost, stuck and repeated work, and alarms. Exit code 1 for any finding.
 *
 *   npm run soak -- --seconds 180 --seed 7 --agents 20 --open 200 --settle 120
 */

import { Chaos } from "./chaos.ts";
import { Client } from "./client.ts";
import { findingsOf } from "./count.ts";
import { drive, numbersOf } from "./driver.ts";
import { Load } from "./load.ts";
import { Machine } from "./machine.ts";
import { oneOf, randomOf } from "./random.ts";
import { Receiver } from "./receiver.ts";
import { report } from "./report.ts";
import { lastLook, settled } from "./settle.ts";
import { HOOK_SECRET, isDisturbed } from "./words.ts";

/** What the agents are built on: the end of their names. */
const HOSTS = ["think", "agent", "chat"] as const;
/** Disturbed ones run no workflows: those of a plain object are another class, whose steps have no agent tools. */
const DISTURBED = [...HOSTS, "object"] as const;

const given = numbersOf({ seconds: 180, agents: 20, open: 200, settle: 120 });
const { seconds, seed, agents: agentCount, open, settle } = given;

const receiver = new Receiver(randomOf(seed, "receiver"));
const receiverUrl = await receiver.start();
const machine = new Machine({ RECEIVER: receiverUrl, HOOK_SECRET });
await drive({ destroy: () => machine.destroy(), log: () => machine.log() }, soak);

async function soak(): Promise<boolean> {
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
  // A workflow that its binding has terminated leaves its approval open until somebody decides it.
  const withWorkflows = agents.filter((agent) => !isDisturbed(agent));
  await Promise.all(withWorkflows.map((agent) => client.insist(agent, "grantAll")));
  const evidence = {
    entries: load.entries,
    records: receiver.records,
    acceptedMalformed: load.acceptedMalformed,
    ...(await lastLook(client, agents, workflows())),
  };
  over.abort();
  await granting;
  return report(findingsOf(evidence), evidence, {
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
}
