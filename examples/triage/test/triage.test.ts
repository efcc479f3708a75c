/** The process of one delivery: a workflow that prompts, waits for a person when it is critical, and writes the labels, once. */

import {
  introspectWorkflow,
  introspectWorkflowInstance,
  runInDurableObject,
} from "cloudflare:test";
import { expect, it, vi } from "vitest";
import { TriageAgent } from "../src/worker.ts";
import {
  agentOf,
  agentsStored,
  approve,
  env,
  givenDelivery,
  operate,
  post,
  report,
  reportWhen,
  rowOf,
} from "./given.ts";

/** The counts of a delivery that was triaged once. */
const ONCE = { status: "complete", error: null, modelCalls: 1, modelAnswers: 1, labelWrites: 1 };

it("a delivery starts one workflow, which prompts the model once and writes the labels", async () => {
  const delivery = givenDelivery();
  const answer = await post(delivery);
  expect(answer).toEqual({
    status: 202,
    body: { delivery: delivery.id, workflowId: `triage-${delivery.id}`, accepted: true },
  });
  expect(await agentsStored()).toContain(env.TriageAgent.idFromName(delivery.agent).toString());
  const found = await reportWhen(delivery, "complete");
  expect(found).toMatchObject({
    labels: ["bug", "documentation", "spelling"],
    workflows: 1,
    turnsRunning: [],
  });
  expect(found.deliveries).toMatchObject([
    {
      ...ONCE,
      event: "issues",
      action: "opened",
      approvedBy: null,
      labelRequests: 1,
      triage: {
        title: "Spelling error in the README file",
        summary: expect.stringContaining("by Codertocat was opened"),
        severity: "low",
      },
    },
  ]);
});

it("a comment and a pull request are triaged like an issue, each in its own agent", async () => {
  const deliveries = [
    givenDelivery("issue_comment", "created"),
    givenDelivery("pull_request", "synchronize"),
  ];
  await Promise.all(deliveries.map((delivery) => post(delivery)));
  const found = await Promise.all(deliveries.map((delivery) => reportWhen(delivery, "complete")));
  expect(found).toMatchObject([
    { labels: expect.arrayContaining(["discussion"]), deliveries: [ONCE] },
    { labels: expect.arrayContaining(["needs-review"]), deliveries: [ONCE] },
  ]);
});

it("each of two events of one issue starts a workflow", async () => {
  const first = givenDelivery();
  const second = { ...first, id: crypto.randomUUID() };
  await Promise.all([post(first), post(second)]);
  await reportWhen(first, "complete");
  const found = await reportWhen(second, "complete");
  expect(found).toMatchObject({ workflows: 2, deliveries: [ONCE, ONCE] });
});

it("a critical delivery writes no label until a person approves, and an approval counts once", async () => {
  const delivery = givenDelivery("issues", "reopened");
  await post(delivery);
  const waiting = await reportWhen(delivery, "waiting");
  expect(waiting.labels).toEqual([]);
  expect(rowOf(waiting, delivery)).toMatchObject({
    triage: { severity: "critical" },
    labelRequests: 0,
  });

  expect(await approve({ ...delivery, id: "another" })).toBe(false);
  expect((await operate("/wake", { agent: delivery.agent })).body).toEqual({ woken: 1 });
  expect(rowOf(await report(delivery.agent), delivery)).toMatchObject({ status: "waiting" });
  expect(await approve(delivery, "ann")).toBe(true);
  const complete = await reportWhen(delivery, "complete");
  expect(complete.labels).toContain("reopened");
  expect(complete.deliveries).toMatchObject([{ ...ONCE, approvedBy: "ann" }]);

  expect(await approve(delivery, "bob")).toBe(false);
  expect(await report(delivery.agent)).toEqual(complete);
});

it("the approver is stored, also when the workflow ends first", async () => {
  const delivery = givenDelivery("issues", "reopened");
  await post(delivery);
  await reportWhen(delivery, "waiting");
  await runInDurableObject(agentOf(delivery), (agent) => {
    const approveWorkflow = agent.approveWorkflow.bind(agent);
    agent.approveWorkflow = async (...args) => {
      await approveWorkflow(...args);
      await reportWhen(delivery, "complete");
    };
  });
  expect(await approve(delivery, "ann")).toBe(true);
  expect((await report(delivery.agent)).deliveries).toMatchObject([{ ...ONCE, approvedBy: "ann" }]);
});

it("a repeated delivery starts and changes nothing", async () => {
  const delivery = givenDelivery();
  const { body: receipt } = await post(delivery);
  const atWork = await post(delivery);
  const before = await reportWhen(delivery, "complete");
  const afterwards = await post(delivery);
  for (const again of [atWork, afterwards]) {
    expect(again).toEqual({ status: 202, body: { ...receipt, accepted: false } });
  }
  expect(before).toMatchObject({ workflows: 1, deliveries: [ONCE] });
  expect(await report(delivery.agent)).toEqual(before);
});

it("two concurrent posts of one delivery are accepted once and start one workflow", async () => {
  await using workflows = await introspectWorkflow(env.TRIAGE_WORKFLOW);
  const delivery = givenDelivery();
  const answers = await Promise.all(Array.from({ length: 6 }, () => post(delivery)));
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 202));
  expect(answers.filter(({ body }) => body.accepted)).toHaveLength(1);
  const found = await reportWhen(delivery, "complete");
  expect(found).toMatchObject({ workflows: 1, deliveries: [{ ...ONCE, labelRequests: 1 }] });
  expect(await workflows.get()).toHaveLength(1);
});

it("a step that failed after it wrote the labels does not write them again", async () => {
  const delivery = givenDelivery();
  await using workflow = await introspectWorkflowInstance(
    env.TRIAGE_WORKFLOW,
    `triage-${delivery.id}`,
  );
  await workflow.modify((instance) => instance.disableRetryDelays());
  const { applyLabels } = TriageAgent.prototype;
  using spy = vi.spyOn(TriageAgent.prototype, "applyLabels");
  spy.mockImplementationOnce(function (this: TriageAgent, ...args) {
    applyLabels.apply(this, args);
    throw new Error("The connection is lost");
  });
  await post(delivery);
  const found = await reportWhen(delivery, "complete");
  expect(found.deliveries).toMatchObject([{ ...ONCE, labelRequests: 2 }]);
});
