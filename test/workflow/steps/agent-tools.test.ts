/** `step.agentTool()` in the real engine: how runs end, and what is told of them. */

import { runInDurableObject } from "cloudflare:test";
import type { AgentToolRunInfo } from "agents/agent-tools";
import { describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";
import type { Json } from "../../../src/core/json.ts";
import { modelCalls } from "../../../src/testing/index.ts";
import type { AgentToolResult, ThinkWorkflowStep } from "../../../src/workflow/index.ts";
import { OutboxAgent } from "../../outbox/outbox-agent.ts";
import { message, until } from "../../support/given.ts";
import { hold } from "../../support/held-model.ts";
import { sleep } from "../../support/ledger.ts";
import { streams, ToolChild, type ToolParent } from "../../support/workflows/agent-tool-agents.ts";
import type { ToolParams } from "../../support/workflows/agent-tool-workflow.ts";
import { givenTools, input } from "../../support/workflows/agent-tools.ts";
import { holdWait, stepsOf } from "../../support/workflows/watched-steps.ts";

const record = (output: unknown) => ({ name: "record", input: { output } });
const report = (input: Record<string, unknown>) => ({ name: "report", input });

/** What becomes of one tool. */
async function outcomeOf(tool: Omit<ToolParams["tools"][number], "name">) {
  await using workflow = await givenTools([{ name: "tool", ...tool }]);
  await workflow.start();
  const [outcome] = await workflow.complete();
  const steps = stepsOf.get(workflow.id) ?? [];
  return { outcome, steps, runId: await workflow.runOf("tool") };
}

describe("what a child returns", () => {
  it("a child returns its summary, and no output if it has none", async () => {
    const asked = input({ text: "found it" });
    await using workflow = await givenTools([{ name: "tool", input: asked }]);
    await workflow.start();
    const [outcome] = await workflow.complete();
    const runId = await workflow.runOf("tool");
    const { result } = outcome as { result: AgentToolResult };
    expect(result).toEqual({ runId, summary: expect.stringContaining("found it") });
    expect(modelCalls.get(asked)).toBe(1);
    await until(() => workflow.finishes().length > 0);
    expect(workflow.finishes()).toEqual([`${runId} completed`]);
  });

  it.each(["interrupted", "none", "length", "content-filter", "other"] as const)(
    "W4: a reply of a child that ends by %s is no answer",
    async (finish) => {
      const asked = input({ text: "Your refund of", finish });
      const { outcome } = await outcomeOf({ input: asked, child: "ThinkAgent" });
      expect(outcome).toMatchObject({
        error: "AgentToolFailedError",
        message: expect.stringContaining(`finish reason "${finish}"`),
      });
    },
  );

  it("W4: the step returns the child's output as the schema transforms it", async () => {
    const asked = input({ tools: [record({ title: "hello" })] });
    const { outcome } = await outcomeOf({ input: asked, hasSchema: true });
    expect(outcome).toMatchObject({ result: { output: { title: "hello", count: 7 } } });
  });

  it("W4: an output that does not match is an error that says what is wrong", async () => {
    const asked = input({ tools: [record({ title: 7 })] });
    const { outcome, runId } = await outcomeOf({ input: asked, hasSchema: true });
    expect(outcome).toMatchObject({
      error: "AgentToolValidationError",
      message: expect.stringContaining("title"),
      runId,
      status: "completed",
      retryable: false,
    });
  });

  it("O4: an output too large for an event arrives whole, and one too large for a row is an error", async () => {
    const large = (times: number) => input({ tools: [{ name: "record", input: { times } }] });
    await using workflow = await givenTools([
      { name: "large", input: large(1_200_000) },
      { name: "too large", input: large(1_600_000) },
    ]);
    await workflow.start();
    expect(await workflow.complete()).toMatchObject([
      { length: 1_200_000 },
      { error: "AgentToolFailedError", message: expect.stringContaining("1500000") },
    ]);
  });
});

describe("what a child reports", () => {
  it("reports go to the app once, and milestones are part of the result", async () => {
    const tools = [
      report({ message: "half", fraction: 0.5 }),
      report({ milestone: "first", data: { n: 1 } }),
      report({ milestone: "second" }),
    ];
    await using workflow = await givenTools([{ name: "tool", input: input({ tools }) }]);
    await workflow.start();
    const [outcome] = await workflow.complete();
    const { result } = outcome as { result: AgentToolResult };
    expect(result.milestones).toEqual([
      { name: "first", sequence: 0, at: expect.any(Number), data: { n: 1 } },
      { name: "second", sequence: 1, at: expect.any(Number) },
    ]);
    const same = { step: "tool", status: "running", runId: result.runId };
    expect(workflow.progress()).toEqual([
      { ...same, message: "half", percent: 0.5 },
      { ...same, milestone: "first", data: { n: 1 } },
      { ...same, milestone: "second" },
    ]);
  });

  it("reports go to connected clients", async () => {
    const asked = input({ tools: [report({ milestone: "seen" })] });
    await using workflow = await givenTools([{ name: "tool", input: asked }]);
    const headers = { Upgrade: "websocket" };
    const { webSocket } = await workflow.agent().fetch("http://agent/", { headers });
    const messages: string[] = [];
    webSocket?.accept();
    webSocket?.addEventListener("message", ({ data }) => messages.push(String(data)));
    await workflow.start();
    await workflow.complete();
    const [seen] = await until(() => {
      const found = messages.filter((text) => text.includes("perdure-workflow-progress"));
      return found.length > 0 && found;
    });
    expect(JSON.parse(seen ?? "")).toMatchObject({
      type: "perdure-workflow-progress",
      workflowName: "AGENT_TOOL_WORKFLOW",
      workflowId: workflow.id,
      progress: { step: "tool", milestone: "seen" },
    });
    webSocket?.close();
  });

  it("a report that was missed is delivered at the end", async () => {
    streams.areSilent = true;
    const asked = input({ tools: [report({ milestone: "unheard" })] });
    await using workflow = await givenTools([{ name: "tool", input: asked }]);
    await workflow.start();
    try {
      await workflow.complete();
    } finally {
      streams.areSilent = false;
    }
    expect(workflow.progress()).toMatchObject([{ milestone: "unheard" }]);
  });
});

describe("how a run fails", () => {
  it("AgentToolFailedError: the child's own failure", async () => {
    const { outcome, runId } = await outcomeOf({ input: input({ fail: "no model today" }) });
    expect(outcome).toMatchObject({
      error: "AgentToolFailedError",
      message: expect.stringContaining("no model today"),
      runId,
      status: "error",
      retryable: false,
    });
  });

  it("AgentToolFailedError: a class that the Worker does not export, at once", async () => {
    const { outcome, steps } = await outcomeOf({ input: "anything", child: "Nobody" });
    expect(outcome).toMatchObject({
      error: "AgentToolFailedError",
      message: expect.stringContaining('no class "Nobody"'),
    });
    expect(steps).not.toContain("tool:agent-tool-check-1");
  });

  it.each(["LedgerObject", "OutboxAgent"])(
    "AgentToolFailedError: a class that cannot be a child, at once: %s",
    async (child) => {
      const { outcome, steps } = await outcomeOf({ input: "anything", child });
      expect(outcome).toMatchObject({
        error: "AgentToolFailedError",
        message: expect.stringContaining(
          `${child} cannot run as an agent tool: expected a class that extends Think`,
        ),
      });
      expect(steps).not.toContain("tool:agent-tool-check-1");
    },
  );

  it("AgentToolAbortedError: somebody cancelled the run", async () => {
    const asked = input({ delayMs: 600_000 });
    await using workflow = await givenTools([{ name: "tool", input: asked }]);
    await workflow.start();
    const runId = await workflow.runOf("tool");
    await until(() => modelCalls.get(asked));
    await workflow.agent().cancelRun(runId);
    expect(await workflow.complete()).toMatchObject([
      {
        error: "AgentToolAbortedError",
        message: expect.stringContaining("not today"),
        runId,
        status: "aborted",
        retryable: false,
      },
    ]);
    expect(workflow.finishes()).toEqual([`${runId} aborted`]);
  });

  it("AgentToolAbortedError: somebody cleared the agent's runs", async () => {
    const asked = input({ delayMs: 600_000 });
    await using workflow = await givenTools([{ name: "tool", input: asked }]);
    await workflow.start();
    await until(() => modelCalls.get(asked));
    await workflow.agent().clearRuns();
    // The stream of a child that was deleted does not end: the next life finds out, or a look in some minutes.
    await workflow
      .agent()
      .die()
      .catch(() => undefined);
    expect(await workflow.complete()).toMatchObject([
      { error: "AgentToolAbortedError", message: expect.stringContaining("cleared") },
    ]);
    expect(modelCalls.get(asked)).toBe(1);
  });

  it("AgentToolInterruptedError: the agent gave up a child that went silent", async () => {
    const tools = [report({ milestone: "one" })];
    const asked = input(hold({ tools }, { passes: 1 }).script);
    await using workflow = await givenTools([{ name: "tool", input: asked }], {
      isImpatient: true,
    });
    await workflow.start();
    const [outcome] = await workflow.complete();
    const runId = await workflow.runOf("tool");
    expect(outcome).toMatchObject({
      error: "AgentToolInterruptedError",
      runId,
      status: "interrupted",
      reason: "no-progress",
      childStillRunning: false,
      retryable: true,
    });
    expect(await workflow.agent().statusOf(runId)).toBe("aborted");
  });
});

describe("W2: no wait hangs", () => {
  it("W2: a timeout cancels the child and says so", async () => {
    const asked = input({ delayMs: 600_000 });
    await using workflow = await givenTools([{ name: "tool", input: asked, timeout: 500 }]);
    holdWait(workflow.id, () => until(() => modelCalls.get(asked)));
    await workflow.start();
    const [outcome] = await workflow.complete();
    const runId = await workflow.runOf("tool");
    expect(outcome).toMatchObject({
      error: "AgentToolTimeoutError",
      message: expect.stringContaining("500 ms"),
      runId,
      status: "timeout",
    });
    await until(async () => (await workflow.agent().statusOf(runId)) === "aborted");
    expect(workflow.finishes()).toEqual([`${runId} aborted`]);
  });

  it("W2: a run whose end nobody has told of wins over the timeout", async () => {
    streams.areSilent = true;
    const asked = input({ tools: [record("kept")] });
    await using workflow = await givenTools([{ name: "tool", input: asked, timeout: 500 }]);
    let runId = "";
    const hasEnded = async () => (await workflow.agent().statusOf(runId)) === "completed";
    holdWait(workflow.id, () => until(async () => runId !== "" && (await hasEnded())));
    await workflow.start();
    runId = await workflow.runOf("tool");
    try {
      expect(await workflow.complete()).toMatchObject([{ result: { output: "kept" } }]);
    } finally {
      streams.areSilent = false;
    }
  });

  it("W2: an interrupted child that still runs is waited for, and may end", async () => {
    const { script, release } = hold();
    const asked = input(script);
    await using workflow = await givenTools([{ name: "tool", input: asked }]);
    await workflow.start();
    const runId = await workflow.runOf("tool");
    await until(() => modelCalls.get(asked));
    const run = { runId, agentType: "ToolChild" } as AgentToolRunInfo;
    const interruption = {
      status: "interrupted",
      reason: "no-progress",
      childStillRunning: true,
    } as const;
    await workflow.agent().reportEnd(run, interruption);
    release();
    expect(await workflow.complete()).toMatchObject([{ result: { runId } }]);
  });

  it("W2: an interrupted child that still runs when the time is over is told of as such", async () => {
    const asked = input({ delayMs: 600_000 });
    await using workflow = await givenTools([{ name: "tool", input: asked, timeout: 500 }]);
    let isReported = false;
    holdWait(workflow.id, () => until(() => isReported));
    await workflow.start();
    const runId = await workflow.runOf("tool");
    await until(() => modelCalls.get(asked));
    const run = { runId, agentType: "ToolChild" } as AgentToolRunInfo;
    const interruption = { status: "interrupted", reason: "inspect-failed" } as const;
    await workflow.agent().reportEnd(run, interruption);
    isReported = true;
    expect(await workflow.complete()).toMatchObject([
      { error: "AgentToolInterruptedError", reason: "inspect-failed", childStillRunning: true },
    ]);
    await until(async () => (await workflow.agent().statusOf(runId)) === "aborted");
  });
});

it("O2: the end does not wait for the turn that the agent runs", async () => {
  await using workflow = await givenTools([{ name: "tool", input: input() }]);
  await workflow.agent().submitMessages([message({ delayMs: 600_000 })], { submissionId: "busy" });
  await workflow.start();
  await workflow.complete();
  expect(await workflow.agent().inspectSubmission("busy")).toMatchObject({ status: "running" });
  await workflow.agent().cancelSubmission("busy");
});

it("a run that the agent has no place for waits for one", async () => {
  const inputs = [1, 2, 3].map(() => input());
  const tools = inputs.map((asked, n) => ({ name: `tool ${n}`, input: asked }));
  await using workflow = await givenTools(tools, { isParallel: true, maxConcurrent: 1 });
  await workflow.start();
  const outcomes = await workflow.complete();
  expect(outcomes.every((outcome) => "result" in outcome)).toBe(true);
  expect(inputs.map((asked) => modelCalls.get(asked))).toEqual([1, 1, 1]);
});

it("a run that never had a place says so when its time is over", async () => {
  await using workflow = await givenTools([{ name: "tool", input: "never", timeout: 1_000 }], {
    maxConcurrent: 0,
  });
  await workflow.start();
  expect(await workflow.complete()).toMatchObject([
    {
      error: "AgentToolTimeoutError",
      message: expect.stringContaining("maxConcurrentAgentTools (0) exceeded"),
    },
  ]);
});

it("the app's own agent tools run as they did, and their ends are told once", async () => {
  await using workflow = await givenTools([]);
  const agent = workflow.agent();
  const asked = input({ text: "delegated" });
  const turn = message({ tools: [{ name: "delegate", input: asked }], text: "and done" });
  const { submissionId } = await agent.submitMessages([turn]);
  expect(await agent.waitForSubmission(submissionId)).toMatchObject({ status: "completed" });
  expect(modelCalls.get(asked)).toBe(1);
  expect(workflow.finishes()).toEqual([expect.stringMatching(/^(?!perdure).* completed$/)]);
});

it.each([
  [{ input: undefined as unknown }, "input is undefined, which JSON cannot hold"],
  [{ input: "x", key: 3 as unknown as string }, "Invalid key 3"],
  [{ input: "x", timeout: -1 }, "Invalid timeout -1"],
  [{ input: "x", retries: 1 }, 'Unknown option "retries" in options'],
  [{ input: "x", child: "" }, 'Invalid child ""'],
])("invalid options are refused without a retry: %#", async (tool, word) => {
  await using workflow = await givenTools([{ name: "bad", ...tool }]);
  await workflow.start();
  await workflow.instance.waitForStatus("errored");
  const error = await workflow.instance.getError();
  expect(error.message).toContain('step.agentTool("bad")');
  expect(error.message).toContain(word);
});

it("costs its agent few rows more than a detached run without a workflow", async () => {
  await using warm = await givenTools([{ name: "first", input: input() }]);
  await warm.start();
  await warm.complete();
  const counted = async (work: () => Promise<unknown>) => {
    const before = warm.finishes().length;
    await runInDurableObject(warm.agent(), ({ meter }: ToolParent) => meter.reset());
    await work();
    await until(() => warm.finishes().length === before + 1);
    // Forgetting the delivery is part of the price.
    await sleep(500);
    return runInDurableObject(warm.agent(), ({ meter }: ToolParent) => meter.read());
  };
  await until(() => warm.finishes().length === 1);
  const bare = await counted(() => warm.agent().runDetached(input()));
  const id = `wf-${crypto.randomUUID()}`;
  const step = await counted(() =>
    warm.agent().startTools(id, { tools: [{ name: "tool", input: input() }] }),
  );
  // The first addends are those of the durable start (see cost.test.ts).
  expect(step.rowsWritten - bare.rowsWritten).toBeLessThanOrEqual(4 + 16);
  expect(step.statements - bare.statements).toBeLessThanOrEqual(19 + 32);
  expect(step.setAlarms - bare.setAlarms).toBeLessThanOrEqual(2 + 1);
});

/** Types are part of the product. */
it("a result has the type of its schema", () => {
  type Step = Pick<ThinkWorkflowStep, "agentTool">;
  const schema = z.object({ title: z.string() });
  const typed = (step: Step) => step.agentTool("n", ToolChild, { input: 1, output: schema });
  expectTypeOf(typed).returns.resolves.toEqualTypeOf<AgentToolResult<{ title: string }>>();
  const plain = (step: Step) => step.agentTool("n", "ToolChild", { input: { any: "thing" } });
  expectTypeOf(plain).returns.resolves.toEqualTypeOf<AgentToolResult<Json | undefined>>();
  // @ts-expect-error an agent without a conversation is no child
  const wrong = (step: Step) => step.agentTool("n", OutboxAgent, { input: 1 });
  // @ts-expect-error a class of another kind is no child
  const date = (step: Step) => step.agentTool("n", Date, { input: 1 });
  // @ts-expect-error a child is given something
  const none = (step: Step) => step.agentTool("n", ToolChild, {});
  expect([typed, plain, wrong, date, none]).toHaveLength(5);
});
