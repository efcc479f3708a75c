/** Restarts of workflows: where a run stopped, and which of its steps a restart runs again. */

import type { WorkflowInfo } from "agents/workflows";
import { preview } from "../../core/json.ts";
import { keyPrefix, partName } from "../../core/steps.ts";
import type { FromStep } from "../../engine/operated/catalog.ts";
import type { RunsAgain } from "../../engine/operated/effect.ts";
import { endRun as endRunIn } from "../../submissions/store/keyed.ts";
import { isOfEndedRun } from "../../workflow/waits/closings.ts";
import { endRun as endRunOfWaits } from "../../workflow/waits/steps.ts";
import type { OperatedAgent } from "../operated.ts";
import type { WorkflowStep } from "../protocol.ts";
import { instanceOf } from "./instances.ts";
import { isPartOf, type ReadSteps, readSteps } from "./steps.ts";

/** Steps that run again, as a result has them. */
const MAX_AGAIN = 100;

/** Names a step of the app; undefined for the beginning. */
type Place = { readonly name: string; readonly count?: number | undefined };

/**
 * Restarts a run from a step. What its steps have asked for since then counts as asked for by an earlier run, as after a restart
 * from the beginning: a prompt that has failed is tried again, an approval is requested again.
 *
 * @param id of the restart
 * @throws Error where the run cannot be restarted from there, or that of the platform
 */
export async function restartFrom(
  operated: OperatedAgent,
  tracked: WorkflowInfo,
  from: FromStep,
  id: string,
): Promise<void> {
  const { workflowName, workflowId } = tracked;
  const instance = await instanceOf(operated, tracked);
  if (!instance) {
    const problem = `Workflow binding ${preview(workflowName)} is not in the environment of this Worker.`;
    throw new Error(`${problem} Add it to the Wrangler configuration.`);
  }
  if (typeof instance.restart !== "function") {
    const problem = "This platform cannot restart a workflow from a step.";
    throw new Error(`${problem} Restart it from the beginning instead.`);
  }
  const read = await readSteps(operated, tracked);
  const place = placeOf(from, read, tracked);
  if (!place) return operated.agent.restartWorkflow(workflowId);
  const { startedAt, ...point } = pointOf(read, place);
  // Before the restart, after which the steps ask the agent.
  if (startedAt !== undefined) endRun(operated, tracked, startedAt, `restart-${id}`);
  await instance.restart({ from: point });
  // Reads the new status, and tracks it.
  await operated.host.getWorkflowStatus(workflowName as never, workflowId);
}

/** The steps that a restart runs again. */
export async function runsAgain(
  operated: OperatedAgent,
  tracked: WorkflowInfo,
  from: FromStep | undefined,
): Promise<RunsAgain> {
  const read = await readSteps(operated, tracked);
  const place = placeOf(from, read, tracked);
  const since = place && pointOf(read, place).startedAt;
  const again = read.steps.filter(
    (step) =>
      repeats(step) &&
      (since === undefined || step.startedAt >= since || (step.kind === "do" && isOpen(step))),
  );
  return {
    from: place?.name ?? null,
    steps: again.slice(0, MAX_AGAIN).map(({ name, kind }) => ({ name, kind })),
    count: again.length,
    isComplete: read.platform !== undefined,
  };
}

const isOpen = ({ endedAt }: WorkflowStep) => endedAt === undefined;

/** Whether a restart before a step has it act, ask or wait again. What has completed at the agent answers a later run. */
function repeats({ kind, status, endedAt }: WorkflowStep): boolean {
  if (kind === "do" || kind === "event") return true;
  if (kind === "sleep" || endedAt === undefined) return false;
  return kind === "approval" || status !== "completed";
}

const FAILED: ReadonlySet<string> = new Set([
  ...["failed", "expired", "cancelled", "refused"],
  ...["error", "aborted", "skipped"],
]);

/** The step at which a run stopped: the one that failed it, one that has not ended, or the last one. @internal */
export function stopOf(steps: readonly WorkflowStep[]): WorkflowStep | undefined {
  const inOrder = steps.toSorted((one, other) => one.startedAt - other.startedAt);
  // What the end of the run has cancelled has not failed it.
  const failed = inOrder.filter(({ status, error }) => FAILED.has(status) && !isOfEndedRun(error));
  // After a failure that the code has caught, further steps have started.
  const uncaught = failed.find(
    ({ endedAt = 0 }) => !inOrder.some(({ startedAt }) => startedAt > endedAt),
  );
  return uncaught ?? inOrder.filter(isOpen).at(-1) ?? inOrder.at(-1);
}

/** Undefined: the beginning. @throws Error where the run has not stopped, or it is not known where */
function placeOf(from: FromStep | undefined, read: ReadSteps, tracked: WorkflowInfo) {
  if (from === "failed") return placeOfStop(read, tracked);
  return from === "start" ? undefined : from;
}

/** @throws Error where the run has not stopped, or it is not known where */
function placeOfStop({ steps, platform }: ReadSteps, tracked: WorkflowInfo): Place | undefined {
  const { workflowId, status } = tracked;
  const remedy = "Restart it from a step, or from its beginning.";
  if (status === "complete")
    throw new Error(`Workflow ${preview(workflowId)} has completed: no step failed. ${remedy}`);
  if (platform === undefined)
    throw new Error(
      `The platform does not list the steps of workflow ${preview(workflowId)}, so it is not known where it stopped. ${remedy}`,
    );
  const stop = stopOf(steps);
  const hasStopped = stop && (isOpen(stop) || FAILED.has(stop.status));
  // The run stands in a part of a step, e.g. where it has not taken an end that the agent has.
  const part = hasStopped ? undefined : platform.findLast(isOpen);
  return part ?? stop;
}

/** A step of the platform from which a workflow is restarted. */
type RestartPoint = {
  readonly name: string;
  readonly count?: number;
  readonly type?: "do" | "sleep" | "waitForEvent";
  /** Undefined where it is not known. What came after it is asked again. */
  readonly startedAt: number | undefined;
};

/** A step that waits at the agent consists of several of the platform. The first of them asks the agent. */
function pointOf({ steps, platform = [] }: ReadSteps, { name, count = 1 }: Place): RestartPoint {
  const found = platform.find((step) => step.name === name && (step.count ?? 1) === count);
  if (found) {
    const { kind, startedAt } = found;
    const type = kind === "event" ? "waitForEvent" : (kind as "do");
    return { name, count, type, startedAt };
  }
  const first = platform.find((step) => isPartOf(step.name, name));
  const own = steps.find((step) => step.name === name);
  if (first) {
    const startedAt = Math.min(own?.startedAt ?? first.startedAt, first.startedAt);
    return { name: first.name, startedAt };
  }
  if (!own) return { name, count, startedAt: undefined };
  // Without the events of the platform, the name is that of a step without a key.
  const part = partName({ kind: own.kind, stepName: name, key: undefined }, "submit");
  return { name: part, startedAt: own.startedAt };
}

function endRun(
  { storage, capabilities }: OperatedAgent,
  tracked: WorkflowInfo,
  since: number,
  run: string,
): void {
  const { sql } = storage;
  storage.transactionSync(() => {
    for (const kind of capabilities.waits.stored)
      endRunOfWaits(capabilities.waits.store, keyPrefix(kind, tracked), since, run);
    for (const kind of ["prompt", "batch"] as const)
      endRunIn(sql, keyPrefix(kind, tracked), since, run);
  });
}
