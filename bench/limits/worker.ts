/** Asks one keeper as fast as it answers, and returns how long that took. */

import { LimitKeeper } from "../../src/features/limits/keeper/keeper.ts";
import type { Answer, Ask, Return, Rules } from "../../src/features/limits/keeper/protocol.ts";
import { served } from "../worker/served.ts";

export { LimitKeeper };

type Env = { readonly LIMIT_KEEPER: DurableObjectNamespace<LimitKeeper> };

export type Load = {
  /** Of the keeper, which is new for each load. */
  readonly name: string;
  /** Keys that the asks use in turns. */
  readonly keys: number;
  /** Work that waits for each key before the measure, and asks again in it. */
  readonly waiters: number;
  /** What is measured. */
  readonly asks: number;
  /** Asks under way at a time. */
  readonly concurrency: number;
};

export type Result = {
  readonly ms: number;
  readonly lent: number;
  readonly waiting: number;
  /** Of one ask, in milliseconds. */
  readonly p50: number;
  readonly p99: number;
};

/** So much that the asks of a measure are all lent. */
const WIDE: Rules = {
  requests: { amount: 1_000_000_000, window: { ms: 60_000 } },
  tokens: { amount: 1_000_000_000_000, window: { ms: 60_000 } },
};
/** So little that all but one wait. */
const NARROW: Rules = { slots: 1 };

async function run({ LIMIT_KEEPER }: Env, load: Load): Promise<Result> {
  const { name, keys, waiters, asks, concurrency } = load;
  const keeper = LIMIT_KEEPER.getByName(name);
  const key = (index: number) => `key-${index % keys}`;
  const ask = (index: number): Promise<Answer> => keeper.ask(askOf(load, index, key(index)));
  // The keys, and those who wait, are there before the measure.
  await each(Math.max(keys, waiters + 1), 64, ask);
  const times: number[] = [];
  let lent = 0;
  const startedAt = performance.now();
  await each(asks, concurrency, async (index) => {
    const from = performance.now();
    const answer = await ask(index);
    times.push(performance.now() - from);
    if (answer.outcome === "lent") lent++;
  });
  const ms = performance.now() - startedAt;
  times.sort((one, other) => one - other);
  const at = (part: number) => times[Math.floor(part * (times.length - 1))] ?? 0;
  return { ms, lent, waiting: asks - lent, p50: at(0.5), p99: at(0.99) };
}

/** Each lease but the first of a key is given back by the next ask, as agents do. */
function askOf({ waiters, keys }: Load, index: number, key: string): Ask {
  if (waiters > 0) {
    const ticket = `waiter-${index % (waiters + 1)}`;
    return { ticket, key, rules: NARROW, need: { slots: 1 }, waitedMs: 1_000 };
  }
  const need = { requests: 1, tokens: 1_000 };
  const before: Return = {
    ...{ key, rules: WIDE, lease: Date.now() + 15_000, lent: need },
    ...{ used: { requests: 1, tokens: 300 }, usedAgoMs: 100 },
  };
  const returns = index >= keys ? [before] : [];
  return { ticket: `agent-${index % 5_000}`, key, rules: WIDE, need, waitedMs: 0, returns };
}

/** Some at a time. */
async function each(count: number, concurrency: number, work: (index: number) => Promise<unknown>) {
  let next = 0;
  const worker = async () => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
}

export default served<Env>({ run });
