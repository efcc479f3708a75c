/** What an agent provides for the agent tools of its workflows: its own public methods, and those of the child. */

import { exports } from "cloudflare:workers";
import type { Agent } from "agents";
import type {
  AgentToolChildAdapter,
  AgentToolDisplayMetadata,
  ChatCapableAgentClass,
} from "agents/agent-tools";
import { withTimeout } from "../../core/clock.ts";
import type { Json } from "../../core/json.ts";
import type { AgentToolProgress } from "../../workflow/agent-tool.ts";
import type { WaitWorkflow } from "../../workflow/waits/protocol.ts";
import type { Inspection } from "./types.ts";

const PROGRESS_MESSAGE = "perdure-workflow-progress";
/** The agent's method that is called when a run has ended. Agents store its name. */
export const ON_FINISH = "finishAgentToolStep";

/** How long a child may take to return the state of its run. */
const ANSWER_MS = 10_000;

type Child = AgentToolChildAdapter & Required<Pick<AgentToolChildAdapter, "tailAgentToolRun">>;

export type Children = ReturnType<typeof childrenOf>;

export function childrenOf(agent: Agent) {
  const childOf = async (className: string, runId: string) =>
    (await agent.subAgent(classNamed(className), runId)) as unknown as Child;
  return {
    /** Whether the Worker exports a class of that name. */
    isExported: (className: string): boolean => Object.hasOwn(exports, className),
    /** Starts a run that outlives this call; the agent reports its end to `AgentTools.finished()`. A known id starts none. */
    start: (
      className: string,
      { runId, input, display, maxBudgetMs }: RunStart,
    ): Promise<{ status: "running" | "error"; error?: string }> =>
      agent.runAgentTool(classNamed(className), {
        runId,
        input,
        ...(display !== undefined && { display: display as AgentToolDisplayMetadata }),
        // Its type accepts the names of the app's own methods only.
        detached: { onFinish: ON_FINISH as never, maxBudgetMs },
      }),
    /** Whether the agent knows the run. */
    has: (className: string, runId: string): boolean => agent.hasAgentToolRun(className, runId),
    /** Cancels a run, also one of which only the agent knows. */
    cancel: (runId: string, reason: string): Promise<void> => agent.cancelAgentTool(runId, reason),
    /** Cancels a run that the child may have begun after it was cancelled. */
    abandon: async (className: string, runId: string, reason: string): Promise<void> => {
      await (await childOf(className, runId)).cancelAgentToolRun(runId, reason);
      await agent.cancelAgentTool(runId, reason);
    },
    /** The child's record of the run, or null where it has none. */
    inspect: (className: string, runId: string): Promise<Inspection | null> => {
      // Not reconciled: the agent and the child recover an interrupted turn themselves.
      const inspection = childOf(className, runId).then((child) =>
        child.inspectAgentToolRun(runId, { reconcile: false }),
      );
      // A child that is deleted meanwhile may never answer.
      return withTimeout(inspection, ANSWER_MS);
    },
    /** The reports of the child from now on, until the run has ended. */
    tail: async (className: string, runId: string): Promise<ReadableStream<unknown>> =>
      (await childOf(className, runId)).tailAgentToolRun(runId, {
        // After everything that is stored: only progress reports are wanted, and those are not stored.
        afterSequence: Number.MAX_SAFE_INTEGER,
      }),
    /** Reports progress to the app and its clients. */
    report: async ({ name, id }: WaitWorkflow, progress: AgentToolProgress): Promise<void> => {
      const message = { type: PROGRESS_MESSAGE, workflowName: name, workflowId: id, progress };
      agent.broadcast(JSON.stringify(message));
      await agent.onWorkflowProgress(name, id, progress);
    },
  };
}

type RunStart = { runId: string; input: Json; display: Json | undefined; maxBudgetMs: number };

/** A class of that name: agents find the class of a child among the Worker's exports by its name alone. */
function classNamed(name: string): ChatCapableAgentClass {
  return { [name]: class {} }[name] as unknown as ChatCapableAgentClass;
}
