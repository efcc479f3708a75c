/**
 * The history of a run of a workflow. It is put together at each request: the platform has recorded the steps with
 * their outputs, and the rows of the agent have what the steps of Perdure have asked for. Nothing is stored for it.
 */

import { bindingOf, WORKFLOW } from "../../../outbox/destinations/bindings.ts";
import type { Kernel } from "../../../workflow/agent/kernel.ts";
import type { RunStart, WorkflowHistory } from "../types.ts";
import { askedSteps } from "./asked.ts";
import { Budget, MOST_STEPS } from "./budget.ts";
import { platformHistory } from "./platform.ts";

/** The step that records the version of a run. */
const VERSION_STEP = "perdure:version";

/**
 * @param workflowId an instance that the agent tracks
 * @returns null for one that it does not track
 */
export async function historyOf(
  kernel: Pick<Kernel, "agent" | "env" | "submissions" | "waits">,
  workflowId: string,
): Promise<WorkflowHistory | null> {
  const tracked = kernel.agent.getWorkflow(workflowId);
  if (!tracked) return null;
  const { workflowName } = tracked;
  const budget = new Budget();
  const find = async () => bindingOf(kernel.env, WORKFLOW, workflowName).get(workflowId);
  const { steps: recorded, params = null, status } = await platformHistory(find, budget);
  const steps = [...recorded.values()].slice(0, MOST_STEPS);
  const asked = await askedSteps(kernel, steps, budget);
  const names = steps.map(({ output }) => (Object(output) as { deployedAs?: unknown }).deployedAs);
  const start = steps.find(({ name }) => name === VERSION_STEP)?.output;
  return {
    workflow: workflowName,
    workflowId,
    deployedAs: names.find((name) => typeof name === "string"),
    version: (start as RunStart | undefined)?.version ?? null,
    status: status ?? tracked.status,
    startedAt: tracked.createdAt.getTime(),
    params,
    platform: steps,
    asked,
    isCut: budget.isCut,
  };
}
