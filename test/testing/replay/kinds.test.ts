/** Each kind of step and of workflow class: the code that has made a run replays it without a problem, at each point of it. */

import { env } from "cloudflare:workers";
import { getSubAgentByName } from "agents";
import { afterEach, describe, expect, it } from "vitest";
import { z } from "zod";
import type { WorkflowClass, WorkflowHistory } from "../../../src/features/deploy/index.ts";
import { replayWorkflow } from "../../../src/testing/index.ts";
import { charging, givenCode } from "../../features/codemode/steps/codemode.ts";
import { CodemodeWorkflow } from "../../features/codemode/steps/codemode-workflow.ts";
import {
  agentOf,
  classOf,
  DeployedAgent,
  deploy,
  deployed,
  objectClass,
  ticket,
  versions,
} from "../../features/deploy/deployed.ts";
import { outputOf } from "../../support/engine.ts";
import { until } from "../../support/given.ts";
import { AgentToolWorkflow } from "../../support/workflows/agent-tool-workflow.ts";
import { givenTools, input } from "../../support/workflows/agent-tools.ts";
import {
  codeOf,
  historyAt,
  historyIn,
  problemsAtAllPoints,
  shown,
} from "../../support/workflows/histories.ts";
import {
  givenScriptedWorkflow,
  ScriptedWorkflow,
} from "../../support/workflows/scripted-workflow.ts";

type HistoryAgent = { callKernel(name: string, id: string): unknown };

/** As operators read it. */
async function readHistory(agent: object, id: string): Promise<WorkflowHistory> {
  const found = await (agent as HistoryAgent).callKernel("deployments.history", id);
  return structuredClone(found) as WorkflowHistory;
}

describe("each kind of step that asks the agent", () => {
  it("webhooks: one that the schema refuses, and the next", async () => {
    const Paid = z.object({ amount: z.number().refine((n) => n !== 13, "13 brings bad luck") });
    await using workflow = await givenScriptedWorkflow(async (step) => {
      const { body } = await step.webhook("paid", { from: "stripe", schema: Paid });
      return step.do(`has ${body.amount}`, async () => body.amount);
    });
    await workflow.start();
    for (const amount of [13, 7]) {
      const id = `evt-${crypto.randomUUID()}`;
      const arrival = { source: "stripe", id, type: "paid", body: { amount }, receivedAt: 1 };
      await until(async () => (await workflow.agent.deliver(arrival as never)).length > 0);
    }
    await workflow.output();
    const history = await historyIn(workflow.agent, workflow.id);
    expect(await problemsAtAllPoints(ScriptedWorkflow, history)).toEqual([]);
    const narrow = codeOf(async (step) => {
      const schema = z.object({ amount: z.number(), currency: z.string() });
      await step.webhook("paid", { from: "stripe", schema });
      await step.do("has 7", async () => 1);
    });
    const { problems } = await replayWorkflow(narrow, history);
    expect(problems.map(shown)).toEqual(["error answer-refused: paid"]);
  });

  it("an open webhook: another sender, a narrower schema", async () => {
    const code = (from: string, schema: z.ZodType) =>
      codeOf((step) => step.webhook("paid", { from, schema } as never));
    await using workflow = await givenScriptedWorkflow((step) =>
      step.webhook("paid", { from: "stripe", schema: z.object({ n: z.number() }) }),
    );
    await workflow.start();
    const history = await historyAt(workflow.agent, workflow.id, "paid:webhook-wait");
    const found = async (Class: WorkflowClass) =>
      (await replayWorkflow(Class, history)).problems.map(shown);
    const same = z.object({ n: z.number() });
    expect(await found(code("stripe", same) as never)).toEqual([]);
    expect(await found(code("github", same) as never)).toEqual(["warning request-changed: paid"]);
    expect(await found(code("stripe", z.object({ n: z.string() })) as never)).toEqual([
      "error request-changed: paid",
    ]);
  });

  it("agent tools, one of which fails", async () => {
    await using run = await givenTools([
      { name: "research", input: input() },
      { name: "broken", input: input({ fail: "broken", status: 400 }) },
    ]);
    await run.start();
    await run.complete();
    const history = await historyIn(run.agent(), run.id);
    expect(await problemsAtAllPoints(AgentToolWorkflow, history)).toEqual([]);
  });

  it("code of Code Mode, waiting for an approval, and done", async () => {
    const code = givenCode();
    await code.start([
      { name: "charge", code: charging(code.order), isOrder: true, rollback: true },
    ]);
    await code.approval();
    const waiting = await historyIn(code.agent(), code.id);
    expect(await problemsAtAllPoints(CodemodeWorkflow, waiting)).toEqual([]);
    await code.approve();
    await code.complete();
    const history = await historyIn(code.agent(), code.id);
    expect(await problemsAtAllPoints(CodemodeWorkflow, history)).toEqual([]);
  });
});

