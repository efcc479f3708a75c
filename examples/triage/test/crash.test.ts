/** What a crash can leave behind between two writes, and that each delivery is triaged by exactly one workflow all the same. */

import { introspectWorkflow, runInDurableObject } from "cloudflare:test";
import { expect, it, vi } from "vitest";
import {
  agentOf,
  approve,
  type Delivery,
  env,
  givenDelivery,
  post,
  type Refusal,
  report,
  reportWhen,
} from "./given.ts";

const ONCE = { status: "complete", error: null, modelCalls: 1, labelWrites: 1 };
/** How the platform answers the next create(). `crash` keeps the writes and aborts the agent at once. */
async function nextCreate(
  delivery: Delivery,
  act: (given: {
    create: () => Promise<WorkflowInstance>;
    crash: () => Promise<never>;
  }) => Promise<WorkflowInstance>,
): Promise<Disposable> {
  const ctx = await runInDurableObject(agentOf(delivery), (_, ctx) => ctx);
  const create = env.TRIAGE_WORKFLOW.create.bind(env.TRIAGE_WORKFLOW);
  const crash = async () => {
    await ctx.storage.sync();
    ctx.abort("crash");
    throw new Error("crash");
  };
  const spy = vi.spyOn(env.TRIAGE_WORKFLOW, "create");
  spy.mockImplementationOnce((options) => act({ create: () => create(options), crash }));
  return spy;
}

/** Posts a delivery whose agent fails; GitHub sees that, and may send it again. */
async function postInVain(delivery: Delivery): Promise<void> {
  using log = vi.spyOn(console, "error").mockImplementation(() => undefined);
  const answer = await post<Refusal>(delivery);
  expect(answer).toEqual({ status: 500, body: { error: expect.stringContaining("safe to send") } });
  expect(log).toHaveBeenCalledOnce();
}

it("a crash between storing a delivery and starting its workflow is repaired by the agent's next start", async () => {
  await using workflows = await introspectWorkflow(env.TRIAGE_WORKFLOW);
  const delivery = givenDelivery();
  using _ = await nextCreate(delivery, ({ crash }) => crash());
  await postInVain(delivery);
  expect(await workflows.get()).toEqual([]);
  // Reading the report starts the agent; the delivery is not sent again.
  const found = await reportWhen(delivery, "complete");
  expect(found).toMatchObject({ workflows: 1, deliveries: [ONCE] });
  expect(await workflows.get()).toHaveLength(1);
});

it("after a crash between storing a delivery and starting its workflow, repeated deliveries start nothing", async () => {
  await using workflows = await introspectWorkflow(env.TRIAGE_WORKFLOW);
  const delivery = givenDelivery();
  using _ = await nextCreate(delivery, ({ crash }) => crash());
  await postInVain(delivery);
  const answers = await Promise.all([post(delivery), post(delivery), post(delivery)]);
  for (const answer of answers)
    expect(answer).toMatchObject({ status: 202, body: { accepted: false } });
  const found = await reportWhen(delivery, "complete");
  expect(found).toMatchObject({ workflows: 1, deliveries: [ONCE] });
  expect(await workflows.get()).toHaveLength(1);
});

it("a workflow that the platform refuses at first is started by a retry", async () => {
  await using workflows = await introspectWorkflow(env.TRIAGE_WORKFLOW);
  const delivery = givenDelivery();
  using _ = await nextCreate(delivery, async () => {
    throw new Error("Workflows cannot be reached");
  });
  expect(await post(delivery)).toMatchObject({ status: 202, body: { accepted: true } });
  const found = await reportWhen(delivery, "complete");
  expect(found).toMatchObject({ workflows: 1, deliveries: [ONCE] });
  expect(await workflows.get()).toHaveLength(1);
});

it("a workflow that the engine reported as created but did not store is created by a retry", async () => {
  const delivery = givenDelivery();
  using create = await nextCreate(delivery, () => env.TRIAGE_WORKFLOW.get("never-written"));
  expect(await post(delivery)).toMatchObject({ status: 202, body: { accepted: true } });
  expect(create).toHaveBeenCalledTimes(2);
  const found = await reportWhen(delivery, "complete");
  expect(found).toMatchObject({ workflows: 1, deliveries: [ONCE] });
});

it("a workflow without a tracking row after a crash is not started twice, and can be approved", async () => {
  await using workflows = await introspectWorkflow(env.TRIAGE_WORKFLOW);
  const delivery = givenDelivery("pull_request", "reopened");
  using _ = await nextCreate(delivery, async ({ create, crash }) => {
    await create();
    return crash();
  });
  await postInVain(delivery);
  expect(await reportWhen(delivery, "waiting")).toMatchObject({ labels: [] });
  await vi.waitFor(async () => expect(await approve(delivery)).toBe(true), { timeout: 10_000 });
  const found = await reportWhen(delivery, "complete");
  expect(found).toMatchObject({ workflows: 1, deliveries: [{ ...ONCE, approvedBy: "ann" }] });
  expect(await workflows.get()).toHaveLength(1);
});

it("a crash during an answer causes a second model call, and nothing else runs twice", async () => {
  await using workflows = await introspectWorkflow(env.TRIAGE_WORKFLOW);
  const delivery = givenDelivery();
  await post(delivery);
  await vi.waitFor(async () => {
    expect((await report(delivery.agent)).turnsRunning).toHaveLength(1);
  });
  await runInDurableObject(agentOf(delivery), async (_, ctx) => {
    await ctx.storage.sync();
    ctx.abort("crash");
  }).catch(() => undefined);
  const found = await reportWhen(delivery, "complete");
  expect(found).toMatchObject({
    workflows: 1,
    deliveries: [{ ...ONCE, modelCalls: 2, modelAnswers: 1 }],
  });
  expect(await workflows.get()).toHaveLength(1);
});

it("a crash between sending and storing an approval loses nothing, and a second approval changes nothing", async () => {
  await using workflows = await introspectWorkflow(env.TRIAGE_WORKFLOW);
  await workflows.modifyAll((instance) => instance.disableRetryDelays());
  const delivery = givenDelivery("issues", "reopened");
  await post(delivery);
  await reportWhen(delivery, "waiting");
  await runInDurableObject(agentOf(delivery), (agent, ctx) => {
    const approveWorkflow = agent.approveWorkflow.bind(agent);
    agent.approveWorkflow = async (...args) => {
      await approveWorkflow(...args);
      ctx.abort("crash");
      throw new Error("crash");
    };
  });
  using log = vi.spyOn(console, "error").mockImplementation(() => undefined);
  expect(await approve(delivery)).toBeUndefined();
  expect(log).toHaveBeenCalledOnce();
  await approve(delivery, "bob");
  const found = await reportWhen(delivery, "complete");
  expect(found.deliveries).toMatchObject([ONCE]);
  expect(await workflows.get()).toHaveLength(1);
});
