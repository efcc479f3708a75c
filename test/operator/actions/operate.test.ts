/** The operator's actions on single items of a DurableThink, with the audit log. */

import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import type { Action, OperateRequest, OperateResult } from "../../../src/operator/protocol.ts";
import { method, webhook } from "../../../src/outbox/index.ts";
import { ask } from "../../../src/testing/index.ts";
import { givenThink, message, refusal, until } from "../../support/given.ts";
import { receiverUrl } from "../../support/receivers/client.ts";
import { declared, thinkOptions } from "../../support/think-agent.ts";
import { givenWorkflow } from "../../support/workflows/approvals.ts";
import { givenScriptedWorkflow } from "../../support/workflows/scripted-workflow.ts";

type Agent = ReturnType<typeof givenThink>;

const by = "ada";
const reason = "the deployment was wrong";
const later = new Date(Date.now() + 3_600_000);

function act(
  agent: Agent,
  action: Action,
  more: Partial<OperateRequest> = {},
): Promise<OperateResult> {
  return capabilitiesOf(agent).operations.operate({ action, by, reason, ...more });
}

/** The outcomes of the same action as a dry run, then twice. */
async function outcomes(agent: Agent, action: Action): Promise<string[]> {
  const dry = await act(agent, action, { dryRun: true });
  const first = await act(agent, action);
  const second = await act(agent, action);
  expect(dry).not.toHaveProperty("auditId");
  expect(dry).toMatchObject({ outcome: first.outcome, count: first.count });
  return [first.outcome, second.outcome];
}

async function log(agent: Agent) {
  return (await capabilitiesOf(agent).operations.listActions()).items;
}

async function givenDeadLetter(agent: Agent): Promise<string> {
  const notify = [method("onEnd", { policy: { maxAttempts: 1 } })];
  await agent.submitMessages([message("hello")], { notify });
  await until(async () => (await capabilitiesOf(agent).outbox.countDeadLetters()) === 1);
  const { items: deadLetters } = await capabilitiesOf(agent).outbox.listDeadLetters();
  return deadLetters[0]?.id as string;
}

describe("submissions", () => {
  it("cancels an open submission once, with the operator's reason", async () => {
    const agent = givenThink();
    const { submissionId } = await agent.submitMessages([message("later")], {
      notBefore: later,
    });
    const cancel = { do: "cancel", submissionId } as const;
    const result = await act(agent, cancel);
    expect(result).toMatchObject({
      outcome: "done",
      count: 1,
      failed: [],
      after: { submissionId },
    });
    expect(result.after).toMatchObject({ status: "aborted", error: reason });
    expect(await act(agent, cancel)).toMatchObject({ outcome: "unchanged", count: 0 });
    const unknown = await act(agent, { do: "cancel", submissionId: "none" });
    expect(unknown).toMatchObject({ outcome: "not-found", count: 0 });
    const entries = await log(agent);
    expect(entries).toMatchObject([
      { outcome: "not-found", action: { submissionId: "none" } },
      { outcome: "unchanged" },
      { outcome: "done", by, reason, count: 1, action: cancel, auditId: result.auditId },
    ]);
    expect(entries.every(({ error }) => error === undefined)).toBe(true);
  });

  it("retries a failed submission once, and shows the new one", async () => {
    const agent = givenThink();
    const { submissionId } = await agent.submitMessages([message({ fail: "no" })]);
    await agent.waitForSubmission(submissionId);
    const retry = { do: "retry", submissionId } as const;
    expect(await act(agent, retry, { dryRun: true })).toMatchObject({ outcome: "done", count: 1 });
    const [one, other] = await Promise.all([act(agent, retry), act(agent, retry)]);
    expect([one.outcome, other.outcome].sort()).toEqual(["done", "unchanged"]);
    expect(one.after).toMatchObject({ submissionId: expect.not.stringMatching(submissionId) });
    expect(one.after).toMatchObject({
      submissionId: (other.after as never as { submissionId: string }).submissionId,
    });
    expect(await agent.listSubmissions()).toHaveLength(2);
    expect(await act(agent, retry, { dryRun: true })).toMatchObject({ outcome: "unchanged" });
    const completed = await agent.submitMessages([message("hello")]);
    await agent.waitForSubmission(completed.submissionId);
    const again = { do: "retry", submissionId: completed.submissionId } as const;
    expect(await outcomes(agent, again)).toEqual(["unchanged", "unchanged"]);
    const unknown = { do: "retry", submissionId: "none" } as const;
    expect(await outcomes(agent, unknown)).toEqual(["not-found", "not-found"]);
  });

  it("leaves out what is large in the state after an action", async () => {
    const agent = givenThink();
    const { submissionId } = await agent.submitMessages([message("x".repeat(10))], {
      metadata: { large: "y".repeat(100_000), small: 1 },
      notBefore: later,
    });
    const { after } = await act(agent, { do: "cancel", submissionId });
    expect(after).toMatchObject({ submissionId, omitted: ["metadata"] });
  });
});

