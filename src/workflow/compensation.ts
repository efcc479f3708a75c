/**
 * Compensation by the platform's own step rollback: what a step has done is
 * undone when the workflow fails later, or is terminated with `rollback: true`.
 * The platform runs the handlers of the steps that were begun, the latest
 * first, each once to its success, also in another life of the engine; the
 * first that fails for good ends it.
 *
 * https://developers.cloudflare.com/workflows/build/workers-api/
 */

import type { AgentWorkflowStep } from "agents/workflows";
import { invalidStep } from "./step-call.ts";

/**
 * Undoes what a step has done. Tried again when it throws, so it must be
 * idempotent. `this.agent` can be called in it, and no step: the run is over.
 */
export type Rollback<Result> = (result: Result) => Promise<void>;

/** An agent that is down is back in a moment. */
const RETRIES = { limit: 12, delay: 500, backoff: "exponential" } as const;

/**
 * Hands the step's value on, and where a handler is given, makes a step of the
 * platform that has it. The value stays in the workflow: of any size, with the types that its schema gave it.
 */
export async function compensated<Value>(
  step: AgentWorkflowStep,
  partName: () => Promise<string>,
  value: Value,
  rollback: Rollback<Value> | undefined,
): Promise<Value> {
  if (rollback) {
    await step.do(await partName(), async () => null, {
      rollback: () => rollback(value),
      rollbackConfig: { retries: RETRIES },
    });
  }
  return value;
}

/** @throws NonRetryableError for what is no function */
export function checkRollback(kind: string, name: string, rollback: unknown): void {
  if (rollback === undefined || typeof rollback === "function") return;
  throw invalidStep(
    kind,
    name,
    `got ${typeof rollback} as rollback; expected a function that takes the result.`,
  );
}
