/** How the run of a workflow ended is tracked by its agent, without a call of `reportComplete()`. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import type { WorkflowCallback } from "agents/workflows";
import { expect, it, vi } from "vitest";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { CAPABILITIES } from "../../../src/hosts/verbs.ts";
import { listWorkflows } from "../../../src/operator/listing.ts";
import { operatedOf } from "../../../src/operator/operated.ts";
import { sleepUntilNext } from "../../../src/scheduler/index.ts";
import { ask } from "../../../src/testing/index.ts";
import { pauseAndResume } from "../../support/engine.ts";
import { until } from "../../support/given.ts";
import { creating, type ThinkAgent } from "../../support/think-agent.ts";
import {
  givenScriptedWorkflow,
  type WorkflowBody,
} from "../../support/workflows/scripted-workflow.ts";

/** A workflow, and the callbacks that its agent has received. */
async function given(body: WorkflowBody, isSub = false) {
  const callbacks: WorkflowCallback[] = [];
  const hooks = { onCallback: (callback: WorkflowCallback) => callbacks.push(callback) };
  const workflow = await givenScriptedWorkflow(body, { hooks, isSub });
  const inside = <T>(work: (agent: ThinkAgent) => T | Promise<T>): Promise<T> =>
    runInDurableObject(workflow.agent as unknown as DurableObjectStub, (agent) =>
      work(agent as unknown as ThinkAgent),
    );
  const tracked = () => inside((agent) => agent.getWorkflow(workflow.id));
  return Object.assign(workflow, { callbacks, inside, tracked });
}

it("a run that returns is complete, and the agent gets no callback", async () => {
  await using workflow = await given(async (step) => step.do("one", async () => 1));
  await workflow.start();
  expect(await workflow.output()).toBe(1);
  const tracked = await workflow.tracked();
  expect(tracked).toMatchObject({ status: "complete", completedAt: expect.any(Date) });
  expect(workflow.callbacks).toEqual([]);
  const { agent, id } = workflow;
  const [listed] = (await capabilitiesOf(agent).operations.listWorkflows({ status: "complete" }))
    .items;
  expect(listed).toMatchObject({ workflowId: id, endedAt: expect.any(Number) });
  expect(
    await capabilitiesOf(agent).operations.listWorkflows({ status: ["queued", "running"] }),
  ).toEqual({
    items: [],
  });
  expect((await capabilitiesOf(agent).operations.healthReport()).counts.workflows).toEqual({
    complete: 1,
  });
  // The platform bills each step.
  const details = await capabilitiesOf(agent).operations.inspectWorkflow(id);
  expect(details?.steps.map(({ name }) => name)).toEqual(["one"]);
});

it("a run that ends before create() has returned is tracked with its end", async () => {
  const bodies: [string, WorkflowBody][] = [
    ["complete", async (step) => step.do("one", async () => 1)],
    ["errored", () => Promise.reject(new RangeError("no stock"))],
    ["errored", async (step) => step.reportError("not enough")],
  ];
  for (const [status, body] of bodies) {
    await using workflow = await given(body);
    creating.set(`agent-of-${workflow.id}`, async (create) => {
      const instance = await create();
      await until(async () => /complete|errored/.test((await instance.status()).status));
      return instance;
    });
    await workflow.start();
    await until(async () => /complete|errored/.test((await workflow.tracked())?.status ?? ""));
    expect(await workflow.tracked()).toMatchObject({ status, completedAt: expect.any(Date) });
  }
});

it("a run that returns warns once of the steps that nobody awaited", async () => {
  const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
  await using workflow = await given(async (step) => {
    const asked = (name: string) => step.prompt(name, { prompt: ask({ text: name }) });
    void asked("lost");
    void step.promptResult("also lost", { prompt: ask({ text: "also" }) });
    void sleepUntilNext(step, "slept", "once at 2020-01-01T09:00 in UTC");
    asked("caught").catch(() => {});
    const later = asked("later");
    await Promise.race([asked("raced"), step.sleep("moment", "1 second")]);
    await asked("awaited");
    return [await later, ...(await Promise.all(["one", "two"].map(asked)))];
  });
  await workflow.start();
  expect(await workflow.output()).toEqual(["later", "one", "two"]);
  const { id } = workflow;
  const texts = warn.mock.calls.map(String).filter((text) => text.includes(id));
  expect(texts).toEqual([
    `[perdure] workflow ${id} did not await step.prompt("lost"), step.promptResult("also lost"), sleepUntilNext("slept").`,
  ]);
});

it("a run of a sub-agent's workflow is complete", async () => {
  await using workflow = await given(async () => "done", true);
  await workflow.start();
  expect(await workflow.output()).toBe("done");
  const status = await workflow.agent.workflowOfChild(
    `child-of-agent-of-${workflow.id}`,
    workflow.id,
  );
  expect(status).toBe("complete");
});

it("a run that throws has errored, with one callback, and its error is unchanged", async () => {
  await using workflow = await given(async () => {
    throw new RangeError("no stock");
  });
  await workflow.start();
  expect(await workflow.error()).toMatchObject({ name: "RangeError", message: "no stock" });
  expect(await workflow.tracked()).toMatchObject({
    status: "errored",
    error: { message: "no stock" },
  });
  expect(workflow.callbacks).toMatchObject([{ type: "error", error: "no stock" }]);
  const [finding] = (await capabilitiesOf(workflow.agent).operations.healthReport()).findings;
  expect(finding).toMatchObject({ code: "workflow-failed" });
});

