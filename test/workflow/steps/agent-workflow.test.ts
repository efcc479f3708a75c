/** Everything of AgentWorkflow works on a ThinkWorkflow, beside the steps of Perdure. */

import type { WorkflowCallback } from "agents/workflows";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { ask } from "../../../src/testing/index.ts";
import { until } from "../../support/given.ts";
import { hold } from "../../support/held-model.ts";
import { givenScriptedWorkflow } from "../../support/workflows/scripted-workflow.ts";

describe("what a workflow tells its agent", () => {
  it("progress, events, the end and an error arrive as callbacks", async () => {
    const callbacks: WorkflowCallback[] = [];
    await using workflow = await givenScriptedWorkflow(
      async (step, self) => {
        await self.tell({ step: "one", percent: 0.5 });
        await step.sendEvent({ kind: "half" });
        const title = await step.prompt("ask", {
          prompt: ask({ answer: { title: "hello" } }),
          output: z.object({ title: z.string() }),
        });
        await step.reportComplete(title);
        await step.reportError("and yet");
      },
      { hooks: { onCallback: (callback) => callbacks.push(callback) } },
    );
    await workflow.start();
    await workflow.output();
    expect(callbacks).toMatchObject([
      { type: "progress", workflowId: workflow.id, progress: { step: "one", percent: 0.5 } },
      { type: "event", event: { kind: "half" } },
      { type: "complete", result: { title: "hello" } },
      { type: "error", error: "and yet" },
    ]);
  });

  it("the agent's state is set, merged and reset", async () => {
    await using workflow = await givenScriptedWorkflow(async (step, { agent }) => {
      const seen: unknown[] = [];
      await step.updateAgentState({ a: 1 });
      seen.push(await agent.currentState());
      await step.mergeAgentState({ b: 2 });
      seen.push(await agent.currentState());
      await step.resetAgentState();
      seen.push(await agent.currentState());
      return JSON.parse(JSON.stringify(seen)) as unknown;
    });
    await workflow.start();
    expect(await workflow.output()).toEqual([{ a: 1 }, { a: 1, b: 2 }, { from: "the start" }]);
  });
});

describe("what an agent tells its workflow", () => {
  it("an approval ends waitForApproval() with its metadata, also after a prompt", async () => {
    await using workflow = await givenScriptedWorkflow(async (step, self) => {
      await step.prompt("ask", { prompt: ask({ answer: {} }), output: z.object({}) });
      return self.approval(step);
    });
    await workflow.start();
    await until(async () => (await workflow.agent.listSubmissions({ status: "completed" })).length);
    await workflow.agent.approve(workflow.id, { by: "ada" });
    expect(await workflow.output()).toEqual({ by: "ada" });
  });

  it("a rejection ends it with WorkflowRejectedError", async () => {
    await using workflow = await givenScriptedWorkflow((step, self) => self.approval(step));
    await workflow.start();
    await until(async () => (await (await workflow.handle()).status()).status !== "queued");
    await workflow.agent.disapprove(workflow.id, "not today");
    expect((await workflow.error()).message).toContain("not today");
  });

  it("its own events arrive by their types", async () => {
    await using workflow = await givenScriptedWorkflow(async (step) => {
      const { payload } = await step.waitForEvent<{ n: number }>("go", { type: "go" });
      return payload;
    });
    await workflow.start();
    await workflow.agent.tell(workflow.id, { type: "go", payload: { n: 7 } });
    expect(await workflow.output()).toEqual({ n: 7 });
  });

  it("it can be paused and resumed while a prompt is waited for", async () => {
    const { script, release } = hold({ answer: {} });
    const prompt = ask(script);
    await using workflow = await givenScriptedWorkflow((step) =>
      step.prompt("ask", { prompt, output: z.object({}) }),
    );
    const status = async () => (await (await workflow.handle()).status()).status;
    await workflow.start();
    await workflow.instance.waitForStepResult({ name: "ask:submit" });
    await workflow.agent.pause(workflow.id);
    await until(async () => (await status()) === "paused");
    release();
    await until(async () => (await workflow.agent.listSubmissions({ status: "completed" })).length);
    await workflow.agent.resume(workflow.id);
    expect(await workflow.output()).toEqual({});
    expect(await status()).toBe("complete");
  });
});
