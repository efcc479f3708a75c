/** Plays crash scenarios of Think agents, says what was found, and knows which verbs each has really used. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import type { UIMessage } from "ai";
import { afterAll, describe, expect, it } from "vitest";
import { withCodemode } from "../../src/codemode/index.ts";
import { DurableThink } from "../../src/hosts/think/index.ts";
import {
  type CrashReport,
  type CrashRun,
  type CrashScenario,
  crashAtEveryWrite,
  type Moment,
} from "../../src/testing/index.ts";
import { openWorkOf } from "../../src/testing/invariants/invariants.ts";
import type { ThinkWorkflowStep } from "../../src/workflow/index.ts";
import { CALL_OF } from "../../src/workflow/step-call.ts";
import { stepsOf } from "../../src/workflow/steps.ts";
import { knob } from "./knobs.ts";
import { type Plot, plots } from "./plot-workflow.ts";
import type { ThinkAgent } from "./think-agent.ts";

export type Run = CrashRun<ThinkAgent>;
export type Agent = DurableObjectStub<ThinkAgent>;
/** A crash scenario, and which verbs of an agent or of a step (`step.prompt`) it is about. */
export type ThinkScenario = Omit<CrashScenario<ThinkAgent>, "objects"> & {
  readonly verbs: readonly string[];
  /** The first write that matches: a crash soon after it is tried in any case, and a second crash after that one. */
  readonly soonAfter: RegExp;
  /** In `npm test` every so manieth point is tried: a prime, so that moments and writes vary. */
  readonly stride: number;
  /** @default env.ThinkAgent */
  readonly objects?: DurableObjectNamespace<ThinkAgent>;
};

/** One that is about a workflow of the agent: what it does, and what it has to return, once and whatever crashes. */
type WorkflowScenario = ThinkScenario & {
  readonly plot: (step: ThinkWorkflowStep, id: string) => Promise<unknown>;
  /** What the workflow returns, as JSON. */
  readonly output?: (id: string) => unknown;
  /** @default "complete" */
  readonly status?: InstanceStatus["status"];
};

/** Verbs of Think and of agents that are more in a DurableThink than they were. */
const MORE_VERBS = ["restartWorkflow", "runTurn"] as const;

/** The step of an entry of its own, which is a function of the step that `run()` receives. */
const CODEMODE = "codemode";

/** Every method of the layers of a DurableThink with Code Mode, and every step. */
export function allVerbs(): string[] {
  const methods = layers().flatMap((layer) =>
    Object.getOwnPropertyNames(layer).filter((name) => name !== "constructor"),
  );
  const steps = Object.keys(stepsOf({}, () => undefined as never));
  return [
    ...new Set([...methods, ...MORE_VERBS]),
    ...steps.map((step) => `step.${step}`),
    CODEMODE,
  ];
}

/** From DurableThink with Code Mode down to what Think itself is. */
function layers(): object[] {
  const found: object[] = [];
  let layer = withCodemode(DurableThink).prototype as object;
  while (layer !== Object.getPrototypeOf(DurableThink.prototype)) {
    found.push(layer);
    layer = Object.getPrototypeOf(layer) as object;
  }
  return found;
}

/** The verbs that were called, by the name of the agent. */
const called = new Map<string, Set<string>>();

function note(agent: string | undefined, verb: string): void {
  const verbs = called.get(agent ?? "") ?? new Set();
  called.set(agent ?? "", verbs.add(verb));
}

/** Prototypes of which each call of a verb is noted. */
const watched = new WeakSet<object>();

/** Notes each call of a verb of objects of this class from now on: of the class that lives, whoever has loaded it. */
function watchVerbs(object: object): void {
  const verbs = new Set(allVerbs());
  let layer = Object.getPrototypeOf(object) as object | null;
  for (; layer !== null; layer = Object.getPrototypeOf(layer) as object | null) {
    if (watched.has(layer)) continue;
    watched.add(layer);
    for (const [verb, property] of Object.entries(Object.getOwnPropertyDescriptors(layer))) {
      const work: unknown = property.value;
      if (typeof work !== "function" || !verbs.has(verb)) continue;
      Object.defineProperty(layer, verb, {
        ...property,
        value(this: { ctx: DurableObjectState }, ...args: unknown[]) {
          note(this.ctx.id.name, verb);
          return Reflect.apply(work, this, args) as unknown;
        },
      });
    }
  }
}

