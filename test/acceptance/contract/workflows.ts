/** W1 to W6: workflows and their prompts. */

import { env } from "cloudflare:workers";
import { ask, modelCalls } from "perdure/testing";
import { expect, it, vi } from "vitest";
import { type GivenAgent, givenAgent, refusal, until } from "../app/given.ts";
import { Hold } from "../app/hold.ts";
import { type Host, supports } from "../app/hosts.ts";
import { forgePayloads, interceptEvents } from "../app/intercept.ts";
import { receivedParams, workflowRuns } from "../app/receivers.ts";
import type { Plan } from "../app/workflows.ts";

const unique = () => ({ id: crypto.randomUUID() });

export function workflowsContract(host: Host): void {
  const given = () => givenAgent(host);

  /** An agent with a workflow whose prompt is at the model. */
  async function givenPrompt(): Promise<{
    agent: GivenAgent;
    id: string;
    hold: Hold;
    submissionId: string;
  }> {
    const agent = given();
    const hold = new Hold();
    const id = await agent.start({ step: "text", prompt: ask({ id: hold.id, text: "answered" }) });
    await until(() => hold.arrived > 0);
    const [open] = await (await agent.verbs()).listSubmissions({ status: "running" });
    return { agent, id, hold, submissionId: open?.submissionId ?? "" };
  }

  it("W1 W4: a step returns its validated answer, and a restart does not ask again", async () => {
    const agent = given();
    const prompt = ask({ ...unique(), answer: { title: "Printer" }, text: '{"title":"Printer"}' });
    const id = await agent.start({ step: "answer", prompt });
    expect(await agent.untilOutput(id)).toEqual({ title: "Printer" });
    const calls = modelCalls.get(prompt);
    await (await agent.verbs()).restartWorkflow(id);
    await until(() => workflowRuns.count(id) > 1);
    expect(await agent.untilOutput(id)).toEqual({ title: "Printer" });
    expect(modelCalls.get(prompt)).toBe(calls);
  });

  it("W1: a restart while the prompt runs takes its answer, and asks once", async () => {
    const { agent, id, hold } = await givenPrompt();
    const runs = workflowRuns.count(id);
    await (await agent.verbs()).restartWorkflow(id);
    await until(() => workflowRuns.count(id) > runs);
    hold.release();
    expect(await agent.untilOutput(id)).toBe("answered");
    expect(hold.arrived).toBe(1);
    expect(await (await agent.verbs()).listSubmissions()).toHaveLength(1);
  });

  it("W1: a restart runs the code of step.do() again, and takes the answer of a completed prompt", async () => {
    const agent = given();
    const prompt = ask({ ...unique(), text: "answered" });
    const id = await agent.start({ step: "effect", prompt });
    expect(await agent.untilOutput(id)).toBe("answered");
    const { operations } = await agent.capabilities();
    const request = {
      action: { do: "restart-workflow", workflowId: id },
      by: "ada",
      reason: "again",
    } as const;
    const dry = await operations.operate({ ...request, dryRun: true });
    expect(dry.runsAgain?.steps).toEqual([{ name: "charge", kind: "do" }]);
    expect(workflowRuns.count(`${id} charged`)).toBe(1);
    await operations.operate(request);
    await until(() => workflowRuns.count(`${id} charged`) === 2);
    expect(await agent.untilOutput(id)).toBe("answered");
    expect(modelCalls.get(prompt)).toBe(1);
  });

  it("W1: a restart from the step that failed repeats nothing before it", async () => {
    const agent = given();
    const prompt = ask({ ...unique(), fail: "Refused", failTimes: 1, status: 400, text: "better" });
    const id = await agent.start({ step: "effect", prompt });
    await agent.untilWorkflow(id, "errored");
    const { operations } = await agent.capabilities();
    const action = { do: "restart-workflow", workflowId: id, step: "failed" } as const;
    const result = await operations.operate({ action, by: "ada", reason: "it is back" });
    expect(result).toMatchObject({ outcome: "done", count: 1 });
    await agent.untilWorkflow(id, "complete");
    expect(await agent.untilOutput(id)).toBe("better");
    expect(workflowRuns.count(`${id} charged`)).toBe(1);
  });

  it("W1: a failed step is tried again when the workflow is restarted", async () => {
    const agent = given();
    const prompt = ask({ ...unique(), fail: "Refused", failTimes: 1, status: 400, text: "better" });
    const id = await agent.start({ step: "text", prompt });
    await agent.untilWorkflow(id, "errored");
    await (await agent.verbs()).restartWorkflow(id);
    await agent.untilWorkflow(id, "complete");
    expect(await agent.untilOutput(id)).toBe("better");
  });

  it("the report names a run that was terminated outside its agent, and none that the agent terminated", async () => {
    const { agent, id, hold } = await givenPrompt();
    const own = await agent.start({ step: "text", prompt: ask({ id: hold.id, text: "answered" }) });
    await (await agent.verbs()).terminateWorkflow(own);
    await (await host.workflows.get(id)).terminate();
    await agent.untilWorkflow(id, "terminated");
    const { operations } = await agent.capabilities();
    expect((await operations.listWorkflows({ status: "terminated" })).items).toHaveLength(2);
    const { findings } = await operations.healthReport();
    expect(findings.find(({ code }) => code === "workflow-terminated")).toMatchObject({
      evidence: { count: 1, ids: [id] },
      fix: { action: { do: "restart-workflow", workflowId: id, step: "failed" } },
    });
    hold.release();
  });

  it("W1: prompts of a list are answered in the order of the list", async () => {
    const agent = given();
    const hold = new Hold();
    const items = [ask({ id: hold.id, text: "one" }), "two", "three"];
    const id = await agent.start({ step: "all", items });
    await until(() => hold.arrived > 0);
    await agent.restart();
    hold.release();
    expect(await agent.untilOutput(id)).toEqual(["one", "You said: two", "You said: three"]);
  });

  it("W2: a step gets its answer although the object crashes meanwhile", async () => {
    const { agent, id, hold } = await givenPrompt();
    await agent.restart();
    hold.release();
    expect(await agent.untilOutput(id)).toBe("answered");
  });

  it("W2: a workflow that is paused while its prompt runs has the answer when it is resumed", async () => {
    const { agent, id, hold, submissionId } = await givenPrompt();
    await (await agent.verbs()).pauseWorkflow(id);
    await agent.untilWorkflow(id, "paused");
    hold.release();
    expect(await agent.untilEnded(submissionId)).toMatchObject({ status: "completed" });
    await (await agent.verbs()).resumeWorkflow(id);
    expect(await agent.untilOutput(id)).toBe("answered");
  });

  it("W3: a forged event answers nothing, and the turn's own answer does", async () => {
    const { agent, id, hold } = await givenPrompt();
    let forged = 0;
    interceptEvents(host, id, async (event, send) => {
      for (const payload of forgePayloads(event.payload, "answered", "forged")) {
        forged++;
        await send({ ...event, payload });
      }
      await send(event);
    });
    hold.release();
    expect(await agent.untilOutput(id)).toBe("answered");
    expect(forged).toBeGreaterThan(0);
  });

  it("W4: an answer that does not match is repaired by the model, as often as the step allows", async () => {
    const agent = given();
    const script = { ...unique(), answers: [{ title: 7 }, { title: "Printer" }] };
    const id = await agent.start({ step: "answer", prompt: ask(script), repair: 1 });
    expect(await agent.untilOutput(id)).toEqual({ title: "Printer" });
    const wrong = ask({ ...unique(), answers: [{ title: 7 }] });
    const failing = await agent.start({ step: "answer", prompt: wrong, repair: 1 });
    const { error } = await agent.untilWorkflow(failing, "errored", "complete");
    expect(error?.message).toContain("invalid structured output");
    expect(modelCalls.get(wrong)).toBe(2);
  });

  it("W5: terminating a workflow cancels the turn that it waits for", async () => {
    const { agent, id, hold, submissionId } = await givenPrompt();
    await (await agent.verbs()).terminateWorkflow(id);
    expect(await agent.untilEnded(submissionId)).toMatchObject({ status: "aborted" });
    await agent.untilWorkflow(id, "terminated");
    expect(hold.passed).toBe(0);
    expect(await agent.untilEnded(await agent.submit("next"))).toMatchObject({
      status: "completed",
    });
  });

  it("W6: an id starts one instance, also for calls at the same time and after a crash", async () => {
    const agent = given();
    const id = `wf-${crypto.randomUUID()}`;
    const plan: Plan = { step: "text", prompt: ask({ ...unique(), text: "one" }) };
    const start = async () =>
      (await agent.verbs()).runWorkflow(host.workflow, plan, { id, ifExists: "return" });
    expect(await Promise.all([start(), start()])).toEqual([id, id]);
    expect(await agent.untilOutput(id)).toBe("one");
    await agent.crash();
    expect(await start()).toBe(id);
    const refused = (await agent.verbs()).runWorkflow(host.workflow, plan, { id });
    expect((await refusal(refused)).name).toBe("WorkflowExistsError");
    expect(modelCalls.get(plan.prompt)).toBe(1);
    const { operations } = await agent.capabilities();
    const { items } = await until(async () => {
      const listed = await operations.listWorkflows({ status: "complete" });
      return listed.items.length > 0 && listed;
    });
    expect(items.map(({ workflowId }) => workflowId)).toEqual([id]);
  });

  it("W6: an accepted start happens although the object crashes before it", async () => {
    const agent = given();
    const { create } = host.workflows;
    let isRefused = false;
    using _failing = vi.spyOn(host.workflows, "create").mockImplementation(async (options) => {
      if (isRefused) return create.call(host.workflows, options);
      isRefused = true;
      throw new Error("The engine does not answer");
    });
    const id = `wf-${crypto.randomUUID()}`;
    const starting = agent.start({ step: "none" }, id).catch((error: Error) => error);
    await until(() => isRefused);
    await agent.crash();
    await starting;
    await (await agent.verbs()).submissionStats();
    await until(() => workflowRuns.count(id) > 0);
    expect(await agent.untilOutput(id)).toBe("returned");
  });

  it("W6: params that JSON cannot hold reach the workflow, also after a crash before the start", async () => {
    const agent = given();
    const { create } = host.workflows;
    const id = `wf-${crypto.randomUUID()}`;
    let isRefused = false;
    using _failing = vi.spyOn(host.workflows, "create").mockImplementation(async (options) => {
      if (isRefused) return create.call(host.workflows, options);
      isRefused = true;
      throw new Error("The engine does not answer");
    });
    const params = {
      due: new Date("2026-05-01T09:00:00Z"),
      stock: new Map([["screws", { count: 12, tags: new Set(["small"]) }]]),
      bytes: new Uint8Array([0, 255, 128]),
      floats: new Float64Array([0.5, Number.NaN]),
      big: 2n ** 64n,
      list: [undefined, Number.POSITIVE_INFINITY, -0, /a+/gi, null, "text"],
      error: new RangeError("no stock"),
    };
    const started = agent.start({ step: "params", params }, id).catch((error: Error) => error);
    await until(() => isRefused);
    await agent.crash();
    await started;
    await (await agent.verbs()).submissionStats();
    await until(() => receivedParams.count(id) > 0);
    expect(receivedParams.get(id).at(-1)).toEqual(params);
  });

  it("W6: params that no workflow can take are refused at the call, and nothing is started", async () => {
    const agent = given();
    const id = `wf-${crypto.randomUUID()}`;
    const verbs = await agent.verbs();
    const large = new Uint8Array(2 ** 20);
    const refused = await refusal(verbs.runWorkflow(host.workflow, { large }, { id }));
    expect(refused).toMatchObject({ name: "InvalidEventError" });
    expect(refused.message).toMatch(
      /^Invalid params of 1\d{6} bytes: expected at most 1032192 bytes/,
    );
    expect((await (await agent.capabilities()).operations.listWorkflows()).items).toEqual([]);
  });

  it.each(["return", "throw"] as const)(
    "W6: an id of another agent's instance is refused with ifExists %s, and is not tracked",
    async (ifExists) => {
      const [first, second] = [given(), given()];
      const plan: Plan = { step: "approval" };
      const id = await first.start(plan);
      const verbs = await second.verbs();
      const error = await refusal(verbs.runWorkflow(host.workflow, plan, { id, ifExists }));
      expect(error.name).toBe("WorkflowExistsError");
      expect((await refusal(verbs.terminateWorkflow(id))).message).toContain("not found");
      expect((await (await second.capabilities()).operations.listWorkflows()).items).toEqual([]);
      await (await first.verbs()).terminateWorkflow(id);
    },
  );

  it.runIf(host.entry !== "perdure/object").each([
    ["complete", "complete"],
    ["error", "errored"],
    ["progress", "running"],
  ] as const)(
    "W6: the %s that a workflow of the SDK reports at once is tracked as %s",
    async (report, status) => {
      const agent = given();
      const id = `wf-${crypto.randomUUID()}`;
      const binding = env.ACCEPTANCE_SDK_WORKFLOW;
      const { create } = binding;
      // The platform may answer create() after the run has begun.
      using _late = vi.spyOn(binding, "create").mockImplementation(async (options) => {
        const instance = await create.call(binding, options);
        if (options?.id === id) await until(() => workflowRuns.count(id) > 0);
        return instance;
      });
      const verbs = await agent.verbs();
      await verbs.runWorkflow("ACCEPTANCE_SDK_WORKFLOW", { report, stays: true }, { id });
      await until(async () => (await verbs.getWorkflow(id))?.status === status);
      const found = await verbs.getWorkflows({ status });
      expect(found.workflows).toMatchObject([
        { workflowId: id, error: report === "error" ? { message: "no stock" } : null },
      ]);
      expect((await verbs.getWorkflows({ status: "queued" })).total).toBe(0);
      await (await binding.get(id)).sendEvent({ type: "end", payload: null });
    },
  );

  it("W6: the agent tracks the end of a run, also of one that fails", async () => {
    const agent = given();
    expect(await agent.untilOutput(await agent.start({ step: "none" }))).toBe("returned");
    const failed = await agent.start({ step: "none", error: "no stock" });
    await agent.untilWorkflow(failed, "errored");
    const { operations } = await agent.capabilities();
    const { counts } = await until(async () => {
      const report = await operations.healthReport();
      return report.findings.some(({ code }) => code === "workflow-failed") && report;
    });
    expect(counts.workflows).toEqual({ complete: 1, errored: 1 });
  });

  it("L8: the next model is asked when one fails", async () => {
    const agent = given();
    const prompt = ask({ ...unique(), fail: "Overloaded", failOn: ["one"], text: "from two" });
    const id = await agent.start({ step: "text", prompt, models: ["one", "two"] });
    expect(await agent.untilOutput(id)).toBe("from two");
  });

  it.skipIf(supports(host, "agent tools"))(
    "L9: a step that the host does not support fails at once",
    async () => {
      const agent = given();
      const plan: Plan = { step: "agentTool", className: "AcceptanceAgent", input: "do it" };
      expect(await agent.untilOutput(await agent.start(plan))).toContain(
        "does not support step.agentTool()",
      );
    },
  );

  it("W2: a run that returns warns of a prompt without an await", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    const agent = given();
    const id = await agent.start({ step: "lost", prompt: ask({ ...unique(), text: "unheard" }) });
    expect(await agent.untilOutput(id)).toBe("returned");
    const warning = `[perdure] workflow ${id} did not await step.prompt("ask").`;
    await until(() => warn.mock.calls.some(([text]) => text === warning));
    warn.mockRestore();
  });

  it("W2: the health report of an idle agent has no finding", async () => {
    const agent = given();
    await agent.untilOutput(await agent.start({ step: "text", prompt: "fine" }));
    const { operations } = await agent.capabilities();
    await until(async () => (await operations.healthReport()).findings.length === 0);
  });
}
