/** `step.agentTool()` over crashes, restarts and terminations: of the agent, the child and the engine. */

import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { modelCalls } from "../../../src/testing/index.ts";
import { pauseAndResume, restartFrom } from "../../support/engine.ts";
import { crash, until } from "../../support/given.ts";
import { hold } from "../../support/held-model.ts";
import { streams, type ToolParent } from "../../support/workflows/agent-tool-agents.ts";
import type { ToolOutcome } from "../../support/workflows/agent-tool-workflow.ts";
import { givenTools, input } from "../../support/workflows/agent-tools.ts";
import { stepsOf } from "../../support/workflows/watched-steps.ts";

const record = (output: unknown) => ({ name: "record", input: { output } });

function summaryOf(outcomes: ToolOutcome[]): string {
  return (outcomes[0] as { result: { summary: string } }).result.summary;
}

/** Does it once, however often it is called. */
function once(work: (agent: ToolParent) => void): (agent: ToolParent) => void {
  let isDone = false;
  return (agent) => {
    if (isDone) return;
    isDone = true;
    work(agent);
  };
}

/** The step asks its agent again within the same run of the workflow. Returns what came of it. */
async function askedAgain(workflow: Awaited<ReturnType<typeof givenTools>>) {
  const startedAt = Date.now();
  await restartFrom(env.AGENT_TOOL_WORKFLOW, workflow.id, { name: "tool:agent-tool-submit" });
  return until(async () => {
    const found = await workflow.completeAgain();
    return (found[0] as { at: number }).at >= startedAt && found;
  });
}

describe("W1: a step is the same step over restarts", () => {
  it("W1: a completed run answers a restart at once, and is not run again", async () => {
    const asked = input({ tools: [record("kept")] });
    await using workflow = await givenTools([{ name: "tool", input: asked }]);
    await workflow.start();
    const [first] = await workflow.complete();
    const calls = modelCalls.get(asked);
    const firstRun = stepsOf.get(workflow.id);
    const startedAt = Date.now();
    await workflow.agent().restart(workflow.id);
    const [second] = await until(async () => {
      const found = await workflow.completeAgain();
      return (found[0] as { at: number }).at >= startedAt && found;
    });
    expect(second).toMatchObject({ result: (first as { result: object }).result });
    expect(stepsOf.get(workflow.id)).not.toBe(firstRun);
    expect(stepsOf.get(workflow.id)).not.toContain("tool:agent-tool-wait");
    expect(modelCalls.get(asked)).toBe(calls);
  });

  it("W1: a failed run stays failed within its run, and is tried afresh after a restart", async () => {
    const asked = input({ fail: "no model today", failTimes: 1 });
    await using workflow = await givenTools([{ name: "tool", input: asked }]);
    await workflow.start();
    const [first] = await workflow.complete();
    expect(first).toMatchObject({ error: "AgentToolFailedError" });
    expect(await askedAgain(workflow)).toEqual([{ ...first, at: expect.any(Number) }]);
    expect(modelCalls.get(asked)).toBe(1);
    await workflow.agent().restart(workflow.id);
    const [again] = await until(async () => {
      const found = await workflow.completeAgain();
      return "result" in (found[0] ?? {}) && found;
    });
    expect((again as { result: { runId: string } }).result.runId).not.toBe(
      (first as { runId: string }).runId,
    );
    expect(modelCalls.get(asked)).toBe(2);
  });

  it("W1, W4 an output that did not match stays so within its run, and is tried afresh after a restart", async () => {
    const asked = input({ tools: [record({ title: 7 })] });
    const tool = { name: "tool", input: asked, hasSchema: true };
    await using workflow = await givenTools([tool]);
    await workflow.start();
    const [first] = await workflow.complete();
    expect(first).toMatchObject({ error: "AgentToolValidationError" });
    expect(await askedAgain(workflow)).toEqual([{ ...first, at: expect.any(Number) }]);
    expect(modelCalls.get(asked)).toBe(2);
    await workflow.agent().restart(workflow.id);
    await until(() => modelCalls.get(asked) === 4);
  });

  it("W1: an open run is waited for by the run that follows", async () => {
    const { script, release } = hold();
    const asked = input(script);
    await using workflow = await givenTools([{ name: "tool", input: asked }]);
    await workflow.start();
    await until(() => modelCalls.get(asked));
    await workflow.agent().restart(workflow.id);
    release();
    expect(summaryOf(await workflow.completeAgain())).toContain("done");
    expect(modelCalls.get(asked)).toBe(1);
  });

  it("W1: keys tell repeated uses of one name apart", async () => {
    const tools = ["a", "b"].map((key) => ({ name: "loop", key, input: input({ text: key }) }));
    await using workflow = await givenTools(tools);
    await workflow.start();
    expect(await workflow.complete()).toMatchObject(
      ["a ", "b "].map((text) => ({ result: { summary: expect.stringContaining(text) } })),
    );
  });

  it.each([
    { name: "perdure:run" },
    { name: "tool:agent-tool-submit" },
    { name: "tool:agent-tool-wait", type: "waitForEvent" },
  ] as const)("W1, W2 a restart from the step $name finds the completed run", async (step) => {
    const asked = input();
    await using workflow = await givenTools([{ name: "tool", input: asked }]);
    await workflow.start();
    const [first] = await workflow.complete();
    // The event is spent by the first run: the step asks its agent when the time for it is over.
    const wait = { name: "tool:agent-tool-wait" };
    await workflow.instance.modify((modifier) => modifier.forceEventTimeout(wait));
    const startedAt = Date.now();
    await restartFrom(env.AGENT_TOOL_WORKFLOW, workflow.id, step);
    const [second] = await until(async () => {
      const found = await workflow.completeAgain();
      return (found[0] as { at: number }).at >= startedAt && found;
    });
    expect(second).toMatchObject({ result: (first as { result: object }).result });
    expect(modelCalls.get(asked)).toBe(1);
  });
});

