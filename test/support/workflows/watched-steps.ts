/** The platform's steps of a workflow as its test sees them, and holds them up, by the id of the instance. */

import type { AgentWorkflowStep } from "agents/workflows";

/** Names of the steps that have been run or replayed in the latest run. */
export const stepsOf = new Map<string, string[]>();

/** Runs before each step: what it returns holds the workflow up. */
export type BeforeStep = (name: string) => Promise<unknown> | undefined;

export const beforeStep = new Map<string, BeforeStep>();

/** Holds an instance up before it waits for its event, until the state is reached. */
export function holdWait(id: string, reached: () => Promise<unknown>): void {
  beforeStep.set(id, (name) => (name.endsWith("wait") ? reached() : undefined));
}

export function watchSteps(step: AgentWorkflowStep, id: string): void {
  const names: string[] = [];
  stepsOf.set(id, names);
  for (const kind of ["do", "waitForEvent"] as const) {
    // A method of the engine's stub: it has no bind() of its own.
    const run = step[kind];
    const noted = async (name: string, ...rest: unknown[]) => {
      names.push(name);
      await beforeStep.get(id)?.(name);
      return Reflect.apply(run, step, [name, ...rest]) as Promise<unknown>;
    };
    Object.assign(step, { [kind]: noted });
  }
}
