/**
 * `npm run soak:limits`: 200 agents share an account at a provider, which counts and answers 429 above its limits. Kills the
 * runtime after random numbers of requests. Counts answers 429 after the first minute, and turns that were lost, failed or run
 * twice. Exit code 1 for any finding.
 *
 *   npm run soak:limits -- --turns 10 --kills 10 --seed 7
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
import { type Evidence, FINDINGS, findingsOf, openIn } from "./count.ts";
import { Provider } from "./provider.ts";
import type { Allowed, Look, Turn } from "./words.ts";

const LOOK_MS = 2_000;
const TOLD_MS = 10_000;
const MINUTE_MS = 60_000;
/** After the time that the limit alone takes. */
const SETTLE_MS = 180_000;
const CALLS_OF_TURN = 2;
/** A kill comes so long after a number of requests: during them, or while all turns wait for the next minute. */
const KILL_AFTER_MS = [
  [0, 1_000],
  [5_000, 45_000],
] as const;

const given = numbersOf({ objects: 200, turns: 10, kills: 10, requests: 600 });
const { objects, kills, requests: requestsPerMinute, seed } = given;
const allowed: Allowed = {
  requestsPerMinute,
  // The first call of an agent is estimated by far more than it uses.
  tokensPerMinute: requestsPerMinute * 2_500,
};
const provider = new Provider(allowed, randomOf(seed, "provider"));
const PROVIDER = await provider.start();
const folder = fileURLToPath(new URL(".", import.meta.url).href);
const runtime = new Runtime(folder, { PROVIDER, ALLOWED: Object.values(allowed).join() });
const turns = Array.from({ length: objects * given.turns }, (_, index): Turn => {
  const agent = index % objects;
  return { agent: `agent-${agent}`, id: `t${agent}-${Math.floor(index / objects)}` };
});
const agents = [...new Set(turns.map(({ agent }) => agent))];
const requests = turns.length * CALLS_OF_TURN;
/** How long the turns take by the limit alone, and the minute after a kill in which its calls count. */
const leastMs = (requests / requestsPerMinute + kills) * MINUTE_MS;
const signal = endsAfter(leastMs + 2 * SETTLE_MS);
await drive({ destroy: () => runtime.destroy(), log: () => runtime.logTail(25) }, soak);

async function soak(): Promise<boolean> {
  const { tokensPerMinute } = allowed;
  console.log(
    `seed ${seed}: ${turns.length} turns of ${objects} agents, ${requestsPerMinute} requests and ${tokensPerMinute} tokens a minute, ${kills} kills`,
  );
  await runtime.start(signal);
  await call(runtime, "submit", turns, signal);
  const from = Date.now();
  await killAtTimes();
  const looks = await settled(from + leastMs + SETTLE_MS);
  const firstAt = provider.taken[0] ?? from;
  const refusals = provider.refusals.map(({ at, why }) => ({ afterMs: at - firstAt, why }));
  tellOfLoad(looks, refusals);
  const findings = findingsOf({ turns, looks, refusals });
  console.log(`seed ${seed}: ${tell(findings, FINDINGS)}`);
  if (findings.length > 0) console.error(runtime.logTail(25));
  return findings.length === 0;
}

/** Kills the machine after random numbers of requests, and restarts it. */
async function killAtTimes(): Promise<void> {
  const random = randomOf(seed, "kills");
  for (let kill = 0; kill < kills; kill++) {
    // One in each part of them.
    const least = Math.floor(((kill + random()) / kills) * requests);
    await reached(least, "requests", () => provider.taken.length, { signal });
    const [from, to] = KILL_AFTER_MS[kill % 2] ?? [0, 0];
    await delay(between(random, from, to), undefined, { signal });
    const killedAt = Date.now();
    await runtime.kill();
    await runtime.start(signal);
    const seconds = ((Date.now() - killedAt) / 1_000).toFixed(1);
    console.log(
      `  kill ${kill + 1} after ${provider.taken.length} requests, up again in ${seconds} s`,
    );
  }
}

/** Waits until all turns have ended, or for a time limit. */
async function settled(until: number): Promise<Look[]> {
  for (let toldAt = 0; ; ) {
    const looks = await call<Look[]>(runtime, "look", agents, signal);
    if (Date.now() - toldAt > TOLD_MS) {
      toldAt = Date.now();
      const { taken, refusals } = provider;
      console.log(
        `  ${openIn(looks)} turns open, ${taken.length} requests, ${refusals.length} refused`,
      );
    }
    if (openIn(looks) === 0 || Date.now() > until) return looks;
    await delay(LOOK_MS, undefined, { signal });
  }
}

function tellOfLoad(looks: readonly Look[], refusals: Evidence["refusals"]): void {
  const { taken, most } = provider;
  const seconds = ((taken.at(-1) ?? 0) - (taken[0] ?? 0)) / 1_000;
  const attempts = looks.flatMap((look) => look.submissions).map((one) => one.attempts);
  const repeated = attempts.filter((count) => count > 1).length;
  console.log(
    [
      `${taken.length} requests in ${seconds.toFixed(0)} s, ${refusals.length} refused; ${repeated} turns had more than one attempt`,
      `at most ${most} requests in a minute (${Math.round((most / requestsPerMinute) * 100)} %)`,
    ].join("\n"),
  );
}
