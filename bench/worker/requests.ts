/** The requests of the script to the worker, by name, with arguments and results in JSON. */

import { engineSteps } from "../../test/support/engine-steps.ts";
import type { AgentVerbs } from "./agent-verbs.ts";
import { type Cost, countedName } from "./cost.ts";
import type { Env } from "./env.ts";
import { ledgerRequests } from "./ledger-requests.ts";
import { turnRequests } from "./limited-turns.ts";
import { declareMany, type Reconciled } from "./loaded-scheduler.ts";
import { ends, found, modelSpans, steps } from "./marks.ts";
import { asked } from "./timed-model.ts";
import type { PairsParams, PromptsParams } from "./workflows.ts";

/** The implementation of the agent. */
export type Kind = "perdure" | "built-in";

/** Isolated prompts, pairs of the engine's own steps, and such pairs whose event is sent as a delivery of ours is. */
export type StepKind = "prompts" | "pairs" | "pairs that ask";

/** The methods of both kinds of stubs. The compiler cannot resolve the types of the classes. */
type BenchStub = {
  readonly verbs: { [Verb in Exclude<keyof AgentVerbs, symbol>]: AgentVerbs[Verb] } & Disposable;
  startPrompts(id: string, params: PromptsParams): Promise<string>;
  fill(count: number): Promise<void>;
  stop(): Promise<void>;
  die(): Promise<void>;
  declare(schedule: string, count: number): Promise<number>;
};

/** A turn that runs during the whole measure. */
const HELD_MS = 3_600_000;

export type Requests = typeof requests;

