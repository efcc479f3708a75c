/** Counts the steps of workflows, which the platform bills. In the memory of the isolate, which all objects of a local runtime share. */

import type { WorkflowStep } from "cloudflare:workers";

/** By the instance's id. */
export const engineSteps = new Map<string, number>();

/** Counts each `do`, `sleep` and `waitForEvent` of a run from now on. */
export function countSteps(id: string, step: WorkflowStep): void {
  engineSteps.set(id, 0);
  for (const name of ["do", "sleep", "sleepUntil", "waitForEvent"] as const) {
    const made = step[name] as (...args: unknown[]) => Promise<unknown>;
    const counted = (...args: unknown[]) => {
      engineSteps.set(id, (engineSteps.get(id) ?? 0) + 1);
      return Reflect.apply(made, step, args);
    };
    Object.assign(step, { [name]: counted });
  }
}
