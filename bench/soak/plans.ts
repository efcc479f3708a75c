/** What is asked for, drawn by chance, and what each workflow has to come to. */

import { between, oneOf, type Random } from "./random.ts";
import type { Ask, Plan, PlanStep } from "./words.ts";

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
/** Until when it refuses: mostly it does not. */
const refusal = (random: Random, now: number) =>
  random() < 0.2 ? now + between(random, 500, 10_000) : 0;

/** @param now epoch milliseconds */
export function planOf(random: Random, id: string, now: number): Plan {
  const steps = Array.from({ length: between(random, 1, 4) }, () => stepOf(random, now));
  return { id, steps };
}

function stepOf(random: Random, now: number): PlanStep {
  const kind = oneOf(random, KINDS);
  const delayMs = delay(random);
  if (kind === "prompt") {
    return { kind, thread: oneOf(random, THREADS), delayMs, refusedUntil: refusal(random, now) };
  }
  if (kind === "promptAll") return { kind, items: between(random, 2, 4), delayMs };
  if (kind === "child") return { kind, delayMs };
  if (kind === "sleep") return { kind, ms: between(random, 200, 2_000) };
  return { kind };
}

/** What the workflow tells when all of its steps have succeeded. */
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

/** @param now epoch milliseconds */
export function askOf(random: Random, key: string, now: number): Ask {
  const waits = random() < 0.2;
  return {
    key,
    thread: oneOf(random, THREADS),
    delayMs: delay(random),
    hasEffect: random() < 0.4,
    refusedUntil: refusal(random, now),
    ...(waits && { notBefore: now + between(random, 500, 5_000) }),
  };
}
