/** What a crash can leave behind between two writes, and that each delivery is triaged by exactly one workflow all the same. */

import { introspectWorkflow, runInDurableObject } from "cloudflare:test";
import { expect, it, vi } from "vitest";
import type { TriageAgent } from "../src/worker.ts";
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
type RunWorkflow = TriageAgent["runWorkflow"];

/** What runWorkflow() does the next time; `crash` keeps what is written and ends the object where it stands. */
function nextStart(
  delivery: Delivery,
  act: (given: {
    agent: TriageAgent;
    run: () => ReturnType<RunWorkflow>;
    crash: () => Promise<never>;
  }) => ReturnType<RunWorkflow>,
): Promise<void> {
  return runInDurableObject(agentOf(delivery), (agent, ctx) => {
    const runWorkflow = agent.runWorkflow.bind(agent);
    const crash = async () => {
      await ctx.storage.sync();
      ctx.abort("crash");
      throw new Error("crash");
    };
    agent.runWorkflow = (...args) => {
      agent.runWorkflow = runWorkflow;
      return act({ agent, run: () => runWorkflow(...args), crash });
    };
  });
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
  await nextStart(delivery, ({ crash }) => crash());
  await postInVain(delivery);
  expect(await workflows.get()).toEqual([]);
  // Reading the report starts the agent; the delivery is not sent again.
  const found = await reportWhen(delivery, "complete");
  expect(found).toMatchObject({ workflows: 1, deliveries: [ONCE] });
  expect(await workflows.get()).toHaveLength(1);
});

it("a crash between storing a delivery and starting its workflow is repaired by the next deliveries", async () => {
  await using workflows = await introspectWorkflow(env.TRIAGE_WORKFLOW);
  const delivery = givenDelivery();
  await nextStart(delivery, ({ crash }) => crash());
  await postInVain(delivery);
  const answers = await Promise.all([post(delivery), post(delivery), post(delivery)]);
  for (const answer of answers)
    expect(answer).toMatchObject({ status: 202, body: { accepted: false } });
  const found = await reportWhen(delivery, "complete");
  expect(found).toMatchObject({ workflows: 1, deliveries: [ONCE] });
  expect(await workflows.get()).toHaveLength(1);
});

it("a delivery whose workflow was refused by the platform is started by its next delivery", async () => {
  await using workflows = await introspectWorkflow(env.TRIAGE_WORKFLOW);
  const delivery = givenDelivery();
  await nextStart(delivery, () => Promise.reject(new Error("Workflows cannot be reached")));
  await postInVain(delivery);
  expect(await report(delivery.agent)).toMatchObject({
    workflows: 0,
    deliveries: [{ status: "received", modelCalls: 0, labelWrites: 0 }],
  });
  expect(await post(delivery)).toMatchObject({ status: 202, body: { accepted: false } });
  const found = await reportWhen(delivery, "complete");
  expect(found).toMatchObject({ workflows: 1, deliveries: [ONCE] });
  expect(await workflows.get()).toHaveLength(1);
});

it("a crash that leaves a tracking row without its workflow does not keep the workflow from starting", async () => {
  const delivery = givenDelivery();
  await nextStart(delivery, async ({ agent, run, crash }) => {
    // An instance that the engine said it created, and never wrote.
    using create = vi.spyOn(env.TRIAGE_WORKFLOW, "create");
    create.mockResolvedValueOnce({ id: `triage-${delivery.id}` } as WorkflowInstance);
    const id = await run();
    expect(create).toHaveBeenCalledOnce();
    expect(agent.getWorkflow(id)).toBeDefined();
    return crash();
  });
  await postInVain(delivery);
  using log = vi.spyOn(console, "error");
  const found = await reportWhen(delivery, "complete");
  expect(found).toMatchObject({ workflows: 1, deliveries: [ONCE] });
  expect(log).not.toHaveBeenCalled();
});

it("a workflow that a crash left without a tracking row is not started twice, and can be approved", async () => {
  await using workflows = await introspectWorkflow(env.TRIAGE_WORKFLOW);
  const delivery = givenDelivery("pull_request", "reopened");
  await nextStart(delivery, async ({ agent, run, crash }) => {
    agent.deleteWorkflow(await run());
    return crash();
  });
  await postInVain(delivery);
  expect(await reportWhen(delivery, "waiting")).toMatchObject({ workflows: 0, labels: [] });
  expect(await approve(delivery)).toBe(true);
  const found = await reportWhen(delivery, "complete");
  expect(found.deliveries).toMatchObject([{ ...ONCE, approvedBy: "ann" }]);
  expect(await workflows.get()).toHaveLength(1);
});

it("a crash in the middle of an answer costs a second model call, and nothing else is done twice", async () => {
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

it("a crash between opening a gate and noting it down loses no approval, and a second one does no harm", async () => {
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