it("an end that the app reports itself stays, with one callback", async () => {
  await using completed = await given(async (step) => {
    await step.reportComplete({ n: 1 });
  });
  await completed.start();
  await completed.output();
  expect(await completed.tracked()).toMatchObject({ status: "complete" });
  expect(completed.callbacks).toMatchObject([{ type: "complete", result: { n: 1 } }]);

  await using failed = await given(async (step) => {
    await step.reportError("not enough");
    return "returned";
  });
  await failed.start();
  await failed.output();
  expect(await failed.tracked()).toMatchObject({
    status: "errored",
    error: { message: "not enough" },
  });
  expect(failed.callbacks).toHaveLength(1);
});

it("a paused instance is paused, and its agent gets no error", async () => {
  await using workflow = await given(async (step) => {
    await step.do("one", async () => 1);
    return step.waitForEvent("wait", { type: "go", timeout: "1 hour" }).then(() => "gone on");
  });
  await workflow.start();
  await workflow.instance.waitForStepResult({ name: "one" });
  await pauseAndResume(env.SCRIPTED_WORKFLOW, workflow.id, async () => {
    const { items } = await capabilitiesOf(workflow.agent).operations.listWorkflows({
      status: "paused",
    });
    expect(items).toMatchObject([{ workflowId: workflow.id }]);
  });
  await workflow.agent.tell(workflow.id, { type: "go", payload: {} });
  expect(await workflow.output()).toBe("gone on");
  expect(await workflow.tracked()).toMatchObject({ status: "complete", error: null });
  expect(workflow.callbacks).toEqual([]);
});

it("a terminated instance is terminated, here and elsewhere, and a restart opens it again", async () => {
  for (const where of ["agent", "elsewhere"] as const) {
    let runs = 0;
    await using workflow = await given(async (step) => {
      runs++;
      await step.waitForEvent("wait", { type: "go", timeout: "1 hour" });
      return "gone on";
    });
    await workflow.start();
    const { agent, id } = workflow;
    const handle = await workflow.handle();
    await until(() => Promise.resolve(runs === 1));
    if (where === "agent") await workflow.inside((object) => object.terminateWorkflow(id));
    else await handle.terminate();
    await until(async () => (await handle.status()).status === "terminated");
    const shown = async () =>
      (await capabilitiesOf(agent).operations.listWorkflows()).items[0]?.status;
    expect(await shown()).toBe("terminated");
    expect(await workflow.tracked()).toMatchObject({ status: "terminated" });
    await workflow.inside((object) => object.restartWorkflow(id));
    expect(await shown()).toMatch(/queued|running|waiting/);
    await until(() => Promise.resolve(runs === 2));
    await agent.tell(id, { type: "go", payload: {} });
    expect(await workflow.output()).toBe("gone on");
    expect(await shown()).toBe("complete");
  }
});

it("a run that fails and is restarted elsewhere is complete when it returns", async () => {
  let runs = 0;
  await using workflow = await given(async () => {
    if (++runs === 1) throw new Error("first");
    return "second";
  });
  await workflow.start();
  await workflow.error();
  await (await workflow.handle()).restart();
  expect(await workflow.output()).toBe("second");
  expect(await workflow.tracked()).toMatchObject({ status: "complete", error: null });
});

it("an end that could not be reported is asked for once, when instances are listed", async () => {
  await using workflow = await given(async () => "done");
  await workflow.inside((agent) => {
    agent[CAPABILITIES].calls.set("finishWorkflowRun", () => Promise.reject(new Error("down")));
  });
  await workflow.start();
  expect(await workflow.output()).toBe("done");
  expect(await workflow.tracked()).toMatchObject({ status: "queued" });
  const asked: string[] = [];
  await workflow.inside(async (agent) => {
    const operated = operatedOf(agent[CAPABILITIES]);
    const own = env.SCRIPTED_WORKFLOW;
    const counted = {
      get: (id: string) => {
        asked.push(id);
        return own.get(id);
      },
    };
    for (let list = 0; list < 3; list++) {
      const { items } = await listWorkflows(
        { ...operated, env: { SCRIPTED_WORKFLOW: counted } },
        { status: "complete" },
      );
      expect(items).toMatchObject([{ workflowId: workflow.id, status: "complete" }]);
    }
  });
  expect(asked).toEqual([workflow.id]);
  expect(await workflow.tracked()).toMatchObject({ status: "complete" });
});

it("an instance that the platform has deleted is unknown, and is not asked for again", async () => {
  await using workflow = await given(async () => "done");
  await workflow.inside((agent) => {
    agent[CAPABILITIES].calls.set("finishWorkflowRun", async () => {});
  });
  await workflow.start();
  await workflow.output();
  let asked = 0;
  const get = async () => {
    asked++;
    throw new Error("(instance.not_found) Instance does not exist");
  };
  await workflow.inside(async (agent) => {
    for (let list = 0; list < 3; list++) {
      const gone = { ...operatedOf(agent[CAPABILITIES]), env: { SCRIPTED_WORKFLOW: { get } } };
      const { items } = await listWorkflows(gone, { status: "unknown" });
      expect(items).toMatchObject([{ workflowId: workflow.id, status: "unknown" }]);
    }
  });
  expect(asked).toBe(1);
});
