/** Random programs: what they have recorded is replayed without a problem, however their branches took turns. */

import { expect, it } from "vitest";
import type { PlatformStep, WorkflowHistory } from "../../../src/features/deploy/index.ts";
import type { ThinkWorkflowStep } from "../../../src/workflow/index.ts";
import { sample } from "../../support/sizes.ts";
import { pointsOf, problemsOf } from "../../support/workflows/histories.ts";

/** Steps one after the other, or side by side. */
type Program =
  | { readonly kind: "do" | "sleep" | "failing"; readonly name: string; readonly ms: number }
  | { readonly kind: "sequence" | "parallel"; readonly inner: readonly Program[] };

function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

function programOf(random: () => number, depth = 0): Program {
  const pick = Math.floor(random() * (depth < 3 ? 5 : 3));
  // Few times, so that many steps end at the same time, and some branches are far ahead of others.
  const ms = [0, 1, 2, 40][Math.floor(random() * 4)] ?? 0;
  const name = `step ${Math.floor(random() * 12)}`;
  if (pick < 3) return { kind: (["do", "sleep", "failing"] as const)[pick] ?? "do", name, ms };
  const inner = Array.from({ length: 1 + Math.floor(random() * 6) }, () =>
    programOf(random, depth + 1),
  );
  return { kind: pick === 3 ? "sequence" : "parallel", inner };
}

/** What a run of it would record, on a clock of its own. */
async function recorded(program: Program): Promise<PlatformStep[]> {
  const steps: { -readonly [Key in keyof PlatformStep]: PlatformStep[Key] }[] = [];
  const counts = new Map<string, number>();
  const timers: { at: number; place: number; ring: () => void }[] = [];
  let now = 1_000;
  const make = (kind: "do" | "sleep", name: string, ms: number, isFailing: boolean) => {
    const count = (counts.get(`${kind} ${name}`) ?? 0) + 1;
    counts.set(`${kind} ${name}`, count);
    const step: (typeof steps)[number] = { name, count, kind, status: "open", startedAt: now };
    steps.push(step);
    return new Promise<void>((resolve, reject) => {
      const ring = () => {
        step.endedAt = now;
        step.status = isFailing ? "failed" : "completed";
        if (isFailing) reject(new Error("no"));
        else resolve();
      };
      timers.push({ at: now + ms, place: steps.length, ring });
    });
  };
  let isOver = false;
  const run = runOf(program, {
    do: (name, ms, isFailing) => make("do", name, ms, isFailing),
    sleep: (name, ms) => make("sleep", name, ms, false),
  }).then(() => {
    isOver = true;
  });
  while (!isOver) {
    await new Promise((resolve) => setTimeout(resolve, 0));
    timers.sort((one, other) => one.at - other.at || one.place - other.place);
    const next = timers.shift();
    if (next) now = Math.max(now, next.at);
    next?.ring();
  }
  await run;
  return steps;
}

type Steps = {
  do(name: string, ms: number, isFailing: boolean): Promise<unknown>;
  sleep(name: string, ms: number): Promise<unknown>;
};

async function runOf(program: Program, steps: Steps): Promise<void> {
  if ("inner" in program) {
    const { inner, kind } = program;
    if (kind === "parallel") await Promise.all(inner.map((one) => runOf(one, steps)));
    else for (const one of inner) await runOf(one, steps);
    return;
  }
  const { kind, name, ms } = program;
  if (kind === "sleep") await steps.sleep(name, ms);
  // A failure is handled, as by code that continues without the step.
  else await steps.do(name, ms, kind === "failing").catch(() => {});
}

const asSteps = (step: ThinkWorkflowStep): Steps => ({
  do: (name) => step.do(name, async () => 1),
  sleep: (name) => step.sleep(name, 1),
});

const SEEDS = Array.from({ length: 10 }, (_, seed) => seed);

it.each(sample("REPLAY_STRIDE", 3, SEEDS))("program %i", async (seed) => {
  const random = randomOf(seed * 7_919 + 1);
  const inner = Array.from({ length: 3 }, () => {
    const branch = Array.from({ length: 5 }, () => programOf(random));
    return { kind: "sequence", inner: branch } as const;
  });
  const program = { kind: "parallel", inner } as const;
  const platform = await recorded(program);
  const history: WorkflowHistory = {
    ...{ workflow: "W", workflowId: "w-1", version: null, status: "complete", startedAt: 1_000 },
    params: { __agentName: "ada", __agentBinding: "ThinkAgent", __workflowName: "W" },
    ...{ platform, asked: [] },
  };
  const all = [history, ...pointsOf(history)];
  const tried =
    all.length > 12 ? all.filter((_, at) => at % Math.ceil(all.length / 12) === 0) : all;
  for (const each of tried) {
    expect(await problemsOf((step) => runOf(program, asSteps(step)), each)).toEqual([]);
  }
});
