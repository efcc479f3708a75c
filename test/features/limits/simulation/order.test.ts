/** In which order turns of one key start that wait for a limit: by priority, then by age. */

import { describe, expect, it } from "vitest";
import { limitMs, sizeOf } from "../../../support/sizes.ts";
import { type Start, simulate, type World } from "./simulation.ts";

const SEED = sizeOf("LIMITS_SEED", 1);
const MINUTE = { ms: 60_000 };

/** Turns of one key come within seconds, and start over many minutes. */
const WORLD: World = {
  seed: SEED,
  agents: 45,
  keys: 1,
  minutes: 30,
  rules: { requests: { amount: 5, window: MINUTE } },
  callsOf: () => 1,
  callMsOf: (random) => 500 + 4_000 * random(),
  tokensOf: () => ({ reserved: 1, used: 1 }),
  // Each agent has one turn.
  idleMsOf: (random, now) => (now < 5_000 ? 5_000 * random() : 10_000_000),
  weightOf: () => 1,
  priorityOf: (random) => 5 * Math.floor(3 * random()),
};

function isBefore(one: Start, other: Start): boolean {
  return one.priority === other.priority ? one.since < other.since : one.priority > other.priority;
}

/** Parts of the pairs that waited together of which the one that goes first started later: of other priorities, and of one. */
function measureInversions(starts: readonly Start[], byMoreThanMs = 0) {
  const pairs = { priority: 0, age: 0 };
  const inverted = { priority: 0, age: 0 };
  for (const one of starts)
    for (const other of starts) {
      // The one that goes first had come before the other one started.
      if (one.key !== other.key || !isBefore(one, other) || one.since > other.at) continue;
      const kind = one.priority === other.priority ? "age" : "priority";
      pairs[kind]++;
      if (one.at > other.at + byMoreThanMs) inverted[kind]++;
    }
  return { priority: inverted.priority / pairs.priority, age: inverted.age / pairs.age };
}

/** The most turns of a key that started while one waited that goes before them. */
function countMostOvertaking(starts: readonly Start[]): number {
  const counts = starts.map(
    (one) =>
      starts.filter(
        (other) =>
          one.key === other.key &&
          isBefore(one, other) &&
          other.at >= one.since &&
          other.at < one.at,
      ).length,
  );
  return Math.max(...counts);
}

/** More work than the limit allows, without an end. */
const STEADY: World = {
  ...WORLD,
  agents: 200,
  keys: 4,
  minutes: 20,
  rules: { requests: { amount: 100, window: MINUTE } },
  idleMsOf: (random) => (random() < 0.5 ? 1_000 * random() : 20_000 * random()),
  priorityOf: (random) => (random() < 0.1 ? 5 : random() < 0.3 ? 1 : 0),
};

describe("turns of one key that wait", () => {
  // Inverted pairs of priorities and of ages in percent, and the most turns that overtook one, with seed 1: 0.0, 4.6 and 4;
  // 0.3, 0.4 and 21; 0.3, 0.8 and 12; 0.0, 0.6 and 3; 0.0, 0.0 and 0. Before capacity was held for turns that come within 10
  // seconds: 1.0, 12.6 and 10; 2.2, 3.5 and 58; 4.1, 5.2 and 42; 27.1, 12.4 and 13; 5.5, 27.0 and 7.
  it.each<[string, World, most: number]>([
    ["5 requests a minute, for 45 turns that come together", WORLD, 8],
    ["100 requests a minute, and more work without an end", STEADY, 30],
    [
      "tokens of which less is used than reserved, in turns of several calls",
      {
        ...STEADY,
        rules: { ...STEADY.rules, tokens: { amount: 200_000, window: MINUTE } },
        callsOf: (random) => 1 + Math.floor(random() * 3),
        tokensOf: (random) => {
          const reserved = 500 + Math.floor(2_000 * random());
          return { reserved, used: Math.floor(reserved * (0.1 + random())) };
        },
      },
      20,
    ],
    [
      "5 requests an hour",
      { ...WORLD, minutes: 700, rules: { requests: { amount: 5, window: { ms: 3_600_000 } } } },
      5,
    ],
    [
      "one slot of long calls",
      { ...WORLD, rules: { slots: 1 }, callMsOf: (random) => 5_000 + 15_000 * random() },
      3,
    ],
  ])("M3: start by priority, then by age: %s", { timeout: limitMs(60_000) }, (_, world, most) => {
    const { starts, over } = simulate(world);
    const { priority, age } = measureInversions(starts);
    expect(over).toMatchObject({ requests: 0, tokens: 0 });
    expect(priority).toBeLessThan(0.03);
    expect(age).toBeLessThan(0.06);
    expect(measureInversions(starts, 2_000).priority).toBeLessThan(0.02);
    expect(countMostOvertaking(starts)).toBeLessThanOrEqual(most);
  });
});