it("W5: terminating a workflow cancels its child", async () => {
  const asked = input({ delayMs: 600_000 });
  await using workflow = await givenTools([{ name: "tool", input: asked }]);
  await workflow.start();
  const runId = await workflow.runOf("tool");
  await until(() => modelCalls.get(asked));
  await workflow.agent().terminate(workflow.id);
  await until(async () => (await workflow.agent().statusOf(runId)) === "aborted");
  expect(workflow.finishes()).toEqual([`${runId} aborted`]);
});

it("W5: a termination while the run is started leaves no child at work", async () => {
  const asked = input({ delayMs: 600_000 });
  let id = "";
  await using workflow = await givenTools([{ name: "tool", input: asked }], {
    onStart: (agent) => agent.terminate(id),
  });
  id = workflow.id;
  await workflow.start();
  const runId = await workflow.runOf("tool");
  await until(async () => (await workflow.agent().statusOf(runId)) === "aborted");
  expect(workflow.finishes()).toEqual([`${runId} aborted`]);
});

describe("a crash", () => {
  it.each([
    ["before it has noted the run: the same run is started", false, 1],
    ["after that, and before the child has it: another run is, once", true, 2],
  ])("of the agent %s", async (_, isStored, dispatch) => {
    const asked = input();
    const die = once((agent) => agent.die());
    await using workflow = await givenTools([{ name: "tool", input: asked }], {
      onStart: async (agent) => {
        if (isStored) await agent.stored();
        die(agent);
      },
    });
    await workflow.start();
    const outcomes = await workflow.completeAwake();
    const { runId } = (outcomes[0] as { result: { runId: string } }).result;
    expect(runId.endsWith(`-${dispatch}`)).toBe(true);
    expect(modelCalls.get(asked)).toBe(1);
  });

  it("after a crash of the agent during the run, the child's recovery continues it", async () => {
    const { script, release } = hold({ text: "survived" });
    const asked = input(script);
    await using workflow = await givenTools([{ name: "tool", input: asked }]);
    await workflow.start();
    const runId = await workflow.runOf("tool");
    await until(() => modelCalls.get(asked));
    await workflow
      .agent()
      .die()
      .catch(() => undefined);
    release();
    const outcomes = await workflow.complete();
    expect(outcomes).toMatchObject([{ result: { runId } }]);
    expect(summaryOf(outcomes)).toContain("survived");
    expect(modelCalls.get(asked)).toBe(2);
  });

  it("after a crash of the agent between two milestones, its next instance reports both, and the result has them", async () => {
    const report = (milestone: string) => ({ name: "report", input: { milestone } });
    const tools = [report("one"), report("two")];
    const { script, release } = hold({ tools }, { passes: 1 });
    const asked = input(script);
    await using workflow = await givenTools([{ name: "tool", input: asked }]);
    await workflow.start();
    await until(() => workflow.progress().length > 0);
    await workflow
      .agent()
      .die()
      .catch(() => undefined);
    release();
    const [outcome] = await workflow.complete();
    const { result } = outcome as { result: { milestones: readonly { name: string }[] } };
    const names = result.milestones.map(({ name }) => name);
    const reported = workflow.progress().map(({ milestone }) => milestone);
    // The child's recovery may ask for the first one again, which is then another one of the run.
    expect(new Set(names)).toEqual(new Set(["one", "two"]));
    expect(reported).toEqual(["one", ...names]);
  });

  it.each([
    ["whose end its stream tells of, too", false],
    ["whose end nobody else tells of", true],
  ])(
    "of the agent when it is told of the end of a run %s: the next life finds it",
    async (_, areSilent) => {
      streams.areSilent = areSilent;
      const asked = input({ tools: [record("kept")] });
      await using workflow = await givenTools([{ name: "tool", input: asked }], {
        onFinish: once((agent) => agent.die()),
      });
      await workflow.start();
      try {
        expect(await workflow.completeAwake()).toMatchObject([{ result: { output: "kept" } }]);
      } finally {
        streams.areSilent = false;
      }
      expect(modelCalls.get(asked)).toBe(2);
    },
  );

  it("after a crash of the child alone, its recovery continues the run", async () => {
    const { script, release } = hold({ text: "survived" });
    const asked = input(script);
    await using workflow = await givenTools([{ name: "tool", input: asked }]);
    await workflow.start();
    const runId = await workflow.runOf("tool");
    await until(() => modelCalls.get(asked));
    await workflow.agent().killChild(runId);
    release();
    expect(summaryOf(await workflow.complete())).toContain("survived");
  });

  it("the run ends after a crash of every object at once", async () => {
    const { script, release } = hold({ text: "survived" });
    const asked = input(script);
    await using workflow = await givenTools([{ name: "tool", input: asked }]);
    await workflow.start();
    await until(() => modelCalls.get(asked));
    await crash();
    release();
    expect(summaryOf(await workflow.complete())).toContain("survived");
  });

  it("after a crash of the engine during the wait, the end is found", async () => {
    const { script, release } = hold();
    const asked = input(script);
    await using workflow = await givenTools([{ name: "tool", input: asked }]);
    await workflow.start();
    await until(() => modelCalls.get(asked));
    await pauseAndResume(env.AGENT_TOOL_WORKFLOW, workflow.id);
    release();
    expect(summaryOf(await workflow.completeAgain())).toContain("done");
    expect(modelCalls.get(asked)).toBe(1);
  });

  it("after a crash of the engine while the run ends, the end is found", async () => {
    const { script, release } = hold();
    const asked = input(script);
    await using workflow = await givenTools([{ name: "tool", input: asked }]);
    await workflow.start();
    const runId = await workflow.runOf("tool");
    await until(() => modelCalls.get(asked));
    await pauseAndResume(env.AGENT_TOOL_WORKFLOW, workflow.id, async () => {
      release();
      await until(() => workflow.finishes().length > 0);
    });
    expect(await workflow.completeAgain()).toMatchObject([{ result: { runId } }]);
  });
});

