/** One delivery: a workflow that prompts, waits for a person when it is critical, and writes the labels, also after a crash. */

import { introspectWorkflow, runInDurableObject } from "cloudflare:test";
import { expect, it, vi } from "vitest";
import type { Delivery } from "../demo/feed.ts";
import { RulesModel } from "../src/rules-model.ts";
import { TriageAgent } from "../src/worker.ts";
import { env, givenDelivery, operate, post, report, reportWhen } from "./given.ts";

/** The counts of a delivery that was triaged once. */
const ONCE = { status: "complete", calls: 1, answers: 1, labelRequests: 1 };

/** Stops the agent at once. Its writes are kept. */
async function crash(ctx: DurableObjectState): Promise<never> {
  await ctx.storage.sync();
  ctx.abort("crash");
  throw new Error("crash");
}

function inAgent(
  { agent }: Delivery,
  act: (agent: TriageAgent, ctx: DurableObjectState) => unknown,
) {
  return runInDurableObject(env.TriageAgent.getByName(agent), act);
}

it.each([
  ["issues", "opened", "spelling"],
  ["issue_comment", "created", "discussion"],
  ["pull_request", "synchronize", "needs-review"],
])(
  "%s.%s starts one workflow, which prompts once and writes the label %s",
  async (event, action, label) => {
    const delivery = givenDelivery(event, action);
    const { status, body } = await post(delivery);
    expect([status, body]).toMatchObject([200, { verdict: "accepted", id: delivery.id }]);
    const { workflows, deliveries } = await reportWhen(delivery, "complete");
    expect({ workflows, deliveries }).toMatchObject({ workflows: 1, deliveries: [ONCE] });
    expect(deliveries[0]?.triage?.labels).toContain(label);
  },
);

it("a critical delivery writes no label until a person approves, and an approval counts once", async () => {
  const delivery = givenDelivery("issues", "reopened");
  const { agent } = delivery;
  await post(delivery);
  const [waiting] = (await reportWhen(delivery, "waiting")).deliveries;
  expect(waiting).toMatchObject({ labelRequests: 0, triage: null });

  const { approvalId } = waiting?.approval ?? {};
  const approve = async () => {
    const path = `/perdure/api/agents/TriageAgent/${encodeURIComponent(agent)}/actions`;
    const action = { do: "approve", approvalId };
    return (await operate(path, { action, reason: "It reads well" })).body;
  };
  expect(await approve()).toMatchObject({ outcome: "done" });
  const complete = await reportWhen(delivery, "complete");
  expect(complete.deliveries).toMatchObject([{ ...ONCE, approval: { by: "operator" } }]);
  expect(await approve()).toMatchObject({ outcome: "unchanged" });
  expect(await report(agent)).toEqual(complete);
});

it("of concurrent and later posts of a delivery, one starts a workflow", async () => {
  await using workflows = await introspectWorkflow(env.TRIAGE_WORKFLOW);
  const delivery = givenDelivery();
  const answers = await Promise.all(Array.from({ length: 6 }, () => post(delivery)));
  const verdicts = answers.map(({ body }) => (body as { verdict: string }).verdict);
  expect(verdicts.sort()).toEqual(["accepted", ...Array(5).fill("duplicate")]);
  const before = await reportWhen(delivery, "complete");
  expect(before).toMatchObject({ workflows: 1, deliveries: [ONCE] });
  expect((await post(delivery)).body).toMatchObject({ verdict: "duplicate" });
  expect(await report(delivery.agent)).toEqual(before);
  expect(await workflows.get()).toHaveLength(1);
});

it("a crash between storing a delivery and starting its workflow is repaired by the agent's next start", async () => {
  const delivery = givenDelivery();
  using create = vi.spyOn(env.TRIAGE_WORKFLOW, "create");
  await inAgent(delivery, (_, ctx) => create.mockImplementationOnce(() => crash(ctx)));
  expect(await post(delivery)).toMatchObject({ status: 200 });
  expect((await post(delivery)).body).toMatchObject({ verdict: "duplicate" });
  const found = await reportWhen(delivery, "complete");
  expect(found).toMatchObject({ workflows: 1, deliveries: [ONCE] });
});

it("a crash during an answer causes a second model call, and nothing else runs twice", async () => {
  const delivery = givenDelivery();
  using doStream = vi.spyOn(RulesModel.prototype, "doStream");
  // The first answer does not end before the crash.
  doStream.mockImplementationOnce(async () => ({ stream: new ReadableStream() }));
  await post(delivery);
  await vi.waitFor(async () => expect((await report(delivery.agent)).callAges).toHaveLength(1), {
    timeout: 60_000,
  });
  await inAgent(delivery, (_, ctx) => crash(ctx)).catch(() => undefined);
  const found = await reportWhen(delivery, "complete");
  expect(found).toMatchObject({ workflows: 1, deliveries: [{ ...ONCE, calls: 2 }] });
});

it("a step that failed after it wrote the labels does not write them again", async () => {
  await using workflows = await introspectWorkflow(env.TRIAGE_WORKFLOW);
  await workflows.modifyAll((instance) => instance.disableRetryDelays());
  const { applyLabels } = TriageAgent.prototype;
  using spy = vi.spyOn(TriageAgent.prototype, "applyLabels");
  spy.mockImplementationOnce(function (this: TriageAgent, ...args) {
    applyLabels.apply(this, args);
    throw new Error("The connection is lost");
  });
  const delivery = givenDelivery();
  await post(delivery);
  const { deliveries } = await reportWhen(delivery, "complete");
  expect(deliveries).toMatchObject([{ ...ONCE, labelRequests: 2 }]);
});
