/** Histories of runs of workflows, and what a replay of other code finds. */

import { runInDurableObject } from "cloudflare:test";
import type { AgentWorkflowEvent } from "agents/workflows";
import { historyOf } from "../../../src/features/deploy/history/history.ts";
import type { ReplayProblem, WorkflowHistory } from "../../../src/features/deploy/types.ts";
import { CAPABILITIES } from "../../../src/hosts/verbs.ts";
import { replayWorkflow, type WorkflowClass } from "../../../src/testing/index.ts";
import { ThinkWorkflow, type ThinkWorkflowStep } from "../../../src/workflow/index.ts";
import { until } from "../given.ts";
import { HANG_MS } from "../sizes.ts";
import type { ThinkAgent } from "../think-agent.ts";
import type { WorkflowBody } from "./scripted-workflow.ts";

/** The history of a run, as its agent puts it together. */
export async function historyIn(stub: DurableObjectStub, id: string): Promise<WorkflowHistory> {
  const history = await runInDurableObject(stub, (agent) =>
    historyOf((agent as unknown as ThinkAgent)[CAPABILITIES], id),
  );
  if (!history) throw new Error(`The agent does not track the workflow ${id}`);
  return history;
}

/** The same, once a step has this status. */
export async function historyAt(
  stub: DurableObjectStub,
  id: string,
  name: string,
  status: "open" | "completed" | "failed" | "expired" = "open",
): Promise<WorkflowHistory> {
  return until(async () => {
    const history = await historyIn(stub, id);
    return history.platform.some((step) => step.name === name && step.status === status) && history;
  });
}

/** A workflow class with this code. */
export function codeOf(body: (step: ThinkWorkflowStep, self: never) => Promise<unknown>) {
  return class extends ThinkWorkflow {
    override run(_event: AgentWorkflowEvent<unknown>, step: ThinkWorkflowStep): Promise<unknown> {
      return (body as WorkflowBody)(step, this as never);
    }
  };
}

/** The problems of a replay, in short: `severity problem: step`. */
export async function problemsOf(
  body: (step: ThinkWorkflowStep, self: never) => Promise<unknown>,
  history: WorkflowHistory,
): Promise<string[]> {
  const { problems } = await replayWorkflow(codeOf(body), history, { timeout: HANG_MS });
  return problems.map(shown);
}

export function shown({ severity, problem, step }: ReplayProblem): string {
  return `${severity} ${problem}: ${step}`;
}

/** Histories of a run at several points of it, taken until `isOver`. Those that are alike are taken once. */
export async function historiesOf(
  stub: () => DurableObjectStub,
  id: string,
  isOver: () => Promise<boolean>,
): Promise<WorkflowHistory[]> {
  const histories = new Map<string, WorkflowHistory>();
  for (let last = false; ; ) {
    const history = await historyIn(stub(), id).catch(() => undefined);
    const states = history?.platform.map(({ name, kind, status }) => `${name} ${kind} ${status}`);
    if (history) histories.set(JSON.stringify([states, history.status]), history);
    if (last) return [...histories.values()];
    last = await isOver();
  }
}

/** The same history as it was at each earlier point of the run: after each start and each end of a step. */
export function pointsOf(history: WorkflowHistory): WorkflowHistory[] {
  const events = history.platform.flatMap((step, place) => [
    { at: step.startedAt, place, isEnd: false },
    ...(step.endedAt === undefined ? [] : [{ at: step.endedAt, place, isEnd: true }]),
  ]);
  events.sort((one, other) => one.at - other.at || one.place - other.place);
  return events.map((_, last) => {
    const past = events.slice(0, last + 1);
    const platform = history.platform.flatMap((step, place) => {
      const own = past.filter((event) => event.place === place);
      if (own.some(({ isEnd }) => isEnd)) return [step];
      const { name, count, kind, startedAt } = step;
      return own.length > 0 ? [{ name, count, kind, startedAt, status: "open" as const }] : [];
    });
    const now = events[last]?.at ?? 0;
    const asked = history.asked.filter(({ startedAt }) => startedAt <= now);
    return { ...history, status: "running", platform, asked };
  });
}

/** The problems that a class has with a run at each point of it, each with the last steps of the run there. */
export async function problemsAtAllPoints(
  Class: WorkflowClass,
  history: WorkflowHistory,
): Promise<string[]> {
  const problems: string[] = [];
  for (const at of [history, ...pointsOf(history)]) {
    const states = at.platform.map(({ name, status }) => `${name} ${status}`);
    for (const problem of (await replayWorkflow(Class, at, { timeout: HANG_MS })).problems) {
      problems.push(`${shown(problem)}: ${problem.text} [${states.slice(-3).join()}]`);
    }
  }
  return problems;
}
