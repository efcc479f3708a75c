/** Arrivals that call the verbs of a real agent, over RPC. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { givenThink, message } from "../../support/given.ts";
import { arrival, call } from "../../support/inbound.ts";
import { thinkOptions } from "../../support/think-agent.ts";
import { workflowBodies } from "../../support/workflows/scripted-workflow.ts";

const unique = () => crypto.randomUUID();
const given = () => env.DeliveryAgent.getByName(`arrivals-${unique()}`);

describe("the call acceptArrival of an agent", () => {
  it("submits messages once, under the key of the arrival", async () => {
    const agent = givenThink();
    const id = unique();
    const request = call(arrival(id), "submitMessages", [[message({ text: "hi" })]]);
    const first = await agent.callKernel("acceptArrival", request);
    expect(first).toMatchObject({
      verdict: "accepted",
      result: { accepted: true, idempotencyKey: `github:${id}` },
    });
    const again = await agent.callKernel("acceptArrival", request);
    expect(again).toMatchObject({
      verdict: "duplicate",
      result: { ...(first as unknown as { result: object }).result, accepted: false },
    });
    expect(await agent.listSubmissions()).toHaveLength(1);
    const { items: arrivals } = await capabilitiesOf(agent).inbound.list();
    expect(arrivals).toMatchObject([
      { id, verdict: "accepted", duplicates: 1, calls: [{ kind: "submission", ordinal: 0 }] },
    ]);
  });

  it("submits many, each under a key of its own", async () => {
    const agent = givenThink();
    const id = unique();
    const items = [{ messages: [message("one")] }, { messages: [message("two")] }];
    const answer = await agent.callKernel(
      "acceptArrival",
      call(arrival(id), "submitMany", [items]),
    );
    expect(answer).toMatchObject({
      verdict: "accepted",
      result: [{ idempotencyKey: `github:${id}:0:0` }, { idempotencyKey: `github:${id}:0:1` }],
    });
  });

  it("asks the sender to wait when the backlog is full, and stores nothing of the call", async () => {
    const name = `full-${unique()}`;
    thinkOptions.set(name, { maxPending: 1 });
    const agent = givenThink(name);
    const notBefore = "2100-01-01T00:00:00Z";
    const submit = (id: string) =>
      agent.callKernel(
        "acceptArrival",
        call(arrival(id), "submitMessages", [[message("later")], { notBefore }]),
      );
    expect(await submit("d1")).toMatchObject({ verdict: "accepted" });
    expect(await submit("d2")).toMatchObject({
      verdict: "refused",
      error: { name: "BacklogFullError" },
      retryAfter: 30,
    });
    expect(await capabilitiesOf(agent).inbound.inspect("github", "d2")).toMatchObject({
      verdict: "refused",
      error: { name: "BacklogFullError" },
      body: { id: "d2" },
    });
    const [pending] = await agent.listSubmissions();
    await agent.cancelSubmission(pending?.submissionId ?? "");
    expect(await submit("d2")).toMatchObject({ verdict: "accepted" });
  });

  it("starts a workflow once, under the id of the arrival", async () => {
    const agent = givenThink();
    const id = unique();
    let runs = 0;
    workflowBodies.set(`github-${id}`, async (step) => {
      await step.do("count", async () => ++runs);
      return "done";
    });
    const request = call(arrival(id), "runWorkflow", ["SCRIPTED_WORKFLOW", { n: 1 }]);
    const result = `github-${id}`;
    expect(await agent.callKernel("acceptArrival", request)).toEqual({
      verdict: "accepted",
      result,
    });
    expect(await agent.callKernel("acceptArrival", request)).toEqual({
      verdict: "duplicate",
      result,
    });
    expect((await capabilitiesOf(agent).inbound.inspect("github", id))?.calls).toEqual([
      {
        kind: "workflow",
        ordinal: 0,
        verb: "runWorkflow",
        workflow: "SCRIPTED_WORKFLOW",
        workflowId: result,
        result,
      },
    ]);
    const status = async () => (await env.SCRIPTED_WORKFLOW.get(result)).status();
    await expect.poll(async () => (await status()).status).toBe("complete");
    expect(runs).toBe(1);
  });

  it("refuses a workflow that does not exist, or whose id another one has", async () => {
    const agent = givenThink();
    const refused = await agent.callKernel(
      "acceptArrival",
      call(arrival("d1"), "runWorkflow", ["NONE", {}]),
    );
    expect(refused).toMatchObject({
      verdict: "refused",
      error: { name: "InvalidDestinationError" },
    });
    const id = unique();
    workflowBodies.set(id, async () => "done");
    const run = (name: string) =>
      call(arrival(name), "runWorkflow", ["SCRIPTED_WORKFLOW", {}, { id, ifExists: "throw" }]);
    expect(await agent.callKernel("acceptArrival", run("d2"))).toMatchObject({
      verdict: "accepted",
    });
    expect(await agent.callKernel("acceptArrival", run("d3"))).toMatchObject({
      verdict: "refused",
      error: { name: "WorkflowExistsError" },
    });
  });

  it("calls the app's own method where its class overrides a verb", async () => {
    const agent = given();
    const id = unique();
    const request = call(arrival(id), "submitMessages", [[message("hi")]]);
    await agent.callKernel("acceptArrival", request);
    const [submitted] = await agent.listSubmissions();
    const submissionId = submitted?.submissionId ?? "";
    expect(await agent.callKernel("acceptArrival", request)).toMatchObject({
      verdict: "duplicate",
    });
    expect(await agent.inspectSubmission(submissionId)).toMatchObject({
      metadata: { by: "the app" },
    });
    workflowBodies.set(`github_1_${id}`, async () => "done");
    const run = call(arrival(id), "runWorkflow", ["SCRIPTED_WORKFLOW", {}], 1);
    expect(await agent.callKernel("acceptArrival", run)).toMatchObject({ verdict: "accepted" });
    expect(await agent.calls()).toEqual([
      `submitMessages github:${id}`,
      `runWorkflow github_1_${id} return`,
    ]);
    const found = await capabilitiesOf(agent).inbound.inspect("github", id);
    expect(found?.calls).toMatchObject([
      { kind: "submission", submissionIds: [submissionId] },
      { kind: "workflow", workflowId: `github_1_${id}` },
    ]);
  });

  it("costs no statement as long as nothing is delivered", async () => {
    const agent = givenThink();
    await agent.listSubmissions();
    const tables = await runInDurableObject(agent as never, (_, ctx: DurableObjectState) =>
      ctx.storage.sql
        .exec("SELECT name FROM sqlite_master WHERE name LIKE 'perdure_inbound%'")
        .toArray(),
    );
    expect(tables).toEqual([]);
  });
});
