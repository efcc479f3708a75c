/** Compensation by the platform's own step rollback: of Code Mode, and of a prompt. */

import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { ask } from "../../../src/testing/index.ts";
import { dyingAt, givenCode, times } from "../../features/codemode/steps/codemode.ts";
import { pauseAndResume, reached } from "../../support/engine.ts";
import { until } from "../../support/given.ts";
import { silence } from "../../support/scheduler.ts";
import { ToolChild } from "../../support/workflows/agent-tool-agents.ts";
import { input } from "../../support/workflows/agent-tools.ts";
import { givenScriptedWorkflow } from "../../support/workflows/scripted-workflow.ts";

function reserving(order: string): string {
  return `async () => {
    await shop.look({ order: "${order}" });
    return shop.reserve({ order: "${order}" });
  }`;
}

describe("runCode() with rollback", () => {
  it("the execution is undone once when the workflow fails later", async () => {
    const code = givenCode();
    const step = { name: "reserve", code: reserving(code.order), rollback: true };
    await code.start([step], { fail: "late trouble" });
    await code.failed();
    expect(times("unreserve", code.order)).toBe(1);
    expect(await code.agent().executions()).toMatchObject([{ status: "rolled_back" }]);
  });

  it("the execution is kept when the workflow succeeds, and without the option rollback", async () => {
    const [kept, unasked] = [givenCode(), givenCode()];
    await kept.start([{ name: "reserve", code: reserving(kept.order), rollback: true }]);
    await unasked.start([{ name: "reserve", code: reserving(unasked.order) }], { fail: "trouble" });
    await kept.complete();
    await unasked.failed();
    expect(times("unreserve", kept.order)).toBe(0);
    expect(times("unreserve", unasked.order)).toBe(0);
  });

  it("undoes the calls of an execution that failed, too", async () => {
    const code = givenCode();
    const text = `async () => { await shop.reserve({ order: "${code.order}" }); throw new Error("no"); }`;
    await code.start([{ name: "reserve", code: text, rollback: true }], { fail: "trouble" });
    await code.failed();
    expect(times("unreserve", code.order)).toBe(1);
  });

  it("the execution is undone after the engine has restarted", async () => {
    const code = givenCode();
    const step = { name: "reserve", code: reserving(code.order), rollback: true };
    await code.start([step], { waitFor: "go", fail: "late trouble" });
    await until(() => times("reserve", code.order) === 1);
    await reached(env.CODEMODE_WORKFLOW, code.id, "waiting", "running");
    await pauseAndResume(env.CODEMODE_WORKFLOW, code.id);
    await (await env.CODEMODE_WORKFLOW.get(code.id)).sendEvent({ type: "go", payload: {} });
    await code.failed();
    expect(times("unreserve", code.order)).toBe(1);
    expect(times("reserve", code.order)).toBe(1);
  });

  it("is undone when the instance is terminated with rollback", async () => {
    const code = givenCode();
    const step = { name: "reserve", code: reserving(code.order), rollback: true };
    await code.start([step], { waitFor: "go" });
    await until(async () => (await code.agent().waitsOfCode())[0]?.status === "completed");
    await until(() => times("waits", code.id));
    await (await env.CODEMODE_WORKFLOW.get(code.id)).terminate({ rollback: true });
    await reached(env.CODEMODE_WORKFLOW, code.id, "terminated");
    expect(times("unreserve", code.order)).toBe(1);
  });

  it("W5: the execution is undone when the agent terminates the workflow with rollback, which ends its waits", async () => {
    const code = givenCode();
    const step = { name: "reserve", code: reserving(code.order), rollback: true };
    await code.start([step], { waitFor: "go" });
    await until(() => times("waits", code.id));
    await code.agent().terminate(code.id, { rollback: true });
    await reached(env.CODEMODE_WORKFLOW, code.id, "terminated");
    expect(times("unreserve", code.order)).toBe(1);
  });

  it("is undone when the instance is terminated with rollback while an action of it waits", async () => {
    const code = givenCode();
    const text = `async () => {
      const { order } = await shop.reserve({ order: "${code.order}" });
      return shop.charge({ order });
    }`;
    await code.start([{ name: "reserve", code: text, rollback: true }]);
    await code.approval();
    await (await env.CODEMODE_WORKFLOW.get(code.id)).terminate({ rollback: true });
    await reached(env.CODEMODE_WORKFLOW, code.id, "terminated");
    expect(times("unreserve", code.order)).toBe(1);
    expect(times("charge", code.order)).toBe(0);
    expect(await code.agent().openApprovals()).toEqual([]);
  });

  it("L6: the agent dies when it has undone it: what is marked is not undone again", async () => {
    silence();
    const code = givenCode(dyingAt("after", "rollback"));
    const step = { name: "reserve", code: reserving(code.order), rollback: true };
    await code.start([step], { fail: "late trouble" });
    await code.failed();
    expect(times("unreserve", code.order)).toBe(1);
  });

  it("a rollback ends where the runtime has no record of the execution", async () => {
    const code = givenCode();
    const step = { name: "reserve", code: reserving(code.order), rollback: true };
    await code.start([step], { waitFor: "go", fail: "late trouble" });
    await until(() => times("waits", code.id));
    await code.agent().forgetExecutions();
    await (await env.CODEMODE_WORKFLOW.get(code.id)).sendEvent({ type: "go", payload: {} });
    await code.failed();
    expect(times("unreserve", code.order)).toBe(0);
  });

  it("W1: a restart after a rollback runs the code afresh", async () => {
    const code = givenCode();
    const step = { name: "reserve", code: reserving(code.order), rollback: true };
    await code.start([step], { fail: "late trouble" });
    await code.failed();
    expect(times("unreserve", code.order)).toBe(1);
    await code.agent().restart(code.id);
    await until(() => times("reserve", code.order) === 2);
    await until(() => times("unreserve", code.order) === 2);
  });

  it("an execution of a sub-agent is undone in the sub-agent", async () => {
    const code = givenCode();
    const codes = [{ name: "reserve", code: reserving(code.order), rollback: true }];
    await code.agent().startInChild(code.id, { codes, fail: "late trouble" });
    await code.failed();
    expect(times("unreserve", code.order)).toBe(1);
  });
});