/** The steps, of which each use is noted. */
function watchedStep(step: ThinkWorkflowStep, agent: string): ThinkWorkflowStep {
  return new Proxy(step, {
    get(target, name) {
      const found: unknown = Reflect.get(target, name);
      if (typeof found !== "function") return found;
      return (...args: unknown[]) => {
        note(agent, name === CALL_OF ? CODEMODE : `step.${String(name)}`);
        return Reflect.apply(found, target, args) as unknown;
      };
    },
  });
}

/** How the workflow of a run stands, if there is one. The agent, its workflow and its order have one name. */
export async function stateOf(id: string): Promise<InstanceStatus | undefined> {
  try {
    return await (await env.PLOT_WORKFLOW.get(id)).status();
  } catch {
    return undefined;
  }
}

/** Ids of workflows whose plots may begin. */
const released = new Set<string>();

/** Starts the workflow before anything may crash: `matrix/think-starts.ts` crashes starts. */
async function start(agent: Agent, { id }: Run): Promise<void> {
  await agent.runWorkflow("PLOT_WORKFLOW", {}, { id, ifExists: "return" });
  await met(() => isAtRest(agent));
}

function release(_: Agent, { id }: Run): void {
  released.add(id);
}

/** Waits until a probe says yes; what it throws is of a crash, and it is asked again. */
export async function met(probe: () => unknown): Promise<void> {
  const deadline = performance.now() + 20_000;
  while (performance.now() < deadline) {
    try {
      if (await probe()) return;
    } catch {
      // Its object has crashed in between.
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`Not met within 20 seconds: ${String(probe)}`);
}

/** What has ended cannot be terminated again, which is no failure for somebody who was not told of the first time. */
export async function terminate(agent: Agent, { id }: Run, options = {}): Promise<void> {
  const wasOver = (await stateOf(id))?.status === "terminated";
  await agent.terminateWorkflow(id, options).catch((error: Error) => {
    if (!wasOver || error.message.includes("crash of a test")) throw error;
  });
}

/** Lets the workflow come so far, before anything may crash. */
export async function begun(agent: Agent, run: Run, isFar: () => unknown): Promise<void> {
  release(agent, run);
  await agent.runWorkflow("PLOT_WORKFLOW", {}, { id: run.id, ifExists: "return" });
  await met(isFar);
}

/** The scenario of a workflow whose plot begins with the first step, unless `prepare` has begun it. */
export function workflow(scenario: WorkflowScenario): ThinkScenario {
  const { plot, output, status: wanted = "complete", ...rest } = scenario;
  const { prepare, steps, check, isOver } = rest;
  const watched: Plot = async (step, { workflowId: id }) => {
    await met(() => released.has(id));
    return plot(watchedStep(step, id), id);
  };
  return {
    ...rest,
    prepare: async (agent, run) => {
      plots.set(run.id, watched);
      await prepare?.(agent, run);
      if (!released.has(run.id)) await start(agent, run);
      await agent.listSubmissions();
    },
    steps: [release, ...steps],
    isOver: async (agent, run) => {
      const { status = "unknown" } = (await stateOf(run.id)) ?? {};
      if (!["complete", "errored", "terminated"].includes(status)) return false;
      return (await isAtRest(agent)) && ((await isOver?.(agent, run)) ?? true);
    },
    expect: { alarm: true },
    check: async (agent, run) => {
      const found = await stateOf(run.id);
      return [
        ...differs("the workflow is", found?.status, wanted),
        ...(found?.error ? [`its error is ${found.error.name}: ${found.error.message}`] : []),
        ...(output ? differs("it returned", found?.output, output(run.id)) : []),
        ...((await check?.(agent, run)) ?? []),
      ];
    },
  };
}

/** Nothing in its rooms is open or due. */
export async function isAtRest(agent: Agent): Promise<boolean> {
  return (await openWorkOf(agent as unknown as DurableObjectStub)).length === 0;
}

/** A problem, where it is not what it has to be. */
export function differs(what: string, found: unknown, wanted: unknown): string[] {
  const [is, hasToBe] = [found, wanted].map((value) => JSON.stringify(value));
  return is === hasToBe ? [] : [`${what} ${is}, not ${hasToBe}`];
}

/** `status` of each submission of the agent, the oldest first. */
export async function statuses(agent: Agent): Promise<string[]> {
  return (await agent.listSubmissions()).map(({ status }) => status).reverse();
}

/** What the user has said in a thread: each message once, in its order (L4). */
export function said(agent: Agent, thread = "main"): Promise<string[]> {
  return textsOf(agent, thread, "user");
}

/** What the model has said there: a recovered turn goes on with its reply, or adds a message to it (L6). */
export async function replied(agent: Agent, thread = "main"): Promise<string> {
  return (await textsOf(agent, thread, "assistant")).join("");
}

async function textsOf(agent: Agent, thread: string, of: string): Promise<string[]> {
  const messages: UIMessage[] = await agent.threadMessages(thread);
  return messages
    .filter(({ role }) => role === of)
    .map(({ parts }) => parts.map((part) => (part.type === "text" ? part.text : "")).join(""));
}

/** Some plays wait for seconds, of recoveries and timeouts: five scenarios are played side by side. */
const TIMEOUT_MS = 3_600_000;
/** Of the points of a second crash, in a full run; in any other the first. */
const AGAIN = 11;
const CONCURRENCY = knob("CRASH_CONCURRENCY", 6);
const MOMENTS: readonly Moment[] = ["soon after", "before", "after"];

/**
 * Plays the scenarios, each as a test, and prints what was found. `VITE_PERDURE_CRASH_STRIDE=1` tries all points: run one
 * file at a time then, which takes some ten minutes each.
 */
export function playMatrix(scenarios: readonly ThinkScenario[]): void {
  const lines: string[] = [];
  const total = { points: 0, wrong: 0 };
  afterAll(() => {
    lines.push(`crash matrix total: ${total.points} points, ${total.wrong} wrong`);
    console.log(lines.join("\n"));
  });
  describe.concurrent("a crash at every write and every delivery", () => {
    const numbered = scenarios.map((scenario, number) => ({ ...scenario, number }));
    it.each(numbered)(
      "$name",
      async ({ verbs, number, ...scenario }) => {
        const names = new Set<string>();
        const prepare: ThinkScenario["prepare"] = async (agent, run) => {
          names.add(run.id);
          await runInDurableObject(agent as unknown as DurableObjectStub, watchVerbs);
          await scenario.prepare?.(agent, run);
        };
        const reports = await crashes({ ...scenario, prepare }, number);
        for (const report of reports) {
          lines.push(String(report));
          total.points += report.points;
          total.wrong += report.wrong.length;
        }
        expect(reports.flatMap(({ wrong }) => wrong)).toEqual([]);
        const used = new Set([...names].flatMap((name) => [...(called.get(name) ?? [])]));
        expect(verbs.filter((verb) => !used.has(verb))).toEqual([]);
      },
      TIMEOUT_MS,
    );
  });
}

/** One crash in each play, and then two. */
async function crashes(
  {
    soonAfter,
    stride,
    objects = env.ThinkAgent as never,
    ...scenario
  }: Omit<ThinkScenario, "verbs">,
  number: number,
): Promise<CrashReport[]> {
  const chosen = knob("CRASH_STRIDE", stride);
  // Another moment comes first in each scenario, as the first point is always tried.
  const first = number % MOMENTS.length;
  const all = {
    // A workflow whose event is lost to a lapsing wait asks after 110 seconds (W2), and calls of an agent that is down are repeated ever more rarely.
    timeout: "4 minutes",
    ...scenario,
    objects,
    concurrency: CONCURRENCY,
    moments: [...MOMENTS.slice(first), ...MOMENTS.slice(0, first)],
  } as const;
  const once = await crashAtEveryWrite({ ...all, stride: chosen });
  const again = chosen === 1 ? AGAIN : 10_000;
  return [once, await crashAtEveryWrite({ ...all, stride: again, again: soonAfter })];
}
