/**
 * `npm run soak`: a random mix of all verbs on the local runtime, which is killed every few seconds. An independent model of
 * the requests judges the answers, the events outside of the runtime, and the state by public verbs. Exit code 1 for any finding.
 *
 *   npm run soak -- --seconds 180 --seed 7 --agents 20 --open 200 --settle 240
 */

import { Beats } from "./beats.ts";
import { Chaos } from "./chaos.ts";
import { Client } from "./client.ts";
import { drive, numbersOf } from "./driver.ts";
import { Followers } from "./followers.ts";
import type { Evidence } from "./judge/evidence.ts";
import { judge } from "./judge/judge.ts";
import { Load } from "./load.ts";
import { Machine } from "./machine.ts";
import { oneOf, randomOf } from "./random.ts";
import { Receiver } from "./receiver.ts";
import { report } from "./report.ts";
import { settled } from "./settle.ts";
import { HOOK_SECRET, isDisturbed, isNested, LANES } from "./words.ts";

/** The end of an agent's name: its host, or that of its root. */
const HOSTS = ["think", "agent", "chat", "object", "nested"] as const;

const HOSTS_AND_DISTURBED = HOSTS.length + 1;

const given = numbersOf({ seconds: 180, agents: 20, open: 200, settle: 240 });
const { seconds, seed, agents: agentCount, open, settle } = given;

const receiver = new Receiver(randomOf(seed, "receiver"));
const receiverUrl = await receiver.start();
const agents = nameAgents();
const machine = new Machine({ RECEIVER: receiverUrl, HOOK_SECRET, AGENTS: agents.join() });
await drive({ destroy: () => machine.destroy(), log: () => machine.log() }, soak);

async function soak(): Promise<boolean> {
  console.log(`seed ${seed}: ${open} things on ${agentCount} agents, killed for ${seconds} s`);
  const over = new AbortController();
  const ending = new AbortController();
  await machine.build();
  await machine.start(over.signal);
  const client = new Client(machine.url, over.signal);
  for (const host of HOSTS) {
    const count = agents.filter((name) => name.endsWith(host)).length;
    console.log(`  ${count} on ${host}`);
  }
  const followers = new Followers(client, over.signal);
  const load = new Load(client, receiver.records, randomOf(seed, "load"), { agents, followers });
  const beats = new Beats(client, randomOf(seed, "beats"), {
    agents,
    count: (verb) => load.count(verb),
  });
  const workflows = () => load.entries.flatMap(({ kind, id }) => (kind === "workflow" ? [id] : []));
  const chaos = new Chaos(machine, client, randomOf(seed, "chaos"), workflows);
  const followed = agents.filter((agent) => !isNested(agent) && !isDisturbed(agent));
  await Promise.all(followed.map((agent) => followers.followThread(agent, LANES[0])));
  for (const _ of followed) load.count("followThread");
  const loading = load.keep(open);
  const attending = load.attend(over.signal);
  const disturbing = load.disturb(over.signal);
  const beating = beats.act(ending.signal);
  await chaos.reign(Date.now() + seconds * 1_000, over.signal);
  load.stop();
  ending.abort();
  await Promise.all([loading, disturbing, beating]);
  await beats.end();
  // After the last kill no call reaches the agents until all has ended: they must wake by their alarms.
  await chaos.strike(over.signal);
  const openAtLast = load.open().length;
  const settledFrom = Date.now();
  const until = settledFrom + settle * 1_000;
  const state = await settled(
    { client, load, chaos },
    { agents, workflows, followers: followers.all, until, signal: over.signal },
  );
  const settleMs = Date.now() - settledFrom;
  load.end();
  over.abort();
  await attending;
  const evidence: Evidence = {
    ...state,
    entries: load.entries,
    records: receiver.records,
    acceptedMalformed: load.acceptedMalformed,
    refusedKeys: load.refusedKeys,
    problems: load.problems,
    followers: followers.all,
    beats: beats.all,
  };
  return report(judge(evidence), evidence, {
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

/** Every sixth one is disturbed: cleared, reset, and killed by its own tools and deliveries. */
function nameAgents(): string[] {
  const random = randomOf(seed, "hosts");
  const hosts = HOSTS.filter((host) => host !== "nested");
  return Array.from({ length: agentCount }, (_, index) =>
    index % HOSTS_AND_DISTURBED === HOSTS.length
      ? `d${index}-${oneOf(random, hosts)}`
      : `a${index}-${HOSTS[index % HOSTS_AND_DISTURBED]}`,
  );
}
