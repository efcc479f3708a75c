/** Random plans of workflows and turns, and their expected outcomes. */

import { between, oneOf, type Random } from "./random.ts";
import {
  type Ask,
  BUSY,
  CUT_OFF,
  type Effects,
  isDisturbed,
  isNested,
  type Plan,
  type PlanStep,
  type WhenBusy,
} from "./words.ts";

const KINDS: readonly PlanStep["kind"][] = [
  ...(["prompt", "prompt", "prompt", "promptAll"] as const),
  ...(["approval", "webhook", "child", "sleep"] as const),
];
/** A nested agent receives no webhooks. */
const NESTED_KINDS = KINDS.filter((kind) => kind !== "webhook");
const SHARED_THREADS = ["main", "side", "isolated", BUSY];
const WHEN_BUSY: readonly WhenBusy[] = ["enqueue", "reject", "interrupt", "rollback", "steer"];
/** How long a model takes. */
const delay = (random: Random) => between(random, 50, 500);
/** The time until which the model refuses. Mostly it does not. */
const refusal = (random: Random, now: number) =>
  random() < 0.2 ? now + between(random, 500, 10_000) : 0;

/** @param now epoch milliseconds */
export function planWorkflow(random: Random, agent: string, id: string, now: number): Plan {
  const steps = Array.from({ length: between(random, 1, 4) }, (_, index) =>
    planStep(random, agent, `${id}-${index}`, now),
  );
  return { id, steps };
}

function planStep(random: Random, agent: string, name: string, now: number): PlanStep {
  const kind = oneOf(random, isNested(agent) ? NESTED_KINDS : KINDS);
  const delayMs = delay(random);
  switch (kind) {
    case "prompt": {
      const thread = oneOf(random, ["main", "isolated", "side"]);
      const refusedUntil = refusal(random, now);
      const effects = random() < 0.4 ? planEffects(random, name) : [];
      return { kind, thread, delayMs, refusedUntil, tool: planTool(random), effects };
    }
    case "promptAll":
      return { kind, items: between(random, 2, 4), delayMs };
    case "child":
      return { kind, delayMs };
    case "sleep":
      return { kind, ms: between(random, 200, 2_000) };
    default:
      return { kind };
  }
}

/** The report of a workflow whose steps have all succeeded. */
export function expectedOutcome({ id, steps }: Plan): string[] {
  return steps.map((step, index) => expectedResult(step, `${id}-${index}`));
}

/** The result of a step that succeeded. */
function expectedResult(step: PlanStep, name: string): string {
  if (step.kind !== "promptAll") return `${step.kind}:${name}`;
  return `promptAll:${Array.from({ length: step.items }, (_, item) => `${name}.${item}`).join()}`;
}

/** Whether a workflow has reported what was expected. Crashes may interrupt the run of a child. */
export function isExpectedOutcome(outcome: readonly string[], expected: readonly string[]) {
  return (
    outcome.length === expected.length &&
    outcome.every(
      (result, index) =>
        result === expected[index] ||
        (result === CUT_OFF && expected[index]?.startsWith("child:") === true),
    )
  );
}

const planTool = (random: Random) => (random() < 0.4 ? "charge" : "effect");

/** One call, two in one step, one after the other, or the same one twice. */
function planEffects(random: Random, key: string): Effects {
  const [one, other] = [`${key}.1`, `${key}.2`];
  return oneOf(random, [[[one]], [[one, other]], [[one], [other]], [[one], [one]], [[one, one]]]);
}

/** The maximum number of times that each effect of a turn may happen. */
export function countEffects(effects: Effects): Map<string, number> {
  const planned = new Map<string, number>();
  for (const key of effects.flat()) planned.set(key, (planned.get(key) ?? 0) + 1);
  return planned;
}

/**
 * @param thread random by default
 * @param now epoch milliseconds
 */
export function planAsk(
  random: Random,
  { agent, key, now, thread }: { agent: string; key: string; now: number; thread?: string },
): Ask {
  const mayCrash = isDisturbed(agent);
  const hasBomb = mayCrash && random() < 0.1;
  const own = thread ?? oneOf(random, SHARED_THREADS);
  const isShared = thread === undefined && own !== BUSY;
  return {
    key,
    text: `the answer to ${key}`,
    hasOutput: own !== BUSY && random() < 0.25,
    thread: own,
    delayMs: delay(random),
    tool: hasBomb ? "bomb" : planTool(random),
    effects: hasBomb ? [[`${key}.bomb`]] : random() < 0.5 ? planEffects(random, key) : [],
    hasBoom: mayCrash && random() < 0.1,
    refusedUntil: refusal(random, now),
    whenBusy: own === BUSY ? oneOf(random, WHEN_BUSY) : "enqueue",
    ...(isShared && random() < 0.2 && { notBefore: now + between(random, 500, 5_000) }),
    ...(isShared && random() < 0.05 && { expiresInMs: between(random, 200, 2_000) }),
  };
}
