/** Workflow instances of the platform, as operators read them. */

import type { WorkflowInfo } from "agents/workflows";
import { withTimeout } from "../../core/clock.ts";
import { keyPrefix } from "../../core/steps.ts";
import { hasEnded, NO_INSTANCE } from "../../outbox/destinations/workflow-event.ts";
import { messageMatches } from "../../outbox/errors.ts";
import { hasOpenTurn } from "../../submissions/store/keyed.ts";
import { hasOpenWait } from "../../workflow/waits/steps.ts";
import { STATUSES } from "../operated/lists.ts";
import type { OperatedAgent } from "../operated.ts";

/** How long the platform may take to answer. */
export const PLATFORM_MS = 2_000;

type Tracked = Pick<WorkflowInfo, "workflowName" | "workflowId" | "status">;

/** Stored with the end of a run that the agent has not terminated itself. */
export const TERMINATED_OUTSIDE = "WorkflowTerminatedError";
const TERMINATED = {
  name: TERMINATED_OUTSIDE,
  message: "It was terminated outside its agent: by the dashboard, Wrangler or the binding.",
};

/** Undefined where the Worker has no such binding any more. @throws the error of the platform */
export async function instanceOf(
  { env }: OperatedAgent,
  { workflowName, workflowId }: Omit<Tracked, "status">,
): Promise<WorkflowInstance | undefined> {
  const binding = (env as Readonly<Record<string, Workflow | undefined>>)[workflowName];
  if (typeof binding !== "object" || typeof binding.get !== "function") return undefined;
  return binding.get(workflowId);
}

/** The status as the platform has it, undefined where it cannot be read. An end that the workflow could not report is stored. */
export async function liveStatus(
  operated: OperatedAgent,
  tracked: Tracked,
): Promise<InstanceStatus | undefined> {
  const read = async (): Promise<InstanceStatus | undefined> => {
    try {
      return await (await instanceOf(operated, tracked))?.status();
    } catch (error) {
      // The platform has deleted it. It does so some time after the end.
      if (messageMatches(error, NO_INSTANCE)) return { status: "unknown" };
      throw error;
    }
  };
  try {
    const live = await withTimeout(read(), PLATFORM_MS);
    if (live && isOver(live) && !isOver(tracked)) {
      const isOutside = live.status === "terminated";
      const end = isOutside ? { ...live, error: TERMINATED } : live;
      await operated.capabilities.workflows.track(tracked, end);
    }
    return live;
  } catch (error) {
    console.warn(
      `[perdure] the status of workflow ${tracked.workflowId} could not be read:`,
      error,
    );
    return undefined;
  }
}

/** Whether the platform has nothing new to say of an instance, unless it is restarted. */
export function isOver(instance: { readonly status: string }): boolean {
  return hasEnded(instance) || instance.status === "unknown";
}

/** Of these, the platform may know more than the agent. */
export const NOT_OVER = STATUSES.filter((status) => !isOver({ status }));

/** Whether a step waits at the agent for something other than a prompt. */
export function isWaiting(
  { capabilities: { waits } }: OperatedAgent,
  tracked: Omit<Tracked, "status">,
): boolean {
  return waits.stored.some((kind) => hasOpenWait(waits.store, keyPrefix(kind, tracked)));
}

/** Whether the run goes on when its agent reports the end of a turn or a wait. */
export function isExpecting(operated: OperatedAgent, tracked: Omit<Tracked, "status">): boolean {
  const { sql } = operated.storage;
  const kinds = ["prompt", "batch"] as const;
  return (
    isWaiting(operated, tracked) || kinds.some((kind) => hasOpenTurn(sql, keyPrefix(kind, tracked)))
  );
}
