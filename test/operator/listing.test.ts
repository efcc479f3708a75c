/** Threads and workflows in lists for operators, and a workflow with its steps. */

import { runInDurableObject } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import { capabilitiesOf } from "../../src/hosts/public.ts";
import { CAPABILITIES } from "../../src/hosts/verbs.ts";
import { inspectWorkflow } from "../../src/operator/listing.ts";
import { operatedOf } from "../../src/operator/operated.ts";
import type { PageOptions, ThreadSummary } from "../../src/operator/protocol.ts";
import { givenThink, message, refusal, until } from "../support/given.ts";
import type { ThinkAgent } from "../support/think-agent.ts";
import { givenWorkflow } from "../support/workflows/approvals.ts";
import { givenScriptedWorkflow } from "../support/workflows/scripted-workflow.ts";

const hang = () => new Promise(() => {});
const endless = async () => ({
  next: async () => {
    await new Promise((resolve) => setTimeout(resolve, 5));
    const stepName = `endless-${crypto.randomUUID()}`;
    return { done: false, value: { type: "step_started", stepName, timestamp: Date.now() } };
  },
  [Symbol.dispose]: () => {},
});

type Agent = ReturnType<typeof givenThink>;

function inside<T>(
  agent: Agent,
  work: (object: ThinkAgent, storage: DurableObjectStorage) => T | Promise<T>,
): Promise<T> {
  return runInDurableObject(agent as unknown as DurableObjectStub, (object, { storage }) =>
    work(object as unknown as ThinkAgent, storage),
  );
}

async function allThreads(agent: Agent, limit: number): Promise<ThreadSummary[]> {
  const all: ThreadSummary[] = [];
  let cursor: string | undefined;
  do {
    const page = await capabilitiesOf(agent).operations.listThreads({
      limit,
      ...(cursor !== undefined && { cursor }),
    });
    all.push(...page.items);
    cursor = page.cursor;
  } while (cursor !== undefined);
  return all;
}

it("costs are listed by day, newest first, each once where a submission repairs another one", async () => {
  const agent = givenThink();
  const { operations } = capabilitiesOf(agent);
  const { submissionId } = await agent.submitMessages([message("hello")]);
  await agent.waitForSubmission(submissionId);
  expect(await operations.listCosts()).toEqual({ items: [] });
  await inside(agent, (_, { sql }) => {
    const plant = (seq: number, day: number, cost: number | null, key: string | null) =>
      sql.exec(
        `INSERT INTO perdure_submissions (seq, submission_id, idempotency_key, status, created_at, settled_at, usage, messages)
         VALUES (?, ?, ?, 'completed', 0, ?, json_object('cost', ?), '[]')`,
        ...[seq, `s${seq}`, key, day * 86_400_000 + 5, cost],
      );
    plant(10, 20_000, 0.1, null);
    plant(11, 20_000, 0.2, null);
    plant(12, 20_001, null, null);
    plant(13, 20_002, 1, null);
    plant(14, 20_002, 1.5, "perdure-repair:s13");
    plant(15, 20_003, 2, null);
  });
  const first = await operations.listCosts({ limit: 2 });
  expect(first.items).toEqual([
    { day: "2024-10-07", cost: 2, submissions: 1 },
    { day: "2024-10-06", cost: 1.5, submissions: 1 },
  ]);
  const { cursor } = first;
  expect(await operations.listCosts({ limit: 2, cursor })).toEqual({
    items: [{ day: "2024-10-04", cost: 0.3, submissions: 2 }],
  });
  const error = await refusal(operations.listCosts({ cursor: "threads:1" }));
  expect(error).toMatchObject({ name: "InvalidOperationError" });
});

