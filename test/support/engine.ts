/** Restarts, pauses and results of workflow instances. */

import { until } from "./given.ts";
import { HANG_MS } from "./sizes.ts";

/** A step of the platform, by its name and what made it. */
export type StepAt = { name: string; type?: "do" | "sleep" | "waitForEvent" };

/** The instance is restarted from a step. Steps before it are not run again. */
export async function restartFrom(workflow: Workflow, id: string, step: StepAt): Promise<void> {
  const instance = await workflow.get(id);
  await instance.restart({ from: { name: step.name, type: step.type ?? "do" } });
}

/** The instance is paused at its wait, and resumed after `meanwhile`. */
export async function pauseAndResume(
  workflow: Workflow,
  id: string,
  meanwhile: () => Promise<void> = async () => {},
): Promise<void> {
  const instance = await workflow.get(id);
  await instance.pause();
  await until(async () => (await instance.status()).status === "paused");
  await meanwhile();
  await instance.resume();
}

/** Waits for the end of the instance. Returns its output, or throws its error. */
export async function outputOf<T>(workflow: Workflow, id: string, timeoutMs = HANG_MS): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    // A handle does not outlive its engine.
    const { status, output, error } = await (await workflow.get(id)).status();
    if (status === "complete") return output as T;
    if (status === "errored" || status === "terminated") {
      throw new Error(`${status}: ${error?.name}: ${error?.message}`);
    }
    if (performance.now() > deadline) throw new Error(`The workflow ${id} is ${status}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Waits until the instance is in one of these states. */
export function reached(workflow: Workflow, id: string, ...states: InstanceStatus["status"][]) {
  return until(async () => {
    const found = await (await workflow.get(id)).status();
    return states.includes(found.status) && found;
  });
}
