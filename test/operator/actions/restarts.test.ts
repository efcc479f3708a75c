/** Restarts by operators: what runs again, the step that failed, and many runs at a time. */

import { runInDurableObject } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import type { Action, OperateRequest, WorkflowStep } from "../../../src/operator/protocol.ts";
import { stopOf } from "../../../src/operator/workflows/restarts.ts";
import { ask } from "../../../src/testing/index.ts";
import { givenThink, until } from "../../support/given.ts";
import {
  givenScriptedWorkflow,
  type WorkflowBody,
  workflowBodies,
} from "../../support/workflows/scripted-workflow.ts";

type Agent = ReturnType<typeof givenThink>;

const act = (agent: Agent, action: Action, more: Partial<OperateRequest> = {}) =>
  capabilitiesOf(agent).operations.operate({ action, by: "ada", reason: "it was down", ...more });

const ONCE = { retries: { limit: 0, delay: 1 } };

/** Charges, asks the model, asks a person, and fails to send until it is repaired. */
function order(effects: string[], state: { isDown: boolean }): WorkflowBody {
  return async (step, { workflowId }) => {
    await step.do("charge", async () => void effects.push("charge"));
    const answer = await step.prompt("ask", { prompt: ask({ id: workflowId, text: "fine" }) });
    await step.do("send", ONCE, async () => {
      effects.push("send");
      if (state.isDown) throw new TypeError("no route");
    });
    return answer;
  };
}

const ended = (workflow: { handle(): Promise<WorkflowInstance> }, status: string) =>
  until(async () => (await (await workflow.handle()).status()).status === status);

describe("a dry run of a restart", () => {
  it("lists the steps that run again, from the beginning and from a step, and changes nothing", async () => {
    const effects: string[] = [];
    const state = { isDown: true };
    await using workflow = await givenScriptedWorkflow(order(effects, state));
    const { agent, id: workflowId } = workflow;
    await workflow.start();
    await ended(workflow, "errored");
    const dry = (step?: "failed" | { name: string }) =>
      act(agent, { do: "restart-workflow", workflowId, ...(step && { step }) }, { dryRun: true });
    expect(await dry()).toMatchObject({
      outcome: "done",
      runsAgain: {
        from: null,
        // The agent has the answer of the prompt.
        steps: [
          { name: "charge", kind: "do" },
          { name: "send", kind: "do" },
        ],
        count: 2,
        isComplete: true,
      },
    });
    const ofSend = { from: "send", steps: [{ name: "send", kind: "do" }], count: 1 };
    expect(await dry("failed")).toMatchObject({ runsAgain: ofSend });
    expect(await dry({ name: "send" })).toMatchObject({ runsAgain: ofSend });
    expect(await dry({ name: "ask" })).toMatchObject({ runsAgain: { from: "ask", count: 1 } });
    expect(effects).toEqual(["charge", "send"]);
    expect((await (await workflow.handle()).status()).status).toBe("errored");
    expect((await capabilitiesOf(agent).operations.listActions()).items).toEqual([]);
  });

  it("lists decided approvals and failed prompts, which are requested again", async () => {
    await using workflow = await givenScriptedWorkflow(async (step) => {
      await step.approval("decide", { title: "decide" });
      return step.prompt("ask", { prompt: ask({ fail: "not today" }) });
    });
    const { agent, id: workflowId } = workflow;
    const { approvals } = capabilitiesOf(agent);
    await workflow.start();
    const { approvalId } = await until(async () => (await approvals.list()).items[0]);
    await approvals.grant(approvalId);
    await ended(workflow, "errored");
    const dry = await act(agent, { do: "restart-workflow", workflowId }, { dryRun: true });
    expect(dry.runsAgain?.steps).toEqual([
      { name: "decide", kind: "approval" },
      { name: "ask", kind: "prompt" },
    ]);
  });
});