describe("threads", () => {
  it("are listed by their latest submission, in pages, with what is open in each", async () => {
    const agent = givenThink();
    const notBefore = new Date(Date.now() + 3_600_000);
    for (const thread of ["a", "b", "a", "isolated", "c'; --", "b"]) {
      const { submissionId } = await agent.submitMessages([message("hello")], { thread });
      await agent.waitForSubmission(submissionId);
    }
    await agent.submitMessages([message("later")], { thread: "a", notBefore });
    await agent.submitMessages([message("later")], { notBefore });
    expect(await allThreads(agent, 2)).toMatchObject([
      { thread: "main", open: 1, total: 1 },
      { thread: "a", open: 1, total: 3 },
      { thread: "b", open: 0, total: 2 },
      { thread: "c'; --", open: 0, total: 1 },
      { thread: "isolated", open: 0, total: 1 },
    ]);
    const [latest] = await agent.listSubmissions({ limit: 1 });
    expect((await capabilitiesOf(agent).operations.listThreads()).items[0]?.lastAt).toBe(
      latest?.createdAt,
    );
    expect(await capabilitiesOf(givenThink()).operations.listThreads()).toEqual({ items: [] });
  });

  it("have messages in pages, the last first, which end early where messages are large", async () => {
    const agent = givenThink();
    for (const size of [10, 10, 1_800_000, 1_500_000, 900_000]) {
      const { submissionId } = await agent.submitMessages([message("x".repeat(size))], {
        thread: "t",
      });
      await agent.waitForSubmission(submissionId);
    }
    const whole = await agent.threadMessages("t");
    expect(whole).toHaveLength(10);
    const walk = async (limit: number) => {
      const pages: string[][] = [];
      let cursor: string | undefined;
      do {
        const page = await capabilitiesOf(agent).operations.listThreadMessages("t", {
          limit,
          ...(cursor && { cursor }),
        });
        pages.push(page.items.map(({ id }) => id));
        cursor = page.cursor;
      } while (cursor !== undefined);
      expect(pages.flat()).toEqual(whole.map(({ id }) => id).reverse());
      return pages.map(({ length }) => length);
    };
    expect(Math.max(...(await walk(3)))).toBe(3);
    // Their texts, and the answers that repeat them, have 8,400,000 characters in all.
    expect((await walk(100)).length).toBe(3);
    expect(await capabilitiesOf(agent).operations.listThreadMessages("none")).toEqual({
      items: [],
    });
    expect(
      await capabilitiesOf(agent).operations.listThreadMessages("t", { cursor: "messages:0" }),
    ).toEqual({ items: [] });
    const refused = await refusal(capabilitiesOf(agent).operations.listThreadMessages(7 as never));
    expect(refused.message).toMatch(/^Invalid thread 7: expected/);
  });

  it("are found among 100,000 submissions with a bounded number of rows read", {
    timeout: 60_000,
  }, async () => {
    const agent = givenThink();
    await capabilitiesOf(agent).operations.listThreads();
    const read = await inside(agent, async (object, storage) => {
      storage.sql.exec(
        `WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 120000)
         INSERT INTO perdure_submissions (seq, submission_id, status, thread, created_at, settled_at, messages)
         SELECT n, 's' || n, 'completed', 'thread ' || (n % 1000), n, n, '[]' FROM n`,
      );
      object.meter.reset();
      const { items, cursor } = await object.operations.listThreads({ limit: 100 });
      expect(items).toHaveLength(100);
      expect(items[0]).toEqual({ thread: "thread 0", open: 0, total: 100, lastAt: 120_000 });
      expect(cursor).toBeDefined();
      await object.operations.listThreads({ limit: 100, cursor: cursor as string });
      return object.meter.read().rowsRead;
    });
    // SQLite reads each row, and sorts it by its thread.
    expect(read).toBeLessThan(2 * 2 * 100_000 + 10_000);
  });

  it.each<[unknown, RegExp]>([
    [{ limit: 0 }, /^Invalid limit 0: expected a whole number from 1 to 100/],
    [{ limit: 101 }, /^Invalid limit 101/],
    [{ cursor: "x" }, /^Invalid cursor "x": expected the cursor of an earlier page/],
    [{ before: 1 }, /^Unknown option "before" in options of operations\.listThreads\(\)/],
    [null, /^Invalid options of operations\.listThreads\(\) null/],
  ])("invalid options %j are refused", async (options, expected) => {
    const agent = givenThink();
    const error = await refusal(
      capabilitiesOf(agent).operations.listThreads(options as PageOptions),
    );
    expect(error).toMatchObject({ name: "InvalidOperationError" });
    expect(error.message).toMatch(expected);
  });
});

