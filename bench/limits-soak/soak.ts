/**
 * `npm run soak:limits`: 200 agents share an account at a provider, which counts and answers 429 above its limits. Kills the
 * runtime at random moments. Counts answers 429 after the first minute, and turns that were lost, failed or run twice. Exit code
 * 1 for any finding.
 *
 *   npm run soak:limits -- --turns 10 --kills 10 --seed 7
 */

import { randomInt } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Runtime } from "../../examples/runtime.ts";
import { between, randomOf } from "../soak/random.ts";
import { type Evidence, FINDINGS, findingsOf, openIn } from "./count.ts";
import { Provider } from "./provider.ts";
import type { Allowed, Look, Turn } from "./words.ts";

const LOOK_MS = 2_000;
const TOLD_MS = 10_000;
const MINUTE_MS = 60_000;
/** After the time that the limit alone takes. */
const SETTLE_MS = 180_000;
const MOST_SHOWN = 20;
const CALLS_OF_TURN = 2;

const { values } = parseArgs({
  options: {
    objects: { type: "string", default: "200" },
    turns: { type: "string", default: "10" },
    kills: { type: "string", default: "10" },
    requests: { type: "string", default: "600" },
    seed: { type: "string", default: String(randomInt(2 ** 31)) },
  },
});
const [objects, turnsEach, kills, requestsPerMinute, seed] = (
  ["objects", "turns", "kills", "requests", "seed"] as const
).map((option) => wholeNumber(option, values[option])) as [number, number, number, number, number];

const allowed: Allowed = {
  requestsPerMinute,
  // The first call of an agent is estimated by far more than it uses.
  tokensPerMinute: requestsPerMinute * 2_500,
};
const provider = new Provider(allowed, randomOf(seed, "provider"));
const PROVIDER = await provider.start();
const folder = fileURLToPath(new URL(".", import.meta.url).href);
const runtime = new Runtime(folder, { PROVIDER, ALLOWED: Object.values(allowed).join() });
process.on("exit", () => runtime.destroy());
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(130));
const turns = Array.from({ length: objects * turnsEach }, (_, index): Turn => {
  const agent = index % objects;
  return { agent: `agent-${agent}`, id: `t${agent}-${Math.floor(index / objects)}` };
});
const agents = [...new Set(turns.map(({ agent }) => agent))];
/** How long the turns take by the limit alone. */
const leastMs = ((turns.length * CALLS_OF_TURN) / requestsPerMinute) * MINUTE_MS;
const signal = AbortSignal.timeout(leastMs + MINUTE_MS + SETTLE_MS + 60_000 * kills);
try {
  process.exitCode = await soak();
} catch (error) {
  console.error(error, `\nThe end of the runtime's log:\n${runtime.logTail(25)}`);
  process.exitCode = 1;
} finally {
  runtime.destroy();
  provider.stop();
}
process.exit();

async function soak(): Promise<number> {
  const { tokensPerMinute } = allowed;
  console.log(
    `seed ${seed}: ${turns.length} turns of ${objects} agents, ${requestsPerMinute} requests and ${tokensPerMinute} tokens a minute, ${kills} kills`,
  );
  await runtime.start(signal);
  await call("submit", turns);
  const from = Date.now();
  await killAtTimes();
  const looks = await settled(from + leastMs + MINUTE_MS + SETTLE_MS);
  const firstAt = provider.taken[0] ?? from;
  const refusals = provider.refusals.map(({ at, why }) => ({ afterMs: at - firstAt, why }));
  tell(looks, refusals);
  return report({ turns, looks, refusals });
}

/** Kills the machine at random moments of the time that the turns take at least, and restarts it. */
async function killAtTimes(): Promise<void> {
  const random = randomOf(seed, "kills");
  const startedAt = Date.now();
  const span = Math.max(leastMs, MINUTE_MS);
  for (let kill = 1; kill <= kills; kill++) {
    // One in each part of the time.
    const at = startedAt + ((kill - 1 + random()) / kills) * span;
    await delay(Math.max(between(random, 500, 1_500), at - Date.now()), undefined, { signal });
    const killedAt = Date.now();
    await runtime.kill();
    await runtime.start(signal);
    const seconds = ((Date.now() - killedAt) / 1_000).toFixed(1);
    console.log(`  kill ${kill} after ${provider.taken.length} requests, up again in ${seconds} s`);
  }
}

/** Waits until all turns have ended, or for a time limit. */
async function settled(until: number): Promise<Look[]> {
  for (let toldAt = 0; ; ) {
    const looks = await call<Look[]>("look", agents);
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

async function call<T>(name: string, args: unknown): Promise<T> {
  const init = { method: "POST", body: JSON.stringify(args), signal };
  const response = await fetch(`${runtime.url}/${name}`, init);
  if (response.ok) return (await response.json()) as T;
  throw new Error(`${name}: ${response.status} ${await response.text()}`);
}

function tell(looks: readonly Look[], refusals: Evidence["refusals"]): void {
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

/** Returns the exit code. */
function report(evidence: Evidence): number {
  const findings = findingsOf(evidence);
  const counts = FINDINGS.map((kind) => {
    const own = findings.filter((finding) => finding.kind === kind);
    for (const { what } of own.slice(0, MOST_SHOWN)) console.error(`${kind}: ${what}`);
    if (own.length > MOST_SHOWN) console.error(`... and ${own.length - MOST_SHOWN} more ${kind}`);
    return `${kind} ${own.length}`;
  });
  if (findings.length > 0) console.error(runtime.logTail(25));
  console.log(`seed ${seed}: ${counts.join(", ")}`);
  return findings.length > 0 ? 1 : 0;
}

function wholeNumber(option: string, value: string): number {
  const number = Number(value);
  if (Number.isInteger(number) && number >= 0) return number;
  console.error(`--${option} is ${JSON.stringify(value)}; expected a whole number, e.g. 60.`);
  process.exit(2);
}
