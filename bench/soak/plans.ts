/** Random plans of workflows and turns, and their expected outcomes. */

import { between, oneOf, type Random } from "./random.ts";
import type { Ask, Effects, Plan, PlanStep } from "./words.ts";

const KINDS: readonly PlanStep["kind"][] = [
  "prompt",
  "prompt",
  "prompt",
  "promptAll",
  "approval",
  "child",
  "sleep",
];
const THREADS = ["main", "isolated", "side"];
/** How long a model takes. */
const delay = (random: Random) => between(random, 50, 500);
/** The time until which the model refuses. Mostly it does not. */
const refusal = (random: Random, now: number) =>
  random() < 0.2 ? now + between(random, 500, 10_000) : 0;

/** @param now epoch milliseconds */
export function planOf(random: Random, id: string, now: number): Plan {
  const steps = Array.from({ length: between(random, 1, 4) }, (_, index) =>
    stepOf(random, `${id}-${index}`, now),
  );
  return { id, steps };
}

function stepOf(random: Random, name: string, now: number): PlanStep {
  const kind = oneOf(random, KINDS);
  const delayMs = delay(random);
  if (kind === "prompt") {
    const refusedUntil = refusal(random, now);
    const effects = random() < 0.4 ? effectsOf(random, name) : [];
    return { kind, thread: oneOf(random, THREADS), delayMs, refusedUntil, effects };
  }
  if (kind === "promptAll") return { kind, items: between(random, 2, 4), delayMs };
  if (kind === "child") return { kind, delayMs };
  if (kind === "sleep") return { kind, ms: between(random, 200, 2_000) };
  return { kind };
}

/** The report of the workflow when all its steps succeeded. */
export function outcomeOf({ steps }: Plan): string {
  return steps.map(wordOf).join(" ");
}

function wordOf(step: PlanStep): string {
  switch (step.kind) {
    case "prompt":
      return "prompt:7";
    case "promptAll":
      return `promptAll:${Array.from({ length: step.items }, (_, item) => item).join(",")}`;
    case "approval":
      return "approval:1";
    case "child":
      return "child:researched";
    case "sleep":
      return "sleep";
  }
}

/** One call, two in one step, one after the other, or the same one twice on purpose. */
function effectsOf(random: Random, key: string): Effects {
  const [one, other] = [`${key}.1`, `${key}.2`];
  return oneOf(random, [[[one]], [[one, other]], [[one], [other]], [[one], [one]], [[one, one]]]);
}

/** The most times that each effect of a turn may happen. */
export function plannedEffects(effects: Effects): Map<string, number> {
  const planned = new Map<string, number>();
  for (const key of effects.flat()) planned.set(key, (planned.get(key) ?? 0) + 1);
  return planned;
}

/**
 * @param isDisturbed whether it may crash its agent
 * @param now epoch milliseconds
 */
export function askOf(random: Random, key: string, isDisturbed: boolean, now: number): Ask {
  const waits = random() < 0.2;
  const hasBomb = isDisturbed && random() < 0.1;
  return {
    key,
    thread: oneOf(random, THREADS),
    delayMs: delay(random),
    effects: hasBomb ? [[`${key}.bomb`]] : random() < 0.5 ? effectsOf(random, key) : [],
    hasBomb,
    hasBoom: isDisturbed && random() < 0.1,
    refusedUntil: refusal(random, now),
    ...(waits && { notBefore: now + between(random, 500, 5_000) }),
  };
}
