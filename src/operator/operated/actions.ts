/** The actions of operators on one workflow instance. */

import type { WorkflowInfo } from "agents/workflows";
import { preview } from "../../core/json.ts";
import type { OnOne } from "../../core/operated/catalog.ts";
import { done, type Effect, failed, NOT_FOUND, UNCHANGED } from "../../core/operated/effect.ts";
import type { ItemVerb } from "../../core/operated/part.ts";
import { hasEnded } from "../../kernel/outbox/internal.ts";
import { inspectWorkflow } from "../listing.ts";
import type { OperatedAgent } from "../operated.ts";
import { instanceOf, liveStatus } from "../workflows/instances.ts";
import { endRun, restartPointOf } from "../workflows/steps.ts";
import type { ACTIONS } from "./catalog.ts";

type Name = keyof typeof ACTIONS;
type Verb<One extends Name> = ItemVerb<OperatedAgent, OnOne<typeof ACTIONS, One>>;
type OnWorkflow = ItemVerb<OperatedAgent, { readonly workflowId: string }>;

const PAUSED: readonly string[] = ["paused", "waitingForPause"];

/** An action that depends on the status of its instance. */
function onWorkflow(lookAt: (status: string, id: string) => Effect): Omit<OnWorkflow, "act"> {
  return {
    async look(operated, { workflowId }) {
      const found = operated.host.getWorkflow(workflowId);
      if (!found) return NOT_FOUND;
      // The tracked status is that of the last report.
      const live = await liveStatus(operated, found);
      return lookAt(live?.status ?? found.status, workflowId);
    },
    async after(operated, { workflowId }) {
      const found = await inspectWorkflow(operated, workflowId);
      if (!found) return null;
      const { steps: _, ...rest } = found;
      return rest;
    },
  };
}

/** Pauses or resumes. */
const held = (willBePaused: boolean) =>
  onWorkflow((status, id) => {
    if (!hasEnded({ status })) return PAUSED.includes(status) === willBePaused ? UNCHANGED : done();
    const verb = willBePaused ? "paused" : "resumed";
    const problem = `Workflow ${preview(id)} cannot be ${verb}, because it has ended: ${status}. Restart it instead.`;
    return failed(id, new Error(problem));
  });

export const VERBS: { [One in Name]: Verb<One> } = {
  "pause-workflow": {
    ...held(true),
    async act({ host }, { workflowId }) {
      await host.pauseWorkflow(workflowId);
      return true;
    },
  },
  "resume-workflow": {
    ...held(false),
    async act({ host }, { workflowId }) {
      await host.resumeWorkflow(workflowId);
      return true;
    },
  },
  "terminate-workflow": {
    ...onWorkflow((status) => (hasEnded({ status }) ? UNCHANGED : done())),
    // It also cancels what an ended workflow has left open, and throws then.
    isRepeatable: true,
    async act({ agent }, { workflowId }) {
      await agent.terminateWorkflow(workflowId);
      return true;
    },
  },
  "restart-workflow": {
    ...onWorkflow(() => done()),
    async act(operated, { workflowId, step }, { auditId }) {
      const { host } = operated;
      if (step === undefined) {
        await host.restartWorkflow(workflowId);
        return true;
      }
      const found = host.getWorkflow(workflowId) as WorkflowInfo;
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
      return true;
    },
  },
};