describe("a restart from the step that failed", () => {
  it("repeats no effect before it, and continues", async () => {
    const effects: string[] = [];
    const state = { isDown: true };
    await using workflow = await givenScriptedWorkflow(order(effects, state));
    const { agent, id: workflowId } = workflow;
    await workflow.start();
    await ended(workflow, "errored");
    state.isDown = false;
    const action = { do: "restart-workflow", workflowId, step: "failed" } as const;
    expect(await act(agent, action)).toMatchObject({ outcome: "done", count: 1 });
    await ended(workflow, "complete");
    expect(effects).toEqual(["charge", "send", "send"]);
    const again = await act(agent, action);
    expect(again.failed[0]?.error).toMatch(
      /has completed: no step failed\. Restart it from a step/,
    );
  });

  it("tries a prompt that failed again", async () => {
    await using workflow = await givenScriptedWorkflow(async (step) =>
      step.prompt("ask", {
        prompt: ask({ id: workflow.id, fail: "busy", failTimes: 1, status: 400 }),
      }),
    );
    const { agent, id: workflowId } = workflow;
    await workflow.start();
    await ended(workflow, "errored");
    await act(agent, { do: "restart-workflow", workflowId, step: "failed" });
    await ended(workflow, "complete");
  });
});

it("a run that has not taken a decision restarts from where it listens, and requests none again", async () => {
  await using workflow = await givenScriptedWorkflow(async (step) => {
    await step.do("charge", async () => {});
    return (await step.approval("refund", { title: "Refund?" })).approved;
  });
  const { agent, id: workflowId } = workflow;
  await workflow.start();
  const { approvals } = capabilitiesOf(agent);
  await until(async () => (await approvals.list()).items[0]);
  // As after an event that was lost.
  await runInDurableObject(agent, (_, { storage }) => {
    storage.sql.exec(
      `UPDATE perdure_jobs SET state = 'completed', reason = 'completed', ended_at = ?1, due_at = NULL, result = '{"isApproved":true}'`,
      Date.now(),
    );
  });
  const action = { do: "restart-workflow", workflowId, step: "failed" } as const;
  expect(await act(agent, action, { dryRun: true })).toMatchObject({
    runsAgain: { from: "refund:approval-wait", count: 0 },
  });
  expect(await act(agent, action)).toMatchObject({ outcome: "done" });
  await ended(workflow, "complete");
  expect((await approvals.list({ status: "approved" })).items).toHaveLength(1);
});

it("restarts all that a filter selects, each from the step that failed, and none that has completed", async () => {
  const effects: string[] = [];
  const state = { isDown: true };
  const agent = givenThink();
  const ids = ["one", "two", "done"].map((name) => `${name}-${crypto.randomUUID()}`);
  const [one, two, done] = ids as [string, string, string];
  for (const id of [one, two]) workflowBodies.set(id, order(effects, state));
  workflowBodies.set(done, async (step) => step.do("charge", async () => "done"));
  for (const id of ids) await agent.startScripted(id);
  const { operations } = capabilitiesOf(agent);
  const failed = { do: "restart-workflow", filter: {} } as const;
  // The finding has the same effect.
  const ofReport = async () => {
    const { findings } = await operations.healthReport();
    return findings.find(({ code }) => code === "workflow-failed")?.fix.action;
  };
  const listed = (status: string) => operations.listWorkflows({ status });
  await until(async () => (await listed("errored")).items.length === 2);
  await until(async () => (await listed("complete")).items.length === 1);

  const dry = await act(agent, failed, { dryRun: true });
  expect(dry).toMatchObject({ outcome: "done", count: 2 });
  for (const row of dry.rows ?? [])
    expect(row).toMatchObject({
      error: expect.stringContaining("no route"),
      runsAgain: { from: "send", steps: [{ name: "send" }] },
    });
  const proposed = await ofReport();
  expect(proposed).toMatchObject({ filter: { workflow: "SCRIPTED_WORKFLOW" } });
  expect(await act(agent, proposed as Action, { dryRun: true })).toMatchObject({ count: 2 });
  const none = { error: "RangeError", since: 0 };
  expect(await act(agent, { ...failed, filter: none }, { dryRun: true })).toMatchObject({
    count: 0,
  });
  const bad = act(agent, { ...failed, filter: { status: "complete" } }, { dryRun: true });
  await expect(bad).rejects.toMatchObject({ name: "InvalidOperationError" });

  const named = (id: string | string[]) =>
    act(agent, { ...failed, filter: { id } } as Action, { dryRun: true });
  expect(await named(one)).toMatchObject({ count: 1, rows: [{ id: one }] });
  // Ten in a page. One that has completed, or is not there, is left out.
  const many = [done, ...Array.from({ length: 9 }, (_, index) => `none-${index}`), two];
  const first = await named(many);
  expect(first).toMatchObject({ outcome: "unchanged", count: 0, cursor: expect.any(String) });
  const rest = { ...failed, filter: { id: many } };
  const last = await act(agent, rest, { dryRun: true, cursor: first.cursor ?? "" });
  expect(last).toMatchObject({ count: 1 });
  expect(last).not.toHaveProperty("cursor");
  for (const id of [[], Array(101).fill(one), 7])
    await expect(named(id as string[])).rejects.toMatchObject({ name: "InvalidOperationError" });
  const resumed = { do: "resume-workflow", filter: { status: "errored" } } as const;
  await expect(act(agent, resumed, { dryRun: true })).rejects.toThrow(
    /expected one or more of paused/,
  );

  state.isDown = false;
  expect(await act(agent, failed)).toMatchObject({ outcome: "done", count: 2, failed: [] });
  await until(async () => (await listed("complete")).items.length === 3);
  expect(effects.toSorted()).toEqual(["charge", "charge", "send", "send", "send", "send"]);
});

