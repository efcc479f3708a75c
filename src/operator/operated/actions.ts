/** The actions of operators on workflow instances. */

import type { WorkflowInfo } from "agents/workflows";
import { preview } from "../../core/json.ts";
import { count, optionsOf, someOf, text } from "../../core/options/option-schemas.ts";
import { InvalidOptionError, invalidMessage } from "../../core/options/options.ts";
import type { FromStep, OnMany, OnOne } from "../../engine/operated/catalog.ts";
import {
  done,
  type Effect,
  failed,
  messageOf,
  NOT_FOUND,
  UNCHANGED,
} from "../../engine/operated/effect.ts";
import type { Bulk, BulkRequest, ItemVerb } from "../../engine/operated/part.ts";
import { hasEnded } from "../../outbox/destinations/workflow-event.ts";
import { inspectWorkflow, listWorkflows, WORKFLOW_IDS } from "../listing.ts";
import type { OperatedAgent } from "../operated.ts";
import { liveStatus } from "../workflows/instances.ts";
import { restartFrom, runsAgain } from "../workflows/restarts.ts";
import { ACTIONS, type WorkflowFilter } from "./catalog.ts";

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
    async preview(operated, { workflowId, step }) {
      const found = operated.host.getWorkflow(workflowId) as WorkflowInfo;
      return { runsAgain: await runsAgain(operated, found, step) };
    },
    async act(operated, { workflowId, step }, { auditId }) {
      if (step === undefined) await operated.agent.restartWorkflow(workflowId);
      else {
        const found = operated.host.getWorkflow(workflowId) as WorkflowInfo;
        await restartFrom(operated, found, step, auditId);
      }
      return true;
    },
  },
};

type Many = OnMany<typeof ACTIONS, { workflows: WorkflowFilter }>;

/** Runs of a page: each is read from the platform, which takes a moment. */
const RUNS_PAGE = 10;

/** By the action, without a status: those that failed, or that are paused. */
const STATUSES = { "restart-workflow": "errored", "resume-workflow": "paused" } as const;

/** @throws InvalidOptionError for a status that the action does not change */
function selected(operated: OperatedAgent, { action, cursor }: BulkRequest<Many>) {
  const { status = STATUSES[action.do], ...filter } = action.filter;
  const statuses: readonly string[] = ACTIONS[action.do].statuses;
  const other = [status].flat().find((one) => !statuses.includes(one));
  if (other !== undefined) {
    const expected = `expected one or more of ${statuses.join(", ")}`;
    throw new InvalidOptionError(
      "status",
      invalidMessage("filter.status", preview(other), expected),
    );
  }
  const page = { limit: RUNS_PAGE, ...(cursor !== undefined && { cursor }) };
  return listWorkflows(operated, { ...filter, status, ...page });
}

/** By default, a restart begins at the step at which each has stopped. */
const stepOf = (action: Many): FromStep => ("step" in action && action.step) || "failed";

export const WORKFLOWS: Bulk<OperatedAgent, Many> = {
  filter: optionsOf<WorkflowFilter>()({
    status: someOf<string>(ACTIONS["restart-workflow"].statuses).optional(),
    workflow: text().optional(),
    error: text().optional(),
    since: count({ min: 0 }).optional(),
    id: WORKFLOW_IDS,
  }),
  async check(operated, request) {
    await selected(operated, request);
  },
  async count(operated, request, most) {
    const { items, cursor } = await selected(operated, request);
    const shown = request.cursor === undefined ? items.slice(0, most) : [];
    const rows = shown.map(async ({ workflowId: id, error }) => {
      const found = operated.host.getWorkflow(id);
      const row = { id, error: error ? `${error.name}: ${error.message}` : "" };
      if (!found || request.action.do === "resume-workflow") return row;
      return runsAgain(operated, found, stepOf(request.action)).then(
        (again) => ({ ...row, runsAgain: again }),
        (problem: unknown) => ({ ...row, error: messageOf(problem) }),
      );
    });
    return { count: items.length, rows: await Promise.all(rows), cursor };
  },
  async run(operated, request, page) {
    const { items, cursor } = await selected(operated, request);
    for (const { workflowId } of items) {
      await page.item(workflowId, async () => {
        const found = operated.host.getWorkflow(workflowId);
        if (!found) return false;
        if (request.action.do === "resume-workflow") await operated.host.resumeWorkflow(workflowId);
        else await restartFrom(operated, found, stepOf(request.action), crypto.randomUUID());
        return true;
      });
    }
    return cursor;
  },
};