describe("dead letters and endpoints", () => {
  it("redrives and deletes a dead letter", async () => {
    const agent = givenThink();
    const deliveryId = await givenDeadLetter(agent);
    const results = await Promise.all([
      act(agent, { do: "redrive", deliveryId }),
      act(agent, { do: "redrive", deliveryId }),
    ]);
    expect(results.map(({ outcome }) => outcome).sort()).toEqual(["done", "unchanged"]);
    await until(async () => (await capabilitiesOf(agent).outbox.countDeadLetters()) === 1);
    const remove = { do: "delete-dead-letter", deliveryId } as const;
    expect(await outcomes(agent, remove)).toEqual(["done", "not-found"]);
    expect(await outcomes(agent, { do: "redrive", deliveryId })).toEqual([
      "not-found",
      "not-found",
    ]);
  });

  it("disables and enables an endpoint once, with the reason, and says that its dead letters wait for it", async () => {
    const name = `think-${crypto.randomUUID()}`;
    thinkOptions.set(name, { outbox: { allowPrivateAddresses: true } });
    const agent = givenThink(name);
    const url = receiverUrl("/ok/never");
    const disable = { do: "disable-endpoint", url } as const;
    const twice = await Promise.all([act(agent, disable), act(agent, disable)]);
    expect(twice.map(({ outcome }) => outcome).sort()).toEqual(["done", "unchanged"]);
    expect(twice[0].after).toMatchObject({ url, state: "disabled", reason });
    const notify = [webhook(url, { secret: "HOOK_SECRET" })];
    await agent.submitMessages([message("hello")], { notify });
    await until(async () => (await capabilitiesOf(agent).outbox.countDeadLetters()) === 1);
    const [letter] = (await capabilitiesOf(agent).outbox.listDeadLetters()).items;
    const redrive = await act(agent, { do: "redrive", deliveryId: letter?.id as string });
    const error = "Its endpoint is disabled. Enable the endpoint first.";
    expect(redrive).toMatchObject({
      outcome: "failed",
      count: 0,
      failed: [{ id: letter?.id, error }],
    });
    expect((await log(agent))[0]).toMatchObject({ outcome: "failed", error });
    const all = { do: "redrive", filter: {} } as const;
    expect(await act(agent, all, { dryRun: true })).toMatchObject({
      outcome: "unchanged",
      count: 0,
    });
    expect(await act(agent, all)).toMatchObject({ outcome: "failed", failed: [{ error }] });
    const enable = { do: "enable-endpoint", url } as const;
    expect(await outcomes(agent, enable)).toEqual(["done", "unchanged"]);
  });
});

describe("approvals", () => {
  it("W4: approves with a payload as the operator, and the first decision counts", async () => {
    const workflow = await givenWorkflow([{ name: "refund", schema: "refund" }]);
    const { approvalId } = await workflow.pending();
    const wrong = await act(workflow.agent, {
      do: "approve",
      approvalId,
      payload: { amount: 1_000 },
    });
    expect(wrong).toMatchObject({ outcome: "failed", failed: [{ id: approvalId }] });
    expect(wrong.failed[0]?.error).toMatch(/amount: .*decide again/s);
    expect(wrong.after).toMatchObject({ status: "pending" });
    const entries = await log(workflow.agent);
    expect(entries).toMatchObject([{ outcome: "failed", error: wrong.failed[0]?.error }]);
    const [one, other] = await Promise.all([
      act(workflow.agent, { do: "approve", approvalId, payload: { amount: 7 } }),
      act(workflow.agent, { do: "reject", approvalId }, { by: "bob" }),
    ]);
    expect([one.outcome, other.outcome]).toEqual(["done", "failed"]);
    expect(other.failed).toEqual([{ id: approvalId, error: "It is approved already." }]);
    const again = await act(workflow.agent, { do: "approve", approvalId, payload: { amount: 7 } });
    expect(again.outcome).toBe("unchanged");
    expect(one.after).toMatchObject({ status: "approved", by, reason, payload: { amount: 7 } });
    const { outcomes: decided } = await workflow.output();
    expect(decided).toMatchObject([{ approved: true, by, reason }]);
    expect(await outcomes(workflow.agent, { do: "reject", approvalId: "none" })).toEqual([
      "not-found",
      "not-found",
    ]);
  });
});

