/** Actions on one workflow instance. */

import type { WorkflowInfo } from "agents/workflows";
import { preview } from "../../core/json.ts";
import { hasEnded } from "../../kernel/outbox/internal.ts";
import { instanceOf, liveStatus } from "../instances.ts";
import { inspectWorkflow } from "../listing.ts";
import type { OperatedAgent } from "../operated.ts";
import type { Action } from "../protocol.ts";
import { endRun, restartPointOf } from "../steps.ts";
import {
  done,
  type Effect,
  failed,
  type ItemVerb,
  NOT_FOUND,
  type Operator,
  oneByOne,
  UNCHANGED,
} from "./effect.ts";

type WorkflowAction = Extract<Action, { readonly workflowId: string }>;
type Of<Name extends Action["do"]> = Extract<Action, { readonly do: Name }>;

const PAUSED: readonly string[] = ["paused", "waitingForPause"];

/** An action that depends on the status of its instance: each finds what the one before has done. */
function onWorkflow<One extends WorkflowAction>(
  lookAt: (status: string, id: string) => Effect,
  verb: (
    operated: OperatedAgent,
    action: One,
    found: WorkflowInfo,
    operator: Operator,
  ) => Promise<Effect>,
): ItemVerb<One> {
  const find = async (operated: OperatedAgent, { workflowId }: One) => {
    const found = operated.host.getWorkflow(workflowId);
    if (!found) return undefined;
    // The tracked status is that of the last report.
    const live = await liveStatus(operated, found);
    return { found, effect: lookAt(live?.status ?? found.status, workflowId) };
  };
  return {
    id: ({ workflowId }) => workflowId,
    look: async (operated, action) => (await find(operated, action))?.effect ?? NOT_FOUND,
    act: (operated, action, operator) =>
      oneByOne(operated, `workflow ${action.workflowId}`, async () => {
        const one = await find(operated, action);
        if (one?.effect.outcome !== "done") return one?.effect ?? NOT_FOUND;
        return verb(operated, action, one.found, operator);
      }),
    after: async (operated, { workflowId }) => {
      const found = await inspectWorkflow(operated, workflowId);
      if (!found) return null;
      const { steps: _, ...rest } = found;
      return rest;
    },
  };
}

function endedBefore(id: string, status: string, verb: string): Effect {
  const problem = `Workflow ${preview(id)} cannot be ${verb}, because it has ended: ${status}. Restart it instead.`;
  return failed(id, new Error(problem));
}

const pauseWorkflow = onWorkflow<WorkflowAction>(
  (status, id) => {
    if (hasEnded({ status })) return endedBefore(id, status, "paused");
    return PAUSED.includes(status) ? UNCHANGED : done();
  },
  async ({ host }, { workflowId }) => {
    await host.pauseWorkflow(workflowId);
    return done();
  },
);

const resumeWorkflow = onWorkflow<WorkflowAction>(
  (status, id) => {
    if (hasEnded({ status })) return endedBefore(id, status, "resumed");
    return PAUSED.includes(status) ? done() : UNCHANGED;
  },
  async ({ host }, { workflowId }) => {
    await host.resumeWorkflow(workflowId);
    return done();
  },
);

const terminate = onWorkflow<WorkflowAction>(
  (status) => (hasEnded({ status }) ? UNCHANGED : done()),
  async ({ agent }, { workflowId }) => {
    await agent.terminateWorkflow(workflowId);
    return done();
  },
);

const terminateWorkflow: ItemVerb<WorkflowAction> = {
  ...terminate,
  async act(operated, action, operator) {
    const effect = await terminate.act(operated, action, operator);
    if (effect.outcome !== "unchanged") return effect;
    // It also cancels what an ended workflow has left open, and throws then.
    await operated.agent.terminateWorkflow(action.workflowId).catch(() => {});
    return effect;
  },
};

const restartWorkflow = onWorkflow<Of<"restart-workflow">>(
  () => done(),
  async (operated, { workflowId, step }, found, { auditId }) => {
    const { host } = operated;
    if (step === undefined) {
      await host.restartWorkflow(workflowId);
      return done();
    }
    const instance = await instanceOf(operated, found);
    if (!instance) {
      const problem = `Workflow binding ${preview(found.workflowName)} is not in the environment of this Worker.`;
      return failed(workflowId, new Error(`${problem} Add it to the Wrangler configuration.`));
    }
    if (typeof instance.restart !== "function") {
      const problem = "This platform cannot restart a workflow from a step.";
      return failed(workflowId, new Error(`${problem} Restart it from the beginning instead.`));
    }
    const { startedAt, ...from } = await restartPointOf(operated, found, step);
    // Before the restart, after which the steps ask the agent.
    if (startedAt !== undefined) endRun(operated, found, startedAt, `restart-${auditId}`);
    await instance.restart({ from });
    // Reads the new status, and tracks it.
    await host.getWorkflowStatus(found.workflowName as never, workflowId);
    return done();
  },
);

/** By the name of the action. */
export const WORKFLOW_VERBS = {
  "pause-workflow": pauseWorkflow,
  "resume-workflow": resumeWorkflow,
  "terminate-workflow": terminateWorkflow,
  "restart-workflow": restartWorkflow,
};
