/** What a Think agent lends to the agent tools of its workflows: its public methods, and those of the child. */

import { exports } from "cloudflare:workers";
import type { Agent } from "agents";
import type {
  AgentToolChildAdapter,
  AgentToolDisplayMetadata,
  ChatCapableAgentClass,
} from "agents/agent-tools";
import { withTimeout } from "../../core/timeout.ts";
import type { AgentToolPort } from "../../waits/index.ts";

/** The type of what clients are sent. */
const PROGRESS_MESSAGE = "perdure-workflow-progress";

/** How long a child may take to say how its run stands. */
const ANSWER_MS = 10_000;

type Child = AgentToolChildAdapter & Required<Pick<AgentToolChildAdapter, "tailAgentToolRun">>;

/** @param onFinish the agent's method that is told of each end */
export function agentToolPort(agent: Agent, onFinish: string): AgentToolPort {
  const childOf = async (className: string, runId: string) =>
    (await agent.subAgent(classNamed(className), runId)) as unknown as Child;
  return {
    isExported: (className) => Object.hasOwn(exports, className),
    start: (className, { runId, input, display, maxBudgetMs }) =>
      agent.runAgentTool(classNamed(className), {
        runId,
        input,
        ...(display !== undefined && { display: display as AgentToolDisplayMetadata }),
        // Its type wants the names of the app's own methods.
        detached: { onFinish: onFinish as never, maxBudgetMs },
      }),
    has: (className, runId) => agent.hasAgentToolRun(className, runId),
    cancel: (runId, reason) => agent.cancelAgentTool(runId, reason),
    abandon: async (className, runId, reason) => {
      await (await childOf(className, runId)).cancelAgentToolRun(runId, reason);
      await agent.cancelAgentTool(runId, reason);
    },
    // Not reconciled: whether an interrupted turn still heals is for the agent and the child to find out.
    inspect: (className, runId) => {
      const inspection = childOf(className, runId).then((child) =>
        child.inspectAgentToolRun(runId, { reconcile: false }),
      );
      // A child that is deleted meanwhile may never answer.
      return withTimeout(inspection, ANSWER_MS);
    },
    // Behind all that is stored: reports are not, and only those are wanted.
    tail: async (className, runId) =>
      (await childOf(className, runId)).tailAgentToolRun(runId, {
        afterSequence: Number.MAX_SAFE_INTEGER,
      }),
    tell: async ({ name, id }, progress) => {
      const message = { type: PROGRESS_MESSAGE, workflowName: name, workflowId: id, progress };
      agent.broadcast(JSON.stringify(message));
      await agent.onWorkflowProgress(name, id, progress);
    },
  };
}

/** A stand-in: agents find the class of a child among the Worker's exports, by its name alone. */
function classNamed(name: string): ChatCapableAgentClass {
  return { [name]: class {} }[name] as unknown as ChatCapableAgentClass;
}