describe("scheduled tasks", () => {
  it("pauses, resumes, triggers, skips and backfills a task", async () => {
    const name = `think-${crypto.randomUUID()}`;
    const ran: number[] = [];
    declared.set(name, {
      tasks: () => ({
        daily: {
          schedule: "every day at 09:00",
          handler: ({ scheduledFor }) => void ran.push(scheduledFor),
        },
      }),
    });
    const agent = givenThink(name);
    const taskId = "daily";
    const pause = { do: "pause-task", taskId } as const;
    const twice = await Promise.all([act(agent, pause), act(agent, pause)]);
    expect(twice.map(({ outcome }) => outcome).sort()).toEqual(["done", "unchanged"]);
    expect(twice[0].after).toMatchObject({ state: "paused", paused: { note: reason } });
    expect(await outcomes(agent, { do: "skip-next", taskId })).toEqual(["unchanged", "unchanged"]);
    expect(await outcomes(agent, { do: "resume-task", taskId })).toEqual(["done", "unchanged"]);
    expect(await outcomes(agent, { do: "skip-next", taskId })).toEqual(["done", "done"]);
    expect(await outcomes(agent, { do: "trigger-task", taskId })).toEqual(["done", "done"]);
    await until(() => ran.length === 2);
    const day = 86_400_000;
    const to = Math.floor(Date.now() / day) * day;
    const backfill = { do: "backfill", taskId, from: to - 3 * day, to } as const;
    const before = await act(agent, backfill, { dryRun: true });
    expect(before).toMatchObject({ outcome: "done", count: 3 });
    expect(await outcomes(agent, backfill)).toEqual(["done", "unchanged"]);
    await until(() => ran.length === 5);
    for (const verb of ["pause-task", "resume-task", "trigger-task", "skip-next"] as const) {
      expect(await outcomes(agent, { do: verb, taskId: "none" })).toEqual([
        "not-found",
        "not-found",
      ]);
    }
    const long = await act(agent, { ...backfill, from: 0 });
    expect(long).toMatchObject({ outcome: "failed", failed: [{ id: taskId }] });
    expect(long.failed[0]?.error).toMatch(/more than 1000 occurrences/);
  });
});

describe("workflows", () => {
  it("pauses, resumes, restarts and terminates a workflow", async () => {
    const workflow = await givenWorkflow([{ name: "first" }]);
    const { agent, id: workflowId } = workflow;
    await workflow.pending();
    const dry = await act(agent, { do: "pause-workflow", workflowId }, { dryRun: true });
    expect(dry).toMatchObject({ outcome: "done", count: 1 });
    expect(await act(agent, { do: "pause-workflow", workflowId })).toMatchObject({
      outcome: "done",
    });
    await until(async () => /pause/i.test(await workflow.status()));
    const again = await act(agent, { do: "pause-workflow", workflowId });
    expect(again).toMatchObject({ outcome: "unchanged" });
    expect(await outcomes(agent, { do: "resume-workflow", workflowId })).toEqual([
      "done",
      "unchanged",
    ]);
    const restarted = await act(agent, { do: "restart-workflow", workflowId });
    expect(restarted).toMatchObject({ outcome: "done", after: { workflowId } });
    const terminated = await act(agent, { do: "terminate-workflow", workflowId });
    expect(terminated).toMatchObject({ outcome: "done", after: { status: "terminated" } });
    expect((await capabilitiesOf(agent).approvals.list()).items).toEqual([]);
    expect(await outcomes(agent, { do: "terminate-workflow", workflowId })).toEqual([
      "unchanged",
      "unchanged",
    ]);
    const ended = await act(agent, { do: "pause-workflow", workflowId });
    expect(ended).toMatchObject({ outcome: "failed", failed: [{ id: workflowId }] });
    expect(ended.failed[0]?.error).toMatch(/has ended: terminated/);
    expect(await outcomes(agent, { do: "pause-workflow", workflowId: "none" })).toEqual([
      "not-found",
      "not-found",
    ]);
  });

  it("restarts a workflow from a step, and says which step there is not", async () => {
    const runs: string[] = [];
    const workflow = await givenScriptedWorkflow(async (step) => {
      await step.do("one", async () => void runs.push("one"));
      await step.do("two", async () => void runs.push("two"));
      return runs.length;
    });
    await workflow.start();
    await workflow.output();
    const { agent, id: workflowId } = workflow;
    const step = { name: "two" };
    const result = await act(agent, { do: "restart-workflow", workflowId, step });
    expect(result).toMatchObject({ outcome: "done" });
    await until(() => runs.length === 3);
    expect(runs).toEqual(["one", "two", "two"]);
    await until(async () => (await (await workflow.handle()).status()).status === "complete");
    const unknown = await act(agent, {
      do: "restart-workflow",
      workflowId,
      step: { name: "three" },
    });
    expect(unknown.outcome).toBe("failed");
    expect(unknown.failed[0]?.error).toMatch(/three|step/i);
    await workflow[Symbol.asyncDispose]();
  });
});

