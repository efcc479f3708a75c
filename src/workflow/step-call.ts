/** What every step uses: calls of the agent that are repeated until they succeed, names that a run has used, rollbacks. */

import type { WorkflowStep } from "cloudflare:workers";
import { NonRetryableError } from "cloudflare:workflows";
import { type CallsKernel, lacksMethod } from "../core/calls.ts";
import { withTimeout } from "../core/clock.ts";
import { type Failure, failureOf } from "../core/failures.ts";
import { preview, shorten } from "../core/json.ts";
import { invalidStep, UNAWAITED } from "../core/steps.ts";
import type { StepCalls } from "./waits/protocol.ts";

/** The agent of a workflow, for its steps. */
export type StepAgent = CallsKernel<StepCalls>;

export type StepCall<Agent = StepAgent> = {
  readonly step: WorkflowStep;
  /** Asked anew for each attempt: a stub stays broken when its agent went down. */
  readonly agent: () => Agent | Promise<Agent>;
  /** The agent that started the workflow, where the step asks another one. */
  readonly starter?: StepCall["agent"];
  readonly workflowName: string;
  readonly workflowId: string;
  /** The Workflow's name on the platform. Receipts hold it, so that a check finds a Workflow that was renamed. */
  readonly deployedAs: string;
  /** Identifies this run of the workflow for a kind of wait, see {@link runOf}. */
  readonly run: (kind: string) => Promise<string>;
  readonly name: string;
  /** The names and keys that this run has used, see {@link useName}. */
  readonly used: Set<string>;
};

/** Makes the call of a step. */
export type CallOf = (name: string) => StepCall;

/** Key of the call factory of a {@link ThinkWorkflow}'s step. A symbol, so that a proxy or a copy of the step has it, too. */
export const CALL_OF: unique symbol = Symbol("perdure.call");

/**
 * One step of Perdure, made of the step that `run()` receives: for the steps of entries of their own.
 *
 * @throws NonRetryableError for a step of another workflow class
 */
export function callOf<Agent>(step: WorkflowStep, name: string): StepCall<Agent> {
  const make = (step as { [CALL_OF]?: (name: string) => StepCall<Agent> })[CALL_OF];
  if (make) return make(name);
  throw new NonRetryableError(
    `The step ${preview(name)} got a step that is not Perdure's. Pass on the step that run() of a ThinkWorkflow receives.`,
    "InvalidStepError",
  );
}

/**
 * Identifies a run of a workflow; a restart has another one. A step of the platform stores it, except for a prompt, whose
 * `submit` stores all that a replay needs. So a prompt that fails while the engine restarts within that step is tried again.
 *
 * @param locate called once, before the first step
 */
export function runOf(step: WorkflowStep, locate?: () => Promise<void>): StepCall["run"] {
  const drawn = crypto.randomUUID();
  const located = once(async () => locate?.());
  const stored = once(() => step.do("perdure:run", async () => drawn));
  return async (kind) => {
    await located();
    return kind === "prompt" ? drawn : stored();
  };
}

function once<T>(work: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined;
  return () => {
    result ??= work();
    return result;
  };
}

const REPORT_MS = 10_000;

/** Whether the platform has stopped a run that may go on: it was paused, restarted or terminated. Part of its own message. */
export function isStopped(message: string): boolean {
  return /^Aborting engine: (User called|Grace period)/.test(message);
}

/**
 * Runs a workflow, reports to its agent how it ended, and warns of calls that were not awaited; what it returns or throws
 * stays. Outside a step, which the platform bills: an end that cannot be reported is found when an operator lists the workflow.
 *
 * @param reported the error that the app has reported itself
 */
export async function reportingEnd<Result>(
  work: () => Promise<Result>,
  { step, agent, workflowId }: Pick<StepCall, "step" | "agent" | "workflowId">,
  reported: () => Failure | null = () => null,
): Promise<Result> {
  const end = async (failure: Failure | null) => {
    const report = async () => (await agent()).callKernel("finishWorkflowRun", workflowId, failure);
    // A stub stays broken when its agent went down.
    await withTimeout(report().catch(report), REPORT_MS).catch((cause: unknown) => {
      console.warn(`[perdure] the end of workflow ${workflowId} was not reported:`, cause);
    });
  };
  let result: Result;
  try {
    result = await work();
  } catch (error) {
    const failure = failureOf(error);
    if (!isStopped(failure.message)) await end(failure);
    throw error;
  }
  const unawaited = (step as { [UNAWAITED]?: Map<unknown, string> })[UNAWAITED]?.values() ?? [];
  const calls = [...unawaited].join(", ");
  if (calls) console.warn(`[perdure] workflow ${workflowId} did not await ${shorten(calls)}.`);
  await end(reported());
  return result;
}