export const requests = {
  /** The cost of a warm prompt and of a warm bare turn. */
  async promptCost(env: Env, { kind }: { kind: Kind }): Promise<{ prompt: Cost; turn: Cost }> {
    const agent = agentOf(env, kind, countedName());
    await prompt(agent);
    const cost = await counted(agent, () => prompt(agent));
    const other = agentOf(env, kind, countedName());
    await other.verbs.turn();
    return { prompt: cost, turn: await counted(other, () => other.verbs.turn()) };
  },

  /** The statements of the first turn after a restart, and of the same turn on an object that is warm. */
  async coldTurn(env: Env, { kind }: { kind: Kind }): Promise<{ cold: number; warm: number }> {
    const name = countedName();
    await agentOf(env, kind, name).verbs.turn();
    const warm = agentOf(env, kind, name);
    const { statements } = await counted(warm, () => warm.verbs.turn());
    await warm.die().catch(() => {});
    const cold = agentOf(env, kind, name);
    await cold.verbs.turn();
    return { cold: (await cold.verbs.cost()).statements, warm: statements };
  },

  /** The steps of the engine that a workflow with one prompt takes. */
  async engineSteps(env: Env, { kind }: { kind: Kind }): Promise<number> {
    const id = newId();
    await agentOf(env, kind, crypto.randomUUID()).startPrompts(id, { texts: [asked(50)] });
    await ended(id);
    return engineSteps.get(id) ?? Number.NaN;
  },

  /** The cost of a warm isolated prompt on a plain agent. */
  async isolatedCost({ PlainAgent }: Env): Promise<Cost> {
    const agent = PlainAgent.getByName(countedName());
    const isolated = async () => {
      const id = newId();
      await agent.startPrompts(id, { texts: [asked(50)], thread: "isolated" });
      await ended(id);
    };
    await isolated();
    await agent.reset();
    await isolated();
    return agent.cost();
  },

  /** The total cost of acceptances, while a turn runs and others wait. */
  async submitCost(
    env: Env,
    { kind, pending, times }: { kind: Kind; pending: number; times: number },
  ): Promise<Cost> {
    const agent = await heldAgent(env, kind, countedName());
    await agent.fill(pending);
    // The first one arms the wake of the burst.
    await agent.verbs.submit([asked(0)]);
    const texts = Array.from({ length: times }, () => asked(0));
    const cost = await counted(agent, () => agent.verbs.submitApart(texts));
    await agent.stop();
    return cost;
  },

  /** The time until all are accepted, in milliseconds. */
  async submitTime(env: Env, { kind, count }: { kind: Kind; count: number }): Promise<number> {
    const agent = await heldAgent(env, kind, crypto.randomUUID());
    const texts = Array.from({ length: count }, () => asked(0));
    const ms = await agent.verbs.submit(texts);
    await agent.stop();
    return ms;
  },

  /** The time from the end of the model's answer until the workflow resumes, with other turns queued. */
  async resume(
    env: Env,
    { kind, behind, delayMs }: { kind: Kind; behind: number; delayMs: number },
  ): Promise<number> {
    const agent = agentOf(env, kind, crypto.randomUUID());
    const id = newId();
    const text = asked(delayMs);
    await agent.startPrompts(id, { texts: [text] });
    await found(() => modelSpans.get(text));
    await agent.verbs.submit(Array.from({ length: behind }, () => asked(delayMs)));
    await ended(id);
    await agent.stop();
    const resumed = steps.get(id)?.at(0)?.to ?? Number.NaN;
    return resumed - (modelSpans.get(text)?.to ?? Number.NaN);
  },

  /** The time of each prompt beyond its model, on an agent that has run one before. */
  async latencies(
    env: Env,
    { kind, count, delayMs }: { kind: Kind; count: number; delayMs: number },
  ): Promise<number[]> {
    const agent = agentOf(env, kind, crypto.randomUUID());
    const id = newId();
    const texts = Array.from({ length: count + 1 }, () => asked(delayMs));
    await agent.startPrompts(id, { texts });
    await ended(id);
    const spans = steps.get(id) ?? [];
    const latencies = texts.map((text, index) => {
      const { from = Number.NaN, to = Number.NaN } = modelSpans.get(text) ?? {};
      const step = spans[index];
      return step ? step.to - step.from - (to - from) : Number.NaN;
    });
    return latencies.slice(1);
  },

  /** The duration of each step of one workflow, in milliseconds. */
  async stepTimes(env: Env, { of, count }: { of: StepKind; count: number }): Promise<number[]> {
    const id = newId();
    if (of !== "prompts") {
      const params: PairsParams = { count, asksFirst: of === "pairs that ask" };
      await env.ENGINE_WORKFLOW.create({ id, params });
    } else {
      const texts = Array.from({ length: count }, () => asked(0));
      await env.PlainAgent.getByName(id).startPrompts(id, { texts, thread: "isolated" });
    }
    await ended(id);
    return (steps.get(id) ?? []).map(({ from, to }) => to - from);
  },

  /** The time of Think's own implementation to reconcile new tasks, in milliseconds. */
  async declareTime(
    env: Env,
    { schedule, count }: { schedule: string; count: number },
  ): Promise<number> {
    const agent = agentOf(env, "built-in", crypto.randomUUID());
    await agent.declare("every 15 minutes", 0);
    const ms = await agent.declare(schedule, count);
    await agent.declare("every 15 minutes", 0);
    return ms;
  },

  /** The cost of reconciling unchanged tasks: again, and after a restart. */
  async reconcile(
    { LoadedScheduler }: Env,
    { count }: { count: number },
  ): Promise<{ same: Reconciled; next: Reconciled }> {
    const name = crypto.randomUUID();
    declareMany(name, count);
    await LoadedScheduler.getByName(name).reconciled();
    const same = await LoadedScheduler.getByName(name).reconciled();
    await LoadedScheduler.getByName(name)
      .die()
      .catch(() => {});
    return { same, next: await LoadedScheduler.getByName(name).reconciled() };
  },

  /** The cost of reconciling unchanged tasks in Think's own implementation. */
  async reconcileBuiltIn(env: Env, { count }: { count: number }): Promise<Cost & { ms: number }> {
    const agent = agentOf(env, "built-in", countedName());
    await agent.declare("every 15 minutes", count);
    let ms = 0;
    const cost = await counted(agent, async () => {
      ms = await agent.declare("every 15 minutes", count);
    });
    await agent.declare("every 15 minutes", 0);
    return { ...cost, ms };
  },

  ...ledgerRequests,
  ...turnRequests,
};

function agentOf(env: Env, kind: Kind, name: string): BenchStub {
  const namespace = kind === "perdure" ? env.PerdureAgent : env.BuiltInBench;
  return (namespace as unknown as DurableObjectNamespace).getByName(name) as unknown as BenchStub;
}

/** An agent with a turn that does not end. */
async function heldAgent(env: Env, kind: Kind, name: string): Promise<BenchStub> {
  const agent = agentOf(env, kind, name);
  const text = asked(HELD_MS);
  await agent.verbs.submit([text]);
  await found(() => modelSpans.get(text));
  return agent;
}

async function counted(agent: BenchStub, work: () => Promise<unknown>): Promise<Cost> {
  await agent.verbs.reset();
  await work();
  return agent.verbs.cost();
}

async function prompt(agent: BenchStub): Promise<void> {
  const id = newId();
  await agent.startPrompts(id, { texts: [asked(50)] });
  await ended(id);
}

/** Waits for the end of a workflow, and throws its error. */
async function ended(id: string): Promise<void> {
  const end = await found(() => ends.get(id));
  if (end !== "complete") throw end;
}

function newId(): string {
  return `bench-${crypto.randomUUID()}`;
}