describe("step.prompt() with a rollback handler", () => {
  const prompt = (order: string) => ({ text: ask({ answer: { done: "booked", order } }) });

  it("the handler is called once with the answer when the workflow fails later", async () => {
    const code = givenCode();
    await code.start([], { prompt: prompt(code.order), fail: "late trouble" });
    await code.failed();
    expect(times("undone:booked", code.order)).toBe(1);
  });

  it("a handler that fails is called again", async () => {
    silence();
    const code = givenCode(dyingAt("before", "undo"));
    await code.start([], { prompt: prompt(code.order), fail: "late trouble" });
    await code.failed();
    expect(times("undone:booked", code.order)).toBe(1);
  });

  it("that is no function is refused", async () => {
    const code = givenCode();
    await code.start([], { prompt: { ...prompt(code.order), isBroken: true } });
    expect(JSON.stringify((await code.failed()).error)).toMatch(/rollback|NonRetryable/);
    expect(await code.agent().listSubmissions()).toEqual([]);
  });

  it("the handler is also called after the engine has restarted", async () => {
    const code = givenCode();
    await code.start([], { prompt: prompt(code.order), waitFor: "go", fail: "late trouble" });
    await until(async () => (await code.agent().listSubmissions({ status: "completed" })).length);
    await pauseAndResume(env.CODEMODE_WORKFLOW, code.id);
    await (await env.CODEMODE_WORKFLOW.get(code.id)).sendEvent({ type: "go", payload: {} });
    await code.failed();
    expect(times("undone:booked", code.order)).toBe(1);
  });

  it("the handler is not called when the workflow succeeds", async () => {
    const code = givenCode();
    await code.start([], { prompt: prompt(code.order) });
    await code.complete();
    expect(times("undone:booked", code.order)).toBe(0);
  });
});

describe("step.agentTool() with a rollback handler", () => {
  it.each([
    [
      "runs it once with the result when the workflow fails later",
      true,
      [expect.stringContaining("found it")],
    ],
    ["does not run it when the workflow succeeds", false, []],
  ])("%s", async (_, fails, expected) => {
    const undone: string[] = [];
    await using workflow = await givenScriptedWorkflow(async (step) => {
      await step.agentTool("tool", ToolChild, {
        input: input({ text: "found it" }),
        rollback: async ({ summary }) => {
          undone.push(summary);
        },
      });
      if (fails) throw new Error("late trouble");
    });
    await workflow.start();
    if (fails) await workflow.error();
    else await workflow.output();
    expect(undone).toEqual(expected);
  });

  it("a handler that is no function is refused at once", async () => {
    await using workflow = await givenScriptedWorkflow((step) =>
      step.agentTool("tool", ToolChild, { input: {}, rollback: true as never }),
    );
    await workflow.start();
    expect((await workflow.error()).message).toContain(
      "Invalid rollback true: expected a function.",
    );
  });
});