/** In the retries of each call of the agent, by which a replay recognizes it. Registered: a build has a copy of this module. */
export const AGENT_CALL: unique symbol = Symbol.for("perdure.agentCall");

/** A call of the agent fails when a deploy or a crash takes the agent down. It is idempotent, and the agent is back in a moment. */
const AGENT_CALL_RETRIES = {
  limit: 12,
  delay: 500,
  backoff: "exponential",
  [AGENT_CALL]: true,
} as const;

/**
 * `step.do()` for what the agent returns: JSON, though its type has an `unknown` that the platform's type refuses.
 *
 * @param rollback undoes what the step has returned, when the workflow fails or is terminated so
 * @throws NonRetryableError for what the agent refuses; the platform's own way to say so loses the reason
 */
export async function durably<T>(
  step: WorkflowStep,
  name: string,
  work: () => Promise<T>,
  rollback?: (result: T) => Promise<void>,
): Promise<T> {
  const done = async () => {
    try {
      return plain(await work()) as never;
    } catch (error) {
      if (!isRefusal(error)) throw error;
      return { [REFUSED]: { name: error.name, message: reasonOf(error) } } as never;
    }
  };
  const config = { retries: AGENT_CALL_RETRIES };
  const undo = async ({ output }: { output: unknown }) => {
    if (output !== undefined && !isRefused(output)) await rollback?.(output as T);
  };
  const undone = rollback && { rollback: undo, rollbackConfig: config };
  const result: unknown = await (undone
    ? step.do(name, config, done, undone)
    : step.do(name, config, done));
  if (!isRefused(result)) return result as T;
  const { name: errorName, message } = result[REFUSED];
  throw new NonRetryableError(message, errorName);
}

const REFUSED = "perdure:refused";

function isRefused(result: unknown): result is { [REFUSED]: Pick<Error, "name" | "message"> } {
  return typeof result === "object" && result !== null && REFUSED in result;
}

/** Errors of an agent for invalid input, by their names over RPC. */
const REFUSALS: ReadonlySet<string> = new Set([
  "FeatureNotInstalledError",
  "InvalidApprovalError",
  "InvalidDestinationError",
  "InvalidEventError",
  "InvalidWaitError",
  "InvalidOptionError",
  "InvalidSubmissionError",
  "NotSupportedByHostError",
]);

/** Whether the agent would refuse the call again. By its exact name: the app and the platform have errors with similar names. */
export function isRefusal(error: unknown): error is Error {
  if (!(error instanceof Error)) return false;
  return REFUSALS.has(error.name) || lacksMethod(error, "callKernel");
}

function reasonOf(error: Error): string {
  if (!lacksMethod(error, "callKernel")) return error.message;
  return `${error.message.replace(/[.]+$/, "")}. Its class has to extend a host of Perdure, e.g. DurableThink.`;
}

/** A copy without the remote handle that an RPC result carries, which would outlive its call. */
export function plain<T>(result: T): T {
  try {
    return structuredClone(result);
  } finally {
    (result as Partial<Disposable> | null)?.[Symbol.dispose]?.();
  }
}

/**
 * Notes that the run uses a step's name and key. Each stands for one step, so that no answer is taken for another's. In
 * memory, because a replay uses the same names again. Called before anything is awaited, so that steps that start together
 * are distinguished by the order of the calls.
 *
 * @param kind the method of the step, e.g. `"prompt"`
 * @param keys the keys of its items, of a step that has many
 * @throws NonRetryableError where this run has used the name and key before, also for the same request
 */
export function useName(
  { name, used }: Pick<StepCall, "name" | "used">,
  kind: string,
  key: string | undefined,
  keys?: readonly string[],
): void {
  const id = JSON.stringify([kind, name, keys ?? key]);
  if (!used.has(id)) {
    used.add(id);
    return;
  }
  const withKey = keys ? " with the same keys of items" : key && ` with the key ${preview(key)}`;
  const remedy = keys
    ? "give the items other keys, or the step another name"
    : "in a loop, pass a different `key` each time";
  throw invalidStep(
    kind,
    `step.${kind}(${preview(name)}) was used before in this run of the workflow${withKey ?? ""}. ` +
      `Step names must be unique within a run: ${remedy}.`,
  );
}

/** Undoes what a step has done. Tried again when it throws, so it must be idempotent. It can call `this.agent`, and no step. */
export type Rollback<Result> = (result: Result) => Promise<void>;

/** Returns the step's value. Where a rollback is given, makes a step of the platform that has it; the value stays in the workflow. */
export async function compensated<Value>(
  step: WorkflowStep,
  name: string,
  value: Value,
  rollback: Rollback<Value> | undefined,
): Promise<Value> {
  if (rollback) {
    await step.do(name, async () => null, {
      rollback: () => rollback(value),
      rollbackConfig: { retries: AGENT_CALL_RETRIES },
    });
  }
  return value;
}