it("restarts all that a filter selects from their beginning, where it is asked to", async () => {
  const effects: string[] = [];
  const state = { isDown: true };
  const agent = givenThink();
  const ids = ["one", "two"].map((name) => `${name}-${crypto.randomUUID()}`);
  for (const id of ids) {
    workflowBodies.set(id, order(effects, state));
    await agent.startScripted(id);
  }
  const { operations } = capabilitiesOf(agent);
  const listed = (status: string) => operations.listWorkflows({ status });
  await until(async () => (await listed("errored")).items.length === 2);
  const action = { do: "restart-workflow", filter: { id: ids }, step: "start" } as const;
  const dry = await act(agent, action, { dryRun: true });
  expect(dry.count).toBe(2);
  for (const { runsAgain } of dry.rows ?? [])
    expect(runsAgain).toMatchObject({ from: null, steps: [{ name: "charge" }, { name: "send" }] });
  state.isDown = false;
  expect(await act(agent, action)).toMatchObject({ outcome: "done", count: 2, failed: [] });
  await until(async () => (await listed("complete")).items.length === 2);
  expect(effects.toSorted()).toEqual([
    ...["charge", "charge", "charge", "charge"],
    ...["send", "send", "send", "send"],
  ]);
  const other = { do: "resume-workflow", filter: {}, step: "start" } as never;
  await expect(act(agent, other)).rejects.toMatchObject({ name: "InvalidOperationError" });
});

describe("the step at which a run stopped", () => {
  const step = (
    name: string,
    startedAt: number,
    rest: Partial<WorkflowStep> = {},
  ): WorkflowStep => ({
    ...{ name, kind: "do", status: "completed", startedAt, endedAt: startedAt + 5 },
    ...rest,
  });
  const open = { status: "running", endedAt: undefined } as never;
  const failed = { status: "failed" };

  it.each<[string, WorkflowStep[], string | undefined]>([
    ["none", [], undefined],
    ["is the one that failed", [step("a", 0), step("b", 10, failed)], "b"],
    ["is no failure that the code has caught", [step("a", 0, failed), step("b", 10)], "b"],
    [
      "is the first failure of steps side by side",
      [step("a", 0, failed), step("b", 2, failed)],
      "a",
    ],
    [
      "is the latest of those that have not ended",
      [step("a", 0, open), step("b", 2), step("c", 3, open)],
      "c",
    ],
    [
      "is no approval that the end of the run has cancelled",
      [
        step("a", 0, {
          kind: "approval",
          status: "cancelled",
          endedAt: 20,
          error: "The run of the workflow that waited for it has ended",
        }),
        step("b", 2, failed),
      ],
      "b",
    ],
  ])("%s", (_, steps, name) => {
    expect(stopOf(steps)?.name).toBe(name);
  });
});
