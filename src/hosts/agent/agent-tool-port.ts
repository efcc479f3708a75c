/** What an agent provides for the agent tools of its workflows: its own public methods, and those of the child. */

import { exports } from "cloudflare:workers";
import type { Agent } from "agents";
import type {
  AgentToolChildAdapter,
  AgentToolDisplayMetadata,
  ChatCapableAgentClass,
} from "agents/agent-tools";
import { withTimeout } from "../../core/timeout.ts";
import type { AgentToolPort } from "../../waits/index.ts";

const PROGRESS_MESSAGE = "perdure-workflow-progress";

/** How long a child may take to return the state of its run. */
const ANSWER_MS = 10_000;

type Child = AgentToolChildAdapter & Required<Pick<AgentToolChildAdapter, "tailAgentToolRun">>;

/** @param onFinish the name of the agent's method that is called when a run has ended */
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
        // Its type accepts the names of the app's own methods only.
        detached: { onFinish: onFinish as never, maxBudgetMs },
      }),
    has: (className, runId) => agent.hasAgentToolRun(className, runId),
    cancel: (runId, reason) => agent.cancelAgentTool(runId, reason),
    abandon: async (className, runId, reason) => {
      await (await childOf(className, runId)).cancelAgentToolRun(runId, reason);
      await agent.cancelAgentTool(runId, reason);
    },
    // Not reconciled: the agent and the child recover an interrupted turn themselves.
    inspect: (className, runId) => {
      const inspection = childOf(className, runId).then((child) =>
        child.inspectAgentToolRun(runId, { reconcile: false }),
      );
      // A child that is deleted meanwhile may never answer.
      return withTimeout(inspection, ANSWER_MS);
    },
    // After everything that is stored: only progress reports are wanted, and those are not stored.
    tail: async (className, runId) =>
      (await childOf(className, runId)).tailAgentToolRun(runId, {
        afterSequence: Number.MAX_SAFE_INTEGER,
      }),
    report: async ({ name, id }, progress) => {
      const message = { type: PROGRESS_MESSAGE, workflowName: name, workflowId: id, progress };
      agent.broadcast(JSON.stringify(message));
      await agent.onWorkflowProgress(name, id, progress);
    },
  };
}

/** A class of that name: agents find the class of a child among the Worker's exports by its name alone. */
function classNamed(name: string): ChatCapableAgentClass {
  return { [name]: class {} }[name] as unknown as ChatCapableAgentClass;
}