describe("each kind of workflow class", () => {
  const workflow = () => env.DEPLOYED_WORKFLOW;
  afterEach(() => {
    deployed.isOn = true;
  });

  async function givenRun(Class: WorkflowClass): Promise<string> {
    const id = `replayed-${crypto.randomUUID()}`;
    deploy("8", Class);
    await agentOf(id).start(id);
    return id;
  }

  async function atWait(agent: object, id: string): Promise<WorkflowHistory> {
    return until(async () => {
      const history = await readHistory(agent, id);
      return history.platform.some(({ kind }) => kind === "event") && history;
    });
  }

  it("one that versions() routes, before and after other versions", async () => {
    const router = versions({ "7": ticket("seven"), "8": ticket("eight") }) as WorkflowClass;
    const id = await givenRun(router);
    const history = await atWait(agentOf(id), id);
    expect(history.version).toBe("8");
    expect(await problemsAtAllPoints(router, history)).toEqual([]);
    const renamed = classOf(async (step) => step.do("other", async () => 1));
    const later = versions({ "8": ticket("eight"), "9": renamed }) as WorkflowClass;
    expect((await replayWorkflow(later, history)).problems).toEqual([]);
    const gone = versions({ "9": renamed }) as WorkflowClass;
    const { problems } = await replayWorkflow(gone, history);
    expect(problems.map(shown)).toEqual(["error unknown-version: perdure:version"]);
    await (await workflow().get(id)).sendEvent({ type: "go", payload: {} });
    await outputOf(workflow(), id);
    expect(await problemsAtAllPoints(router, await readHistory(agentOf(id), id))).toEqual([]);
  });

  it("a change that step.version() asks for", async () => {
    const code = (changes: string[]) =>
      versions({
        "8": classOf(
          async (step) => {
            const isNew = changes.length > 0 && (await step.version("tax"));
            await step.do(isNew ? "new tax" : "old tax", async () => 1);
            await step.waitForEvent("go", { type: "go" });
          },
          { changes },
        ),
      }) as WorkflowClass;
    const id = await givenRun(code([]));
    const history = await atWait(agentOf(id), id);
    expect(await problemsAtAllPoints(code(["tax"]), history)).toEqual([]);
    const newer = await givenRun(code(["tax"]));
    const after = await atWait(agentOf(newer), newer);
    expect(after.platform.map(({ name }) => name)).toContain("new tax");
    expect(await problemsAtAllPoints(code(["tax"]), after)).toEqual([]);
  });

  it("one that began before it had versions", async () => {
    const id = await givenRun(ticket("seven"));
    const history = await atWait(agentOf(id), id);
    expect(history.version).toBeNull();
    const router = (options: object) =>
      versions({ "7": ticket("seven"), "8": ticket("eight") }, options) as WorkflowClass;
    expect((await replayWorkflow(router({ unversioned: "7" }), history)).problems).toEqual([]);
    const { problems } = await replayWorkflow(router({}), history);
    expect(problems.map(shown)).toEqual(["error unknown-version: perdure:version"]);
  });

  it("one of a plain object", async () => {
    const id = `object-${crypto.randomUUID()}`;
    deploy("8", objectClass("eight"));
    const object = env.DeployedObject.getByName(`object-of-${id}`);
    await object.start(id);
    const history = await atWait(object, id);
    expect(await problemsAtAllPoints(objectClass("eight"), history)).toEqual([]);
  });

  it("one of a sub-agent", async () => {
    const id = `child-${crypto.randomUUID()}`;
    const body = ticket("eight");
    deploy("8", body);
    await agentOf(id).startOfChild(id);
    const child = await getSubAgentByName(agentOf(id) as never, DeployedAgent as never, "child");
    const history = await atWait(child, id);
    expect(await problemsAtAllPoints(body, history)).toEqual([]);
  });
});
