import { describe, expect, it } from "vitest";
import { limitMs, sizeOf } from "../../../support/sizes.ts";
import { type Seen, simulate, type World } from "./simulation.ts";

const AGENTS = sizeOf("LIMITS_AGENTS", 400);
/** A sample has a smaller account, so that as many agents compete for each request as in full. */
const SCALE = Math.min(1, AGENTS / 2_000);
const SEED = sizeOf("LIMITS_SEED", 1);
const MINUTE = { ms: 60_000 };
const TIME = limitMs(60_000);

/** In full 1,000 requests and 2 million tokens a minute, and far more work than that, in bursts, of short and long turns. */
const WORLD: World = {
  seed: SEED,
  agents: AGENTS,
  // Each key has the same number of agents, with the weights 1, 2 and 3.
  keys: AGENTS / 50,
  minutes: 14,
  rules: {
    requests: { amount: 1_000 * SCALE, window: MINUTE },
    tokens: { amount: 2_000_000 * SCALE, window: MINUTE },
  },
  callsOf: (random) => 1 + Math.floor(random() * 3),
  callMsOf: (random) => (random() < 0.2 ? 10_000 + 50_000 * random() : 500 + 4_000 * random()),
  // One estimate in ten is too low.
  tokensOf: (random) => {
    const reserved = 500 + Math.floor(2_000 * random());
    return { reserved, used: Math.floor(reserved * (0.1 + random())) };
  },
  idleMsOf: (random) => (random() < 0.5 ? 1_000 * random() : 20_000 * random()),
  weightOf: (key) => 1 + (key % 3),
};

/** Windows after those in which the work begins. */
const steady = ({ minutes }: Seen) => minutes.slice(2, 12);

/** The least part of its fair share that a key has had over ten windows. */
function leastShare(seen: Seen, world: World): number {
  const had = Array<number>(world.keys).fill(0);
  for (const { byKey } of steady(seen))
    byKey.forEach((part, key) => {
      had[key] = (had[key] ?? 0) + part;
    });
  const all = had.reduce((sum, part) => sum + part, 0);
  const weights = had.reduce((sum, _, key) => sum + world.weightOf(key), 0);
  return Math.min(...had.map((part, key) => part / ((all * world.weightOf(key)) / weights)));
}

function leastUsed(seen: Seen): number {
  return Math.min(...steady(seen).map(({ used }) => used));
}

