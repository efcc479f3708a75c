/** What the report finds of runs that do not go on. */

import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import type { Finding } from "../../../src/operator/protocol.ts";
import { Progress } from "../../../src/operator/workflows/run-states.ts";
import { outputOf, reached } from "../../support/engine.ts";
import { until } from "../../support/given.ts";
import type { Agent } from "../../support/think.ts";
import { type WorkflowBody, workflowBodies } from "../../support/workflows/scripted-workflow.ts";
import {
  apply,
  codesIn,
  found,
  givenAgent,
  gone,
  HOUR,
  MINUTE,
  reportOf,
  rowsOf,
} from "./support.ts";

const DAY = 24 * HOUR;

async function started(agent: Agent, body: WorkflowBody): Promise<string> {
  const id = `run-${crypto.randomUUID()}`;
  workflowBodies.set(id, body);
  await agent.startScripted(id);
  return id;
}

const actedOn = ({ fix: { action } }: Finding) => {
  if (!action || !("filter" in action)) return [];
  return [(action.filter as { id?: string | string[] }).id ?? []].flat().toSorted();
};

describe("findings of runs", () => {
  it("workflow-stalled: a run whose step takes longer than its timeout is found until it goes on", async () => {
    const agent = givenAgent();
    const effects: string[] = [];
    let isUp = false;
    const id = await started(agent, async (step) => {
      await step.do("charge", async () => void effects.push("charge"));
      return step.do("send", { timeout: "10 minutes" }, async () => {
        effects.push("send");
        await until(() => isUp);
        return "sent";
      });
    });
    await until(() => effects.includes("send"));
    expect(codesIn(await reportOf(agent, { later: 11 * MINUTE }))).not.toContain(
      "workflow-stalled",
    );
    const finding = await found(agent, "workflow-stalled", { later: 13 * MINUTE });
    expect(finding).toMatchObject({
      severity: "error",
      evidence: { count: 1, ids: [id] },
      fix: { action: { do: "restart-workflow", workflowId: id, step: "failed" } },
    });
    expect(finding.title).toContain('"send"');
    expect((await reportOf(agent, { later: 13 * MINUTE })).verdicts.succeeds).toBe(false);
    isUp = true;
    expect(await outputOf(env.SCRIPTED_WORKFLOW, id)).toBe("sent");
    await gone(agent, "workflow-stalled", { later: 13 * MINUTE });
    expect(effects).toEqual(["charge", "send"]);
  });

  it("workflow-stalled: the restart acts on each run that is counted, and on no other", async () => {
    const agent = givenAgent();
    let isUp = false;
    const sends: string[] = [];
    let charges = 0;
    const body: WorkflowBody = async (step, { workflowId }) => {
      await step.do("charge", async () => void charges++);
      return step.do("send", async () => {
        sends.push(workflowId);
        await until(() => isUp);
        return "sent";
      });
    };
    const stalled = [await started(agent, body), await started(agent, body)].toSorted();
    const healthy = await started(agent, async (step) => {
      await step.sleep("rest", "1 hour");
    });
    await until(() => sends.length === 2);
    const finding = await found(agent, "workflow-stalled", { later: 13 * MINUTE });
    expect(finding.evidence.count).toBe(2);
    expect(actedOn(finding)).toEqual(stalled);
    expect(await rowsOf(agent, finding)).toEqual(stalled);
    await apply(agent, finding.fix.action);
    await until(() => sends.length === 4);
    expect(sends.slice(2).toSorted()).toEqual(stalled);
    isUp = true;
    for (const id of stalled) expect(await outputOf(env.SCRIPTED_WORKFLOW, id)).toBe("sent");
    expect(charges).toBe(2);
    await (await env.SCRIPTED_WORKFLOW.get(healthy)).terminate();
  });

  it("workflow-stalled: a run that sleeps past its time is found, and one that waits for its agent is not", async () => {
    const agent = givenAgent();
    const asleep = await started(agent, async (step) => {
      await step.sleep("rest", "1 hour");
    });
    const asking = await started(agent, (step) => step.approval("refund", { title: "Refund?" }));
    await until(async () => (await capabilitiesOf(agent).approvals.list()).items.length === 1);
    expect(codesIn(await reportOf(agent, { later: 30 * MINUTE }))).not.toContain(
      "workflow-stalled",
    );
    const finding = await found(agent, "workflow-stalled", { later: HOUR + 5 * MINUTE });
    expect(finding.evidence.ids).toEqual([asleep]);
    for (const id of [asleep, asking]) await agent.terminateWorkflow(id);
  });

  it("workflow-step-retried: a step that is retried for ten minutes is found, with its error", async () => {
    const agent = givenAgent();
    const retries = { limit: 5, delay: "30 minutes" } as const;
    const id = await started(agent, (step) =>
      step.do("send", { retries }, async () => {
        throw new TypeError("no route");
      }),
    );
    const finding = await found(agent, "workflow-step-retried", { later: 15 * MINUTE });
    expect(finding).toMatchObject({
      severity: "warning",
      evidence: { count: 1, ids: [id], lastError: expect.stringContaining("no route") },
    });
    expect(codesIn(await reportOf(agent, { later: 8 * MINUTE }))).toEqual([]);
    await agent.terminateWorkflow(id);
    await gone(agent, "workflow-step-retried", { later: 15 * MINUTE });
  });

  it("workflow-terminated: a run that was terminated outside the agent is found for a day", async () => {
    const agent = givenAgent();
    const body: WorkflowBody = (step) => step.approval("refund", { title: "Refund?" });
    const [own, outside] = [await started(agent, body), await started(agent, body)];
    const { approvals } = capabilitiesOf(agent);
    await until(async () => (await approvals.list()).items.length === 2);
    await agent.terminateWorkflow(own);
    await (await env.SCRIPTED_WORKFLOW.get(outside)).terminate();
    await reached(env.SCRIPTED_WORKFLOW, outside, "terminated");
    const late = { later: 6 * MINUTE };
    const finding = await found(agent, "workflow-terminated", late);
    expect(finding).toMatchObject({
      severity: "warning",
      evidence: { count: 1, ids: [outside] },
      fix: { action: { do: "restart-workflow", workflowId: outside, step: "failed" } },
    });
    // What it waited for is cancelled, and another report has the finding as well.
    expect((await approvals.list()).items).toEqual([]);
    await found(agent, "workflow-terminated", late);
    const nextDay = codesIn(await reportOf(agent, { later: DAY + MINUTE }));
    expect(nextDay).not.toContain("workflow-terminated");
  });

  it("workflow-paused: runs that are paused for a week are found, and the resume acts on each of them", async () => {
    const agent = givenAgent();
    const body: WorkflowBody = async (step) => {
      await step.sleep("rest", "3 seconds");
      return "rested";
    };
    const ids = [await started(agent, body), await started(agent, body)].toSorted();
    const { operations } = capabilitiesOf(agent);
    for (const workflowId of ids) {
      const action = { do: "pause-workflow", workflowId } as const;
      await operations.operate({ action, by: "ada", reason: "look" });
      await reached(env.SCRIPTED_WORKFLOW, workflowId, "paused");
    }
    expect(codesIn(await reportOf(agent, { later: 6 * DAY }))).toEqual([]);
    const finding = await found(agent, "workflow-paused", { later: 8 * DAY });
    expect(finding).toMatchObject({ severity: "warning", evidence: { count: 2 } });
    expect(await rowsOf(agent, finding)).toEqual(ids);
    await apply(agent, finding.fix.action);
    for (const id of ids) expect(await outputOf(env.SCRIPTED_WORKFLOW, id)).toBe("rested");
    await gone(agent, "workflow-paused", { later: 8 * DAY });
  });
});

