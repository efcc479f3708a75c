/** Next occurrences per second, by form. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { forNode } from "../bundle.ts";
import { type Bench, inTurns, type Measure } from "../measure.ts";
import { median, type Result, reported } from "../result.ts";
import type { Rates } from "../schedule/forms.ts";

const GOAL = 100_000;
const MS = 100;
/** The number of tasks that Think's own implementation reconciles. */
const TASKS = 20;
const TURNS = 3;

/** The forms of Think's own implementation with a time of day. The others are one addition. */
const BUILT_IN = ["every day at 09:00", "every weekday at 09:00"];
const ZONE = "America/New_York";

export const occurrences: Measure = {
  name: "occurrences",
  does: "times nextOccurrence() by form, beside Croner, Luxon by hand, and the built-in's declared tasks",
  hasCounts: false,
  async run(bench) {
    const found = await ratesInNode();
    const builtIn = await ratesOfBuiltIn(bench);
    return found.map(({ form, by, rate }): Result => {
      const isOurs = by === "Perdure";
      const what = isOurs ? `next occurrence, ${form}` : `next occurrence, ${form}: ${by} instead`;
      const result = { what, unit: "a second", perdure: rate, builtIn: builtIn.get(form) };
      if (!isOurs) return { what, unit: "a second", perdure: rate };
      return reported(result, GOAL.toLocaleString("en"), rate >= GOAL);
    });
  },
};

async function ratesInNode(): Promise<Rates> {
  // Bundled, as an app's code is: the sources have TypeScript that Node does not strip.
  const folder = mkdtempSync(path.join(tmpdir(), "perdure-bench-"));
  try {
    await forNode(path.join(import.meta.dirname, "../schedule/forms.ts"), folder);
    const forms = (await import(path.join(folder, "bundle.mjs"))) as {
      rates(ms: number, turns: number): Rates;
    };
    return forms.rates(MS, TURNS);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/**
 * The computation of Think's own implementation is not public, but the reconciliation of tasks is. New tasks with a time of day
 * and new tasks with an interval cost the same except for the occurrence, so the difference is its cost.
 */
async function ratesOfBuiltIn({ worker }: Bench): Promise<Map<string, number>> {
  const declare = (schedule: string) => () => worker.ask("declareTime", { schedule, count: TASKS });
  const rates = new Map<string, number>();
  for (const form of BUILT_IN) {
    const { wall, interval } = await inTurns(TURNS, {
      wall: declare(`${form} in ${ZONE}`),
      interval: declare("every 15 minutes"),
    });
    rates.set(form, TASKS / ((median(wall) - median(interval)) / 1_000));
  }
  return rates;
}