it("restarts a workflow from an event that it waits for", async () => {
  const workflow = await givenScriptedWorkflow(async (step) => {
    await step.waitForEvent("answer", { type: "answer" });
    return "answered";
  });
  await workflow.start();
  const { agent, id: workflowId } = workflow;
  using events = await (await workflow.handle()).subscribe({ filter: ["wait_started"] });
  await events.next();
  const step = { name: "answer" };
  const result = await act(agent, { do: "restart-workflow", workflowId, step });
  expect(result).toMatchObject({ outcome: "done" });
  await (await workflow.handle()).sendEvent({ type: "answer", payload: {} });
  expect(await workflow.output()).toBe("answered");
  await workflow[Symbol.asyncDispose]();
});

describe("a restart from a step that waits at the agent", () => {
  it("W1: tries a failed prompt again, and keeps the answers before it", async () => {
    const failing = ask({ fail: "not yet" });
    let isRepaired = false;
    const workflow = await givenScriptedWorkflow(async (step) => {
      const first = await step.prompt("first", { prompt: "hello" });
      const prompt = isRepaired ? "hello again" : failing;
      const second = await step.prompt("second", { prompt });
      return [first, second];
    });
    const { agent, id: workflowId } = workflow;
    await workflow.start();
    await until(async () => (await (await workflow.handle()).status()).status === "errored");
    isRepaired = true;
    const step = { name: "second" };
    const result = await act(agent, { do: "restart-workflow", workflowId, step });
    expect(result).toMatchObject({ outcome: "done" });
    await until(async () => (await (await workflow.handle()).status()).status === "complete");
    const submissions = await agent.listSubmissions();
    expect(submissions.map(({ status }) => status)).toEqual(["completed", "error", "completed"]);
    await workflow[Symbol.asyncDispose]();
  });

  it("W4: asks for an approval again", async () => {
    const workflow = await givenScriptedWorkflow(async (step) => {
      const { approved } = await step.approval("decide", { key: "a" });
      return approved;
    });
    const { agent, id: workflowId } = workflow;
    await workflow.start();
    const {
      items: [first],
    } = await until(async () => {
      const pending = await capabilitiesOf(agent).approvals.list();
      return pending.items.length > 0 && pending;
    });
    await act(agent, { do: "reject", approvalId: first?.approvalId as string });
    expect(await workflow.output()).toBe(false);
    const step = { name: "decide" };
    const result = await act(agent, { do: "restart-workflow", workflowId, step });
    expect(result).toMatchObject({ outcome: "done" });
    const {
      items: [second],
    } = await until(async () => {
      const pending = await capabilitiesOf(agent).approvals.list();
      return pending.items.length > 0 && pending;
    });
    expect(second?.approvalId).not.toBe(first?.approvalId);
    await act(agent, { do: "approve", approvalId: second?.approvalId as string });
    await until(async () => {
      const { status, output } = await (await workflow.handle()).status();
      return status === "complete" && output === true;
    });
    await workflow[Symbol.asyncDispose]();
  });
});

describe("threads", () => {
  it("clears a thread with messages, and refuses the conversation of the agent", async () => {
    const agent = givenThink();
    const { submissionId } = await agent.submitMessages([message("hello")], { thread: "t" });
    await agent.waitForSubmission(submissionId);
    const clear = { do: "clear-thread", thread: "t" } as const;
    expect(await outcomes(agent, clear)).toEqual(["done", "unchanged"]);
    expect(await agent.threadMessages("t")).toEqual([]);
    const main = await act(agent, { do: "clear-thread", thread: "main" });
    expect(main).toMatchObject({ outcome: "failed", failed: [{ id: "main" }] });
    expect(main.failed[0]?.error).toMatch(/clearMessages/);
  });
});

it("an override of a verb by the app counts", async () => {
  const agent = env.DeliveryAgent.getByName(`d-${crypto.randomUUID()}`);
  const result = await capabilitiesOf(agent).operations.operate({
    action: { do: "cancel", submissionId: "x" },
    by,
    reason,
  });
  expect(result.outcome).toBe("not-found");
  expect(
    await refusal(capabilitiesOf(agent).operations.operate({ action: {} as never, by, reason })),
  ).toMatchObject({
    name: "InvalidOperationError",
  });
});
