/** Crash scenarios of Think agents and their workflows, and which verbs each of them has called. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { Think } from "@cloudflare/think";
import type { UIMessage } from "ai";
import { afterAll, expect, it } from "vitest";
import { DurableThink } from "../../../src/hosts/think/index.ts";
import {
  type CrashReport,
  type CrashRun,
  type CrashScenario,
  crashAtEveryWrite,
  inspectWork,
  type Script,
} from "../../../src/testing/index.ts";
import { CAPABILITY_VERBS } from "../../../src/workflow/agent/capabilities.ts";
import type { ThinkWorkflowStep } from "../../../src/workflow/index.ts";
import { CALL_OF } from "../../../src/workflow/step-call.ts";
import { withSteps } from "../../../src/workflow/think-workflow.ts";
import { message } from "../given.ts";
import { HANG_MS, sizeOf } from "../sizes.ts";
import type { ThinkAgent } from "../think-agent.ts";
import { type WorkflowBody, workflowBodies } from "../workflows/scripted-workflow.ts";
import { isCrashedAgain, momentsFrom, playScenarios } from "./matrix.ts";
import { differs } from "./objects.ts";
import { describeLeftRows, describeOpenRows } from "./rows.ts";

export type Run = CrashRun<ThinkAgent>;
export type Agent = DurableObjectStub<ThinkAgent>;
/** A crash scenario, and the verbs of an agent or a workflow (`step.prompt`) that it calls. */
export type ThinkScenario = Omit<CrashScenario<ThinkAgent>, "objects"> & {
  readonly verbs: readonly string[];
  /** The first write that matches: a crash soon after it is always tried, and in every second scenario a second crash follows. */
  readonly soonAfter: RegExp;
  /** `npm test` tries one of so many points: a prime, so that moments and writes vary. */
  readonly stride: number;
  /** @default env.ThinkAgent */
  readonly objects?: DurableObjectNamespace<ThinkAgent>;
};

/** A scenario of a workflow of the agent. */
type WorkflowScenario = ThinkScenario & {
  readonly body: (step: ThinkWorkflowStep, id: string) => Promise<unknown>;
  /** What the workflow returns, as JSON. */
  readonly output?: (id: string) => unknown;
  /** @default "complete" */
  readonly status?: InstanceStatus["status"];
};

/** Verbs of Think and of agents that a DurableThink extends. */
const MORE_VERBS = ["restartWorkflow", "runTurn"] as const;

/** The steps that are functions, which take the step that `run()` receives. */
const RUN_CODE = "runCode";
/** What Code Mode adds to the calls of steps at their agent. */
const ROLLBACK = "rollbackCodemode";
const SLEEP = "sleepUntilNext";

/** Every method of the layers of a DurableThink, and every step. */
export function allVerbs(): string[] {
  const methods = layers().flatMap((layer) =>
    Object.getOwnPropertyNames(layer).filter(
      (name) => name !== "constructor" && !(name in CAPABILITY_VERBS),
    ),
  );
  const ofCapabilities = Object.entries(CAPABILITY_VERBS).flatMap(([capability, verbs]) =>
    verbs.map((verb) => `${capability}.${verb}`),
  );
  const steps = Object.keys(withSteps({}, {} as never, {} as never));
  return [
    ...new Set([...methods, ...MORE_VERBS]),
    ...ofCapabilities,
    ...steps.map((step) => `step.${step}`),
    RUN_CODE,
    ROLLBACK,
    SLEEP,
  ];
}