describe("the progress of a run", () => {
  const progressOf = (...events: readonly [at: number, type: string, rest?: object][]) => {
    const progress = new Progress();
    for (const [timestamp, type, rest] of events)
      progress.note({ timestamp, type, ...rest } as WorkflowInstanceEvent);
    return progress;
  };
  const stepName = "ask:wait-2-1";

  it("has stopped where a step missed its own look at the agent", () => {
    const eventType = "perdure-wait-1";
    const progress = progressOf(
      [0, "workflow_started"],
      [0, "wait_started", { stepName, eventType }],
    );
    expect(progress.problem(200_000)).toBeUndefined();
    expect(progress.problem(230_000)).toMatchObject({ state: "stalled", step: "ask:wait-2" });
  });

  it("has no time limit in a wait for an event of the app, in the queue, and in a rollback", () => {
    const waits = progressOf([0, "wait_started", { stepName, eventType: "payment" }]);
    const queued = progressOf([0, "workflow_queued"]);
    const rolledBack = progressOf([0, "workflow_started"], [0, "rollback_started"]);
    for (const progress of [waits, queued, rolledBack])
      expect(progress.problem(90 * DAY)).toBeUndefined();
  });

  it("has stopped between two steps, also after a restart has begun anew", () => {
    const progress = progressOf(
      [0, "step_started", { stepName: "a-1" }],
      [0, "workflow_queued"],
      [5, "workflow_started"],
      [5, "step_started", { stepName: "b-1" }],
      [9, "step_completed", { stepName: "b-1" }],
    );
    expect(progress.problem(11 * MINUTE)).toBeUndefined();
    expect(progress.problem(13 * MINUTE)).toMatchObject({ state: "stalled", since: 9 });
  });
});