describe("agents that share one account", () => {
  it("M1: never exceed it, use it, and share it by weight", { timeout: TIME }, () => {
    const seen = simulate(WORLD);
    expect(seen.over).toMatchObject({ requests: 0, tokens: 0 });
    expect(steady(seen).every(({ waiting }) => waiting === 60)).toBe(true);
    expect(leastUsed(seen)).toBeGreaterThan(0.95);
    expect(leastShare(seen, WORLD)).toBeGreaterThan(0.9);
    // A keeper writes one row for each lease, and one for what is given back.
    expect(seen.saves).toBeLessThanOrEqual(2 * seen.lends);
  });

  it("M1: the same where tokens are short", { timeout: TIME }, () => {
    const world = {
      ...WORLD,
      keys: WORLD.keys / 4,
      tokensOf: (random: () => number) => {
        const reserved = 2_000 + Math.floor(6_000 * random());
        return { reserved, used: Math.floor(reserved * (0.2 + 0.82 * random())) };
      },
    };
    const seen = simulate(world);
    expect(seen.over).toMatchObject({ requests: 0, tokens: 0 });
    expect(leastUsed(seen)).toBeGreaterThan(0.95);
    expect(leastShare(seen, world)).toBeGreaterThan(0.9);
  });

  it("M1: the same where slots are short", { timeout: TIME }, () => {
    const world = { ...WORLD, rules: { ...WORLD.rules, slots: 100 * SCALE } };
    const seen = simulate(world);
    expect(seen.over).toMatchObject({ requests: 0, tokens: 0 });
    expect(leastUsed(seen)).toBeGreaterThan(0.95);
  });

  it("M1: the same while agents crash in calls, and the keeper every 45 seconds", {
    timeout: TIME,
  }, () => {
    const world = { ...WORLD, crashes: 0.02, keeperCrashesMs: 45_000 };
    const seen = simulate(world);
    expect(seen.over).toMatchObject({ requests: 0, tokens: 0 });
    expect(leastUsed(seen)).toBeGreaterThan(0.95);
    expect(leastShare(seen, world)).toBeGreaterThan(0.9);
  });

  it("M1: requests count that arrive 14 seconds after the end of their lease, also when their agent crashes", {
    timeout: TIME,
  }, () => {
    // A lease is of 2 seconds while others wait.
    const arrivesAfterMs = (random: () => number) => (random() < 0.5 ? 16_000 : 10);
    const seen = simulate({ ...WORLD, crashes: 0.5, arrivesAfterMs });
    expect(seen.over).toMatchObject({ requests: 0, tokens: 0 });
  });

  it("M1: windows of a second are never exceeded, and 40 percent of them is used", {
    timeout: TIME,
  }, () => {
    const amount = 20 * SCALE;
    const rules = { requests: { amount, window: { ms: 1_000 } } };
    const seen = simulate({ ...WORLD, rules });
    expect(seen.over).toMatchObject({ requests: 0 });
    const requests = steady(seen).map((minute) => minute.requests);
    expect(Math.min(...requests)).toBeGreaterThan(0.4 * amount * 60);
    expect(leastShare(seen, WORLD)).toBeGreaterThan(0.9);
  });

  it("M1: a provider that halves its limit refuses requests for one minute at most", {
    timeout: TIME,
  }, () => {
    const seen = simulate({ ...WORLD, halvesAt: 6 });
    expect(seen.over).toMatchObject({ requests: 0, tokens: 0 });
    const refused = seen.minutes.map((minute) => minute.refused);
    expect(refused.filter((_, minute) => minute !== 6).every((count) => count === 0)).toBe(true);
    expect(refused[6]).toBeGreaterThan(0);
    for (const minute of seen.minutes.slice(7, 12)) {
      expect(minute.requests).toBeLessThanOrEqual(500 * SCALE);
      expect(minute.used).toBeGreaterThan(0.95);
    }
  });

  it("M3: a key with little work waits for one call of each other key, not for all their work", {
    timeout: TIME,
  }, () => {
    const keys = 41;
    // One agent has a key of its own; the others wait for minutes.
    const keyOf = (agent: number) => (agent === 0 ? 0 : 1 + (agent % (keys - 1)));
    const world = { ...WORLD, keys, keyOf, weightOf: () => 1 };
    const { longestWaitMs } = simulate(world);
    const [least = 0, ...others] = longestWaitMs;
    // A window, because the others may have used all of it at once; 2 seconds for work that is next already; and a call of each
    // key, which takes its part of the window, twice: for the ways to the keeper.
    const boundMs = 60_000 + 2_000 + 2 * keys * (60_000 / (1_000 * SCALE));
    expect(least).toBeLessThan(boundMs);
    expect(Math.min(...others)).toBeGreaterThan(boundMs);
  });

  it("M4: money is overspent by one lease at most", { timeout: TIME }, () => {
    const budget = 400_000_000;
    const world = {
      ...WORLD,
      agents: Math.min(AGENTS, 500),
      keys: 10,
      crashes: 0.02,
      rules: {
        nanodollars: { amount: budget, window: { calendar: "month", zone: "UTC" } as const },
      },
      moneyOf: (tokens: number) => tokens * 1_000,
    };
    const seen = simulate(world);
    const ofOneCall = 2_500 * 1_000 * 1.1;
    expect(seen.nanodollars).toBeLessThanOrEqual(budget + ofOneCall);
    expect(seen.nanodollars).toBeGreaterThan(0.9 * budget);
  });
});