describe("a sub-agent as the agent", () => {
  it("a sub-agent runs its own children", async () => {
    const asked = input({ tools: [record("kept")] });
    const inside = `inner-${crypto.randomUUID()}`;
    await using workflow = await givenTools([{ name: "tool", input: asked }], { inside });
    await workflow.start();
    const [outcome] = await workflow.complete();
    const runId = await workflow.runOf("tool");
    expect(outcome).toMatchObject({ result: { runId, output: "kept" } });
    await until(() => workflow.finishes().length > 0);
    expect(workflow.finishes()).toEqual([`${runId} completed`]);
  });

  it("W5: cancels them when its workflow is terminated", async () => {
    const asked = input({ delayMs: 600_000 });
    const inside = `inner-${crypto.randomUUID()}`;
    await using workflow = await givenTools([{ name: "tool", input: asked }], { inside });
    await workflow.start();
    await until(() => modelCalls.get(asked));
    await workflow.agent().terminateInside(inside, workflow.id);
    await until(() => workflow.finishes().length > 0);
    expect(workflow.finishes()).toEqual([expect.stringMatching(/ aborted$/)]);
  });

  it("a sub-agent continues after a crash of its root during the run", async () => {
    const { script, release } = hold({ text: "survived" });
    const asked = input(script);
    const inside = `inner-${crypto.randomUUID()}`;
    await using workflow = await givenTools([{ name: "tool", input: asked }], { inside });
    await workflow.start();
    await until(() => modelCalls.get(asked));
    await workflow
      .agent()
      .die()
      .catch(() => undefined);
    release();
    expect(summaryOf(await workflow.complete())).toContain("survived");
  });
});
