/** The guarantees of workflows, approvals and schedules, for every host. */

import { expect, it, vi } from "vitest";
import { capabilitiesOf } from "../../src/hosts/public.ts";
import { ask, modelCalls } from "../../src/testing/index.ts";
import { refusal, until } from "../support/given.ts";
import { type ContractHost, Given, supports } from "./host.ts";
import { taskRuns } from "./hosts/app.ts";
import type { Asked } from "./hosts/workflows.ts";

const unique = () => ({ id: crypto.randomUUID() });

export function workflowsContract(host: ContractHost): void {
  const given = () => new Given(host);
  const run = async (agent: Given, asked: Asked, id = `wf-${crypto.randomUUID()}`) => {
    await (await agent.verbs()).runWorkflow(host.workflow, asked, { id });
    return id;
  };

  it("W1 W4: a step gets a validated answer, and a restart does not ask again", async () => {
    const agent = given();
    const prompt = ask({ ...unique(), answer: { title: "Printer" }, text: '{"title":"Printer"}' });
    const id = await run(agent, { step: "answer", prompt });
    expect(await agent.output(id)).toEqual({ title: "Printer" });
    const calls = modelCalls.get(prompt);
    await (await agent.verbs()).restartWorkflow(id);
    await until(async () => (await (await host.workflows.get(id)).status()).status === "complete");
    expect(await agent.output(id)).toEqual({ title: "Printer" });
    expect(modelCalls.get(prompt)).toBe(calls);
  });

  it("W2: a step gets its answer although the object crashes meanwhile", async () => {
    const agent = given();
    const prompt = ask({ ...unique(), delayMs: 300, text: "answered" });
    const id = await run(agent, { step: "text", prompt });
    await until(() => (modelCalls.get(prompt) ?? 0) > 0);
    await agent.crash();
    expect(await agent.output(id)).toBe("answered");
  });

  it.runIf(supports(host, "models"))("L8: another model is asked when one fails", async () => {
    const agent = given();
    const prompt = ask({ ...unique(), fail: "Overloaded", failOn: ["one"], text: "from two" });
    const id = await run(agent, { step: "text", prompt, models: ["one", "two"] });
    expect(await agent.output(id)).toBe("from two");
  });

  // Think makes a model of an id itself.
  it.runIf(supports(host, "models") && host.name !== "perdure/think")(
    "L9: a prompt says what is wrong where the app returns no model",
    async () => {
      const agent = given();
      const prompt = ask({ ...unique(), text: "never" });
      const id = await run(agent, { step: "text", prompt, models: ["none"] });
      await expect(agent.output(id)).rejects.toThrow(
        /Invalid model undefined: expected a model of the AI SDK\. Return it from getModel\(\) of \w+, /,
      );
    },
  );

  it.skipIf(supports(host, "step.agentTool()"))(
    "a step that the host does not support fails at once",
    async () => {
      const agent = given();
      const id = await run(agent, { step: "agentTool" });
      expect(await agent.output(id)).toBe(
        "perdure/object does not support step.agentTool(). A plain Durable Object has no sub-agents. Extend DurableAgent.",
      );
    },
  );

  it("a run that returns warns of a prompt without an await", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    const agent = given();
    const id = await run(agent, { step: "lost", prompt: ask({ ...unique(), text: "unheard" }) });
    expect(await agent.output(id)).toBe("returned");
    const warned = `[perdure] workflow ${id} did not await step.prompt("ask").`;
    await until(async () => warn.mock.calls.some(([text]) => text === warned));
  });

  it("W1: many items are answered in their order", async () => {
    const agent = given();
    const id = await run(agent, { step: "all", items: ["one", "two", "three"] });
    expect(await agent.output(id)).toEqual(["You said: one", "You said: two", "You said: three"]);
  });

  it("W3: an approval is decided once, and its payload is validated", async () => {
    const agent = given();
    const id = await run(agent, { step: "approval" });
    const verbs = await agent.verbs();
    const {
      items: [asked],
    } = await until(async () => {
      const found = await capabilitiesOf(verbs).approvals.list();
      return found.items.length > 0 && found;
    });
    const { approvalId = "" } = asked ?? {};
    const refused = await refusal(
      capabilitiesOf(verbs).approvals.grant(approvalId, { payload: { amount: "x" } }),
    );
    expect(refused.name).toBe("InvalidApprovalError");
    const granted = await capabilitiesOf(verbs).approvals.grant(approvalId, {
      payload: { amount: 5 },
      by: "ada",
    });
    expect(granted.outcome).toBe("decided");
    expect((await capabilitiesOf(verbs).approvals.grant(approvalId)).outcome).toBe(
      "already_decided",
    );
    expect(await agent.output(id)).toMatchObject({ approved: true, payload: { amount: 5 } });
  });

  it("W5: terminating a workflow cancels the turn that it waits for", async () => {
    const agent = given();
    const prompt = ask({ ...unique(), delayMs: 60_000 });
    const id = await run(agent, { step: "text", prompt });
    const verbs = await agent.verbs();
    const [open] = await until(async () => {
      const found = await verbs.listSubmissions({ status: "running" });
      return found.length > 0 && found;
    });
    await verbs.terminateWorkflow(id);
    expect(await agent.ended(open?.submissionId ?? "")).toMatchObject({ status: "aborted" });
  });

  it("W2: a paused workflow waits, and goes on when it is resumed", async () => {
    const agent = given();
    const id = await run(agent, { step: "approval" });
    const verbs = await agent.verbs();
    const {
      items: [asked],
    } = await until(async () => {
      const found = await capabilitiesOf(verbs).approvals.list();
      return found.items.length > 0 && found;
    });
    await verbs.pauseWorkflow(id);
    const instance = await host.workflows.get(id);
    await until(async () => (await instance.status()).status === "paused");
    await verbs.resumeWorkflow(id);
    await capabilitiesOf(verbs).approvals.grant(asked?.approvalId ?? "", {
      payload: { amount: 5 },
    });
    expect(await agent.output(id)).toMatchObject({ approved: true });
    const [listed] = await until(async () => {
      const { items } = await capabilitiesOf(verbs).operations.listWorkflows({
        status: "complete",
      });
      return items.length > 0 && items;
    });
    expect(listed).toMatchObject({ workflowId: id });
    for (const verb of ["pauseWorkflow", "resumeWorkflow", "restartWorkflow"] as const)
      expect((await refusal(verbs[verb]("none"))).message).toMatch(/^Workflow none not found/);
  });

  it("W6: an id starts one instance, and the agent knows it", async () => {
    const agent = given();
    const id = await run(agent, { step: "text", prompt: ask({ ...unique(), text: "one" }) });
    const verbs = await agent.verbs();
    const asked: Asked = { step: "text", prompt: "other" };
    const again = await verbs.runWorkflow(host.workflow, asked, { id, ifExists: "return" });
    expect(again).toBe(id);
    expect((await refusal(verbs.runWorkflow(host.workflow, asked, { id }))).name).toBe(
      "WorkflowExistsError",
    );
    expect(await agent.output(id)).toBe("one");
    const { items } = await capabilitiesOf(verbs).operations.listWorkflows({ status: "complete" });
    expect(items.map(({ workflowId }) => workflowId)).toEqual([id]);
  });

  it.each(["return", "throw"] as const)(
    "W6: an id of another agent's instance is refused with ifExists %s, and the agent does not know it",
    async (ifExists) => {
      const [first, second] = [given(), given()];
      const asked: Asked = { step: "approval" };
      const id = await run(first, asked);
      const verbs = await second.verbs();
      const error = await refusal(verbs.runWorkflow(host.workflow, asked, { id, ifExists }));
      expect(error.name).toBe("WorkflowExistsError");
      expect(error.message).toContain(
        "that this agent has not started. Use an id that contains the name of the agent.",
      );
      expect((await refusal(verbs.terminateWorkflow(id))).message).toContain("not found");
      const listed = await capabilitiesOf(verbs).operations.listWorkflows();
      expect(listed.items).toEqual([]);
      await (await first.verbs()).terminateWorkflow(id);
    },
  );

  it("W6: the agent knows the end of a run that is over before its start returns", async () => {
    const agent = given();
    const { create } = host.workflows;
    using _late = vi.spyOn(host.workflows, "create").mockImplementation(async (options) => {
      const instance = await create.call(host.workflows, options);
      await scheduler.wait(500);
      return instance;
    });
    const returned = await run(agent, { step: "none" });
    expect(await agent.output(returned)).toBe("returned");
    const failed = await run(agent, { step: "none", error: "no stock" });
    await until(async () => {
      const { findings, counts } = await capabilitiesOf(
        await agent.verbs(),
      ).operations.healthReport();
      if (!findings.some(({ code }) => code === "workflow-failed")) return false;
      expect(counts.workflows).toEqual({ complete: 1, errored: 1 });
      return true;
    });
    expect((await (await host.workflows.get(failed)).status()).status).toBe("errored");
  });

  it("S1 S5: a triggered task runs once for its key, and its prompt is a submission", async () => {
    const agent = given();
    const verbs = await agent.verbs();
    await capabilitiesOf(verbs).schedules.trigger("note", { key: "k" });
    await capabilitiesOf(verbs).schedules.trigger("note", { key: "k" });
    await capabilitiesOf(verbs).schedules.trigger("ask", { key: "k" });
    await until(() => taskRuns.get(agent.name)?.length);
    const [asked] = await until(async () => {
      const found = await verbs.listSubmissions({ status: "completed" });
      return found.length > 0 && found;
    });
    expect(asked).toMatchObject({ output: "You said: Write the digest." });
    expect(taskRuns.get(agent.name)).toHaveLength(1);
    await until(async () => {
      const {
        items: [last],
      } = await capabilitiesOf(verbs).schedules.runs("ask");
      return last?.status === "completed";
    });
  });

  it("the health report of an idle agent is healthy", async () => {
    const agent = given();
    const verbs = await agent.verbs();
    const prompt = ask({ ...unique(), text: "fine" });
    await agent.output(await run(agent, { step: "text", prompt }));
    await until(async () => {
      const { findings } = await capabilitiesOf(verbs).operations.healthReport();
      return findings.length === 0;
    });
  });
}
