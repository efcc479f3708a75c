/** W5: waits of runs that have ended: a run that continues from a step takes them back, and a decision finds the end by itself. */

import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { restartFrom } from "../../support/engine.ts";
import { until } from "../../support/given.ts";
import {
  givenScriptedWorkflow,
  type WorkflowBody,
} from "../../support/workflows/scripted-workflow.ts";

/** Fails once, while an approval and an arrival are waited for. */
const failing =
  (state: { fails: boolean }): WorkflowBody =>
  async (step) => {
    const open = Promise.all([
      step.approval("decide", { title: "decide" }),
      step.webhook("paid", { from: "stripe", type: "paid" }),
    ]);
    open.catch(() => {});
    await step.waitForEvent("go", { type: "go", timeout: "1 hour" });
    await step.do("charge", { retries: { limit: 0, delay: 1 } }, async () => {
      if (state.fails) throw new Error("no stock");
    });
    const [{ approved }, { id }] = await open;
    return [approved, id];
  };

it("W1: a run that is restarted from the step that failed waits for its approval and arrival again", async () => {
  const state = { fails: true };
  await using given = await givenScriptedWorkflow(failing(state));
  const { approvals, operations } = capabilitiesOf(given.agent);
  await given.start();
  const waits = async () =>
    ((await operations.inspectWorkflow(given.id))?.steps ?? []).filter(({ kind }) =>
      /webhook|approval/.test(kind),
    );
  await until(async () => (await waits()).length === 2);
  const [pending] = (await approvals.list()).items;
  await (await given.handle()).sendEvent({ type: "go", payload: null });
  await given.error();
  await until(async () => (await waits()).every(({ status }) => status === "cancelled"));
  const body = {} as never;
  const arrival = { source: "stripe", id: "one", type: "paid", body, receivedAt: Date.now() };
  expect(await given.agent.deliver(arrival)).toEqual([]);
  state.fails = false;
  await restartFrom(env.SCRIPTED_WORKFLOW, given.id, { name: "charge" });
  const again = await until(async () => (await approvals.list()).items[0]);
  expect(again.approvalId).toBe(pending?.approvalId);
  expect((await approvals.grant(again.approvalId)).outcome).toBe("decided");
  await until(async () => (await given.agent.deliver(arrival)).length > 0);
  await until(async () => (await (await given.handle()).status()).status === "complete");
  expect((await (await given.handle()).status()).output).toEqual([true, "one"]);
}, 40_000);

it("W5: a grant finds the end of a run that its agent was not notified of", async () => {
  await using given = await givenScriptedWorkflow(async (step) => {
    step.approval("decide", { title: "decide" }).catch(() => {});
    await step.waitForEvent("go", { type: "go", timeout: "1 hour" });
  });
  const { approvals } = capabilitiesOf(given.agent);
  await given.start();
  const { approvalId } = await until(async () => (await approvals.list()).items[0]);
  using _ended = vi
    .spyOn(env.SCRIPTED_WORKFLOW, "get")
    .mockImplementation(async () => ({ status: async () => ({ status: "complete" }) }) as never);
  expect(await approvals.grant(approvalId)).toMatchObject({
    outcome: "already_decided",
    approval: { status: "cancelled" },
  });
});
