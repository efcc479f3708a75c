/** Workflow instances of the platform, as operators read them. */

import type { WorkflowInfo } from "agents/workflows";
import { withTimeout } from "../core/timeout.ts";
import type { OperatedAgent } from "./operated.ts";

/** How long the platform may take to answer. */
export const PLATFORM_MS = 2_000;

type Tracked = Pick<WorkflowInfo, "workflowName" | "workflowId">;

/** Undefined where the Worker has no such binding any more. @throws the error of the platform */
export async function instanceOf(
  { env }: OperatedAgent,
  { workflowName, workflowId }: Tracked,
): Promise<WorkflowInstance | undefined> {
  const binding = (env as Readonly<Record<string, Workflow | undefined>>)[workflowName];
  if (typeof binding !== "object" || typeof binding.get !== "function") return undefined;
  return binding.get(workflowId);
}

/** The status as the platform has it; undefined where it cannot be read, e.g. because the platform has deleted the instance. */
export async function liveStatus(
  operated: OperatedAgent,
  tracked: Tracked,
): Promise<InstanceStatus | undefined> {
  const read = async () => (await instanceOf(operated, tracked))?.status();
  try {
    return await withTimeout(read(), PLATFORM_MS);
  } catch (error) {
    console.warn(
      `[perdure] the status of workflow ${tracked.workflowId} could not be read:`,
      error,
    );
    return undefined;
  }
}