/** The prototypes from DurableThink down to the class above Think. */
function layers(): object[] {
  const found: object[] = [];
  let layer = DurableThink.prototype as object;
  while (layer !== Think.prototype) {
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

/** Prototypes whose verbs are watched, and how to end that. */
const watched = new Map<object, (() => void)[]>();

/**
 * Notes each call of a verb of objects of this class from now on, until {@link unwatch}. Only the class itself changes: agents
 * start an object at its first call of an async method, so a plain function on Think's own class would keep every other
 * agent of the process from starting.
 */
function watchVerbs(object: object): void {
  const own = Object.getPrototypeOf(object) as object;
  if (watched.has(own)) return;
  const undo: (() => void)[] = [];
  watched.set(own, undo);
  for (const verb of allVerbs()) {
    const work: unknown = propertyOf(own, verb)?.value;
    if (typeof work !== "function") continue;
    const before = Object.getOwnPropertyDescriptor(own, verb);
    Object.defineProperty(own, verb, {
      configurable: true,
      writable: true,
      value(this: { ctx: DurableObjectState }, ...args: unknown[]) {
        note(this.ctx.id.name, verb === "callKernel" ? String(args[0]) : verb);
        return Reflect.apply(work, this, args) as unknown;
      },
    });
    undo.push(() => {
      if (before) Object.defineProperty(own, verb, before);
      else Reflect.deleteProperty(own, verb);
    });
  }
}

/** Its own or inherited property. A getter is not called. */
function propertyOf(object: object | null, name: string): PropertyDescriptor | undefined {
  if (object === null) return undefined;
  const own = Object.getOwnPropertyDescriptor(object, name);
  return own ?? propertyOf(Object.getPrototypeOf(object) as object | null, name);
}

function unwatch(): void {
  for (const undo of watched.values()) for (const one of undo) one();
  watched.clear();
}

/** A step that notes each use. */
function watchedStep(step: ThinkWorkflowStep, agent: string): ThinkWorkflowStep {
  return new Proxy(step, {
    get(target, name) {
      const found: unknown = Reflect.get(target, name);
      if (typeof found !== "function") return found;
      return (...args: unknown[]) => {
        const isSleep = name === "do" && String(args[0]).endsWith(":sleep-next");
        note(agent, name === CALL_OF ? RUN_CODE : isSleep ? SLEEP : `step.${String(name)}`);
        return Reflect.apply(found, target, args) as unknown;
      };
    },
  });
}

/** The status of the workflow of a run, if there is one. The agent, its workflow and its order have one name. */
export async function stateOf(id: string): Promise<InstanceStatus | undefined> {
  try {
    return await (await env.SCRIPTED_WORKFLOW.get(id)).status();
  } catch {
    return undefined;
  }
}

/** Ids of workflows that may begin their first step. */
const released = new Set<string>();

/** Starts the workflow before anything may crash. crash-starts.test.ts crashes starts. */
async function start(agent: Agent, { id }: Run): Promise<void> {
  await agent.runWorkflow("SCRIPTED_WORKFLOW", {}, { id, ifExists: "return" });
  await met(() => isAtRest(agent));
}

function release(_: Agent, { id }: Run): void {
  released.add(id);
}

/** Waits until a probe returns something truthy. An error of it comes from a crash, and it is called again. */
export async function met(probe: () => unknown): Promise<void> {
  const deadline = performance.now() + HANG_MS;
  while (performance.now() < deadline) {
    try {
      if (await probe()) return;
    } catch {
      // The object has crashed meanwhile.
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`Not met within ${HANG_MS} ms: ${String(probe)}`);
}

/** A second call after a crash may find the workflow terminated, which is no failure. */
export async function terminate(agent: Agent, { id }: Run, options = {}): Promise<void> {
  const wasOver = (await stateOf(id))?.status === "terminated";
  await agent.terminateWorkflow(id, options).catch((error: Error) => {
    if (!wasOver || error.message.includes("crash of a test")) throw error;
  });
}

/** Lets the workflow run until the probe holds, before anything may crash. */
export async function begun(agent: Agent, run: Run, isFar: () => unknown): Promise<void> {
  release(agent, run);
  await agent.runWorkflow("SCRIPTED_WORKFLOW", {}, { id: run.id, ifExists: "return" });
  await met(isFar);
}

/** The scenario of a workflow, which begins with the first step unless `prepare` has begun it. */
export function workflow(scenario: WorkflowScenario): ThinkScenario {
  const { body, output, status: wanted = "complete", ...rest } = scenario;
  const { prepare, steps, check, isOver } = rest;
  const watched: WorkflowBody = async (step, { workflowId: id }) => {
    await met(() => released.has(id));
    return body(watchedStep(step, id), id);
  };
  return {
    ...rest,
    prepare: async (agent, run) => {
      workflowBodies.set(run.id, watched);
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

/** Nothing is open or due in any module. */
export async function isAtRest(agent: Agent): Promise<boolean> {
  const { open } = await inspectWork(agent);
  return open.length === 0 && (await describeOpenRows(agent)).length === 0;
}

/** `status` of each submission of the agent, the oldest first. */
export async function statuses(agent: Agent): Promise<string[]> {
  return (await agent.listSubmissions()).map(({ status }) => status).reverse();
}

/** The user messages of a thread, each once and in order (L4). */
export function said(agent: Agent, thread = "main"): Promise<string[]> {
  return textsOf(agent, thread, "user");
}

/** The text of the replies there: a recovered turn continues its reply, or adds a message (L6). */
export async function replied(agent: Agent, thread = "main"): Promise<string> {
  return (await textsOf(agent, thread, "assistant")).join("");
}

async function textsOf(agent: Agent, thread: string, of: string): Promise<string[]> {
  const messages: UIMessage[] = await agent.threadMessages(thread);
  return messages
    .filter(({ role }) => role === of)
    .map(({ parts }) => parts.map((part) => (part.type === "text" ? part.text : "")).join(""));
}

/** The scripts and calls that several scenarios share. Each play has texts of its own. */
export const script = (id: string, rest: Script = {}): Script => ({ text: id, ...rest });
export const submit =
  (of: (id: string) => Script, options: object = {}) =>
  (agent: Agent, { id }: Run) =>
    agent.submitMessages([message(of(id), id)], {
      idempotencyKey: id,
      submissionId: id,
      ...options,
    });

export const statusesAre = async (agent: Agent, ...wanted: string[]) =>
  differs("the submissions are", await statuses(agent), wanted);

/** Plays of one scenario at a time. They wait for seconds, for recoveries and timeouts. */
const CONCURRENCY = sizeOf("CRASH_CONCURRENCY", 6);
/** The stride of the points of a second crash in a full run. Otherwise the first one is played. */
const STRIDE_AGAIN = 11;

/**
 * Plays the scenarios of a file. `VITE_PERDURE_CRASH_STRIDE=1` tries all points: run one file at a time then, which takes
 * some ten minutes each.
 *
 * @param verbs what these scenarios must call, together; `PLAYED` of hosts/think/crash/crash-verbs.ts
 */
export function playThinkMatrix(
  verbs: readonly string[],
  scenarios: readonly ThinkScenario[],
): void {
  afterAll(unwatch);
  playScenarios(
    "All is well after a crash at any write or delivery of",
    scenarios,
    async (scenario, index) => {
      const names = new Set<string>();
      const prepare: ThinkScenario["prepare"] = async (agent, run) => {
        names.add(run.id);
        await runInDurableObject(agent as unknown as DurableObjectStub, watchVerbs);
        await scenario.prepare?.(agent, run);
      };
      const reports = await crashes({ ...scenario, prepare }, index);
      const used = new Set([...names].flatMap((name) => [...(called.get(name) ?? [])]));
      expect(scenario.verbs.filter((verb) => !used.has(verb))).toEqual([]);
      return reports;
    },
  );
  it("the scenarios call the verbs that hosts/think/crash/crash-verbs.ts lists for this file", () => {
    const played = new Set(scenarios.flatMap((scenario) => scenario.verbs));
    expect([...played].toSorted()).toEqual(verbs.toSorted());
  });
}

/** One crash in each play, and then two, if the scenario is one of those that are crashed again. */
async function crashes(
  { soonAfter, stride, verbs: _, objects = env.ThinkAgent as never, ...scenario }: ThinkScenario,
  index: number,
): Promise<CrashReport[]> {
  const chosen = sizeOf("CRASH_STRIDE", stride);
  const all = {
    // A workflow whose event is lost to a lapsing wait asks after 110 seconds (W2), and retries of calls to an agent that is down get ever rarer.
    timeout: "4 minutes",
    ...scenario,
    check: async (agent: Agent, run: Run) => [
      ...((await scenario.check?.(agent, run)) ?? []),
      ...(await describeLeftRows(agent, scenario.expect)),
    ],
    objects,
    concurrency: CONCURRENCY,
    moments: momentsFrom(index),
  } as const;
  const once = await crashAtEveryWrite({ ...all, stride: chosen });
  if (!isCrashedAgain(index)) return [once];
  const again = chosen === 1 ? STRIDE_AGAIN : 10_000;
  return [once, await crashAtEveryWrite({ ...all, stride: again, again: soonAfter })];
}

// Writes after which a crash is always tried: each is a promise to a caller or another system.
export const ACCEPTED = /INSERT INTO perdure_submissions/;
export const CLAIMED = /UPDATE perdure_submissions SET status = 'running'/;
export const ACTED = /INSERT INTO perdure_tool_calls/;
export const TRIED = /INSERT INTO perdure_attempts/;
/** The event of an end is written with it. */
export const ENDED = /INSERT INTO perdure_outbox/;
export const BURIED = /INSERT.* INTO perdure_outbox_ended/;
export const SETTLED = /UPDATE perdure_submissions\s+SET status = \?, error = /;
export const SKIPPED = /UPDATE perdure_submissions SET status = 'skipped'/;
export const FORGOTTEN = /DELETE FROM perdure_submissions/;
export const REFUSED = /UPDATE perdure_submissions SET is_refused/;
export const BATCHED = /INSERT INTO perdure_batches/;
export const OPENED = /INSERT INTO perdure_jobs/;
export const NOTED = /UPDATE perdure_jobs SET data/;
export const CLOSED = /UPDATE perdure_jobs SET state/;
export const RUN = /INSERT.* INTO perdure_runs/;
export const DECLARED = /perdure_tasks/;
export const ANY = /./;