describe("workflows", () => {
  it("are listed in pages, by status and by name", async () => {
    const workflow = await givenWorkflow([{ name: "first" }]);
    await workflow.pending();
    const { agent, id } = workflow;
    for (let one = 0; one < 3; one++)
      await agent.startScripted(`missing-${id}-${one}`).catch(() => {});
    const all = await capabilitiesOf(agent).operations.listWorkflows({ limit: 2 });
    expect(all.items).toHaveLength(2);
    const cursor = all.cursor as string;
    const rest = await capabilitiesOf(agent).operations.listWorkflows({ limit: 2, cursor });
    const ids = [...all.items, ...rest.items].map(({ workflowId }) => workflowId);
    expect(new Set(ids).size).toBe(4);
    const approvals = await capabilitiesOf(agent).operations.listWorkflows({
      workflow: "APPROVAL_WORKFLOW",
    });
    expect(approvals.items).toMatchObject([{ workflowId: id, workflow: "APPROVAL_WORKFLOW" }]);
    expect(await capabilitiesOf(agent).operations.listWorkflows({ status: ["paused"] })).toEqual({
      items: [],
    });
    for (const [options, expected] of [
      [{ status: "lost" }, /^Invalid status "lost": expected one or more of queued/],
      [{ status: [] }, /^Invalid status/],
      [{ cursor: "x" }, /^Invalid cursor "x": expected the cursor of an earlier page/],
      [{ name: "x" }, /^Unknown option "name"/],
    ] as const) {
      const error = await refusal(capabilitiesOf(agent).operations.listWorkflows(options as never));
      expect(error).toMatchObject({ name: "InvalidOperationError" });
      expect(error.message).toMatch(expected);
    }
  });

  it.each<[string, object]>([
    ["hangs", { get: () => new Promise(() => {}) }],
    ["has an instance that hangs", { get: async () => ({ status: hang, subscribe: hang }) }],
    ["fails", { get: () => Promise.reject(new Error("not now")) }],
    ["has no events", { get: async () => ({ status: async () => ({ status: "waiting" }) }) }],
    ["has endless events", { get: async () => ({ status: hang, subscribe: endless }) }],
    ["is gone", {}],
  ])("one is shown where the platform %s", async (_, binding) => {
    const workflow = await givenWorkflow([{ name: "first" }]);
    await workflow.pending();
    await inside(workflow.agent, async (object) => {
      const operated = operatedOf(object[CAPABILITIES]);
      const env = { APPROVAL_WORKFLOW: binding };
      const found = await inspectWorkflow({ ...operated, env }, workflow.id);
      expect(found?.status).toMatch(/queued|running|waiting/);
      expect(found?.steps).toContainEqual(
        expect.objectContaining({ name: "first", kind: "approval", status: "pending" }),
      );
    });
  });

  it("W1: one is shown with its steps: those that wait at the agent, and those of the platform", async () => {
    const workflow = await givenScriptedWorkflow(async (step) => {
      await step.do("prepare", async () => 1);
      await step.do("prepare", async () => "y".repeat(5_000));
      const answer = await step.prompt("ask", { prompt: "hello ".repeat(500) });
      await step.promptAll("many", ["a", "b"], { prompt: (item) => item });
      await step.sleep("rest", 10);
      await step.approval("decide", { title: "Go on?", timeout: "1 hour" });
      return { answer };
    });
    await workflow.start();
    const { agent, id } = workflow;
    const {
      items: [approval],
    } = await until(async () => {
      const found = await capabilitiesOf(agent).approvals.list();
      return found.items.length > 0 && found;
    });
    const costless = await capabilitiesOf(agent).operations.inspectWorkflow(id);
    expect(JSON.stringify(costless)).not.toContain('"cost"');
    await inside(agent, (_, { sql }) => {
      sql.exec("UPDATE perdure_submissions SET usage = json_object('cost', 0.1) WHERE seq <= 3");
      // The answer of the first prompt was refused, and the one that repairs it goes on with its usage.
      sql.exec(`INSERT INTO perdure_submissions (seq, submission_id, idempotency_key, status, created_at, settled_at, usage, messages)
        SELECT 9, 'repair', 'perdure-repair:' || submission_id, 'completed', created_at, settled_at, json_object('cost', 0.3), messages
        FROM perdure_submissions WHERE seq = 1`);
    });
    const details = await capabilitiesOf(agent).operations.inspectWorkflow(id);
    expect(details?.cost).toBe(0.5);
    expect(details?.steps.map(({ cost }) => cost)).toEqual([
      ...[undefined, undefined, 0.3, 0.2, undefined, undefined],
    ]);
    expect(details).toMatchObject({ workflowId: id, workflow: "SCRIPTED_WORKFLOW" });
    const steps = details?.steps ?? [];
    expect(steps.map(({ name, kind, status }) => [name, kind, status])).toEqual([
      ["prepare", "do", "completed"],
      ["prepare", "do", "completed"],
      ["ask", "prompt", "completed"],
      ["many", "batch", "completed"],
      ["rest", "sleep", "completed"],
      ["decide", "approval", "pending"],
    ]);
    // What goes in and comes out is cut.
    expect(steps[0]?.output).toBe("1");
    expect(steps[1]).toMatchObject({ count: 2, output: `"${"y".repeat(999)}...` });
    expect(steps[2]).toMatchObject({ input: "hello ".repeat(500).slice(0, 1_000) });
    expect(steps[2]?.output).toMatch(/^".+"?$/s);
    expect(JSON.parse(steps[5]?.input ?? "")).toMatchObject({ title: "Go on?" });
    expect(steps[2]?.submissionIds).toHaveLength(1);
    expect(steps[3]?.submissionIds).toHaveLength(2);
    expect(steps[5]?.approvalId).toBe(approval?.approvalId);
    expect(steps.every(({ startedAt }) => startedAt > 0)).toBe(true);
    await capabilitiesOf(agent).approvals.grant(approval?.approvalId as string);
    await workflow.output();
    const ended = await capabilitiesOf(agent).operations.inspectWorkflow(id);
    expect(ended).toMatchObject({ status: "complete", output: { answer: expect.any(String) } });
    expect(ended?.steps.at(-1)).toMatchObject({ name: "decide", status: "approved" });
    expect(await capabilitiesOf(agent).operations.inspectWorkflow("none")).toBeNull();
    const error = await refusal(capabilitiesOf(agent).operations.inspectWorkflow(7 as never));
    expect(error).toMatchObject({ name: "InvalidOperationError" });
    await workflow[Symbol.asyncDispose]();
  });
});
