/** W1 to W5: workflows that wait for a person. */

import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import type { ApprovalRequestEvent } from "perdure/agent";
import type { Delivery } from "perdure/outbox";
import { expect, it } from "vitest";
import { type GivenAgent, givenAgent, refusal, until } from "../app/given.ts";
import type { Host } from "../app/hosts.ts";
import { forgePayloads, interceptEvents } from "../app/intercept.ts";
import { deliveries, workflowRuns } from "../app/receivers.ts";
import { receiveWebhook } from "../app/webhooks.ts";

const PAYLOAD = { payload: { amount: 5 } };

/** Returns the id of the pending approval, when the workflow has requested it. */
async function untilRequested(agent: GivenAgent): Promise<string> {
  const { approvals } = await agent.capabilities();
  const [approval] = await until(async () => {
    const { items } = await approvals.list();
    return items.length > 0 && items;
  });
  return approval?.approvalId ?? "";
}

export function approvalsContract(host: Host): void {
  const given = () => givenAgent(host);
  const givenApproval = async () => {
    const agent = given();
    const id = await agent.start({ step: "approval" });
    return { agent, id, approvalId: await untilRequested(agent) };
  };

  it("W1 W4: an approval is decided once, and its payload is validated", async () => {
    const { agent, id, approvalId } = await givenApproval();
    const { approvals } = await agent.capabilities();
    const invalid = approvals.grant(approvalId, { payload: { amount: "x" } });
    expect((await refusal(invalid)).name).toBe("InvalidApprovalError");
    const results = await Promise.all([
      approvals.grant(approvalId, PAYLOAD),
      approvals.grant(approvalId, { payload: { amount: 6 } }),
      approvals.reject(approvalId),
    ]);
    expect(results.map(({ outcome }) => outcome).toSorted()).toEqual([
      "already_decided",
      "already_decided",
      "decided",
    ]);
    expect(await agent.untilOutput(id)).toMatchObject({ approved: true, ...PAYLOAD });
    expect((await approvals.reject(approvalId)).outcome).toBe("already_decided");
    expect(await approvals.inspect(approvalId)).toMatchObject({ status: "approved" });
  });

  it("W1: a restart while the approval waits keeps it open, and its decision counts", async () => {
    const { agent, id, approvalId } = await givenApproval();
    const runs = workflowRuns.count(id);
    await (await agent.verbs()).restartWorkflow(id);
    await until(() => workflowRuns.count(id) > runs);
    const { approvals } = await agent.capabilities();
    await approvals.grant(approvalId, PAYLOAD);
    expect(await agent.untilOutput(id)).toMatchObject({ approved: true });
    expect((await approvals.list({ status: ["pending", "approved"] })).items).toHaveLength(1);
  });

  it("O1 W3: a request notifies with a link that decides it, once, also after a crash and a restart", async () => {
    const agent = given();
    const id = await agent.start({ step: "approval", notifies: true });
    const approvalId = await untilRequested(agent);
    await agent.crash();
    const [{ event }] = await until(async () => {
      await (await agent.verbs()).submissionStats();
      const found = deliveries.get(approvalId);
      return found.length > 0 && (found as [Delivery, ...Delivery[]]);
    });
    const runs = workflowRuns.count(id);
    await (await agent.verbs()).restartWorkflow(id);
    await until(() => workflowRuns.count(id) > runs);
    const { type, data } = event as ApprovalRequestEvent;
    expect({ type, title: data.title }).toEqual({ type: "approval.requested", title: "Pay?" });
    const request = new Request(data.links?.grant ?? "", {
      method: "POST",
      headers: { accept: "application/json" },
    });
    const { approvals } = await agent.capabilities();
    await until(async () => (await approvals.inspect(approvalId))?.status === "pending");
    const response = await receiveWebhook(request, env, createExecutionContext());
    expect(response?.status).toBe(200);
    expect(await agent.untilOutput(id)).toMatchObject({
      ...{ approved: true, by: "ann", payload: { amount: 7 } },
    });
    expect(new Set(deliveries.get(approvalId).map((one) => one.id)).size).toBe(1);
  });

  it("W1: a restart after the decision asks again, and the new decision counts", async () => {
    const { agent, id, approvalId } = await givenApproval();
    const { approvals } = await agent.capabilities();
    await approvals.grant(approvalId, PAYLOAD);
    await agent.untilOutput(id);
    await (await agent.verbs()).restartWorkflow(id);
    const again = await untilRequested(agent);
    expect(again).not.toBe(approvalId);
    expect((await approvals.grant(approvalId, PAYLOAD)).outcome).toBe("already_decided");
    await approvals.reject(again);
    expect(await agent.untilOutput(id)).toMatchObject({ approved: false });
  });

  it("W2: an approval survives a crash, and is decided after it", async () => {
    const { agent, id, approvalId } = await givenApproval();
    await agent.crash();
    expect(await untilRequested(agent)).toBe(approvalId);
    await (await agent.capabilities()).approvals.grant(approvalId, PAYLOAD);
    expect(await agent.untilOutput(id)).toMatchObject({ approved: true });
  });

  it("W2: a workflow that is paused before the decision continues with it when it is resumed", async () => {
    const { agent, id, approvalId } = await givenApproval();
    const verbs = await agent.verbs();
    await verbs.pauseWorkflow(id);
    await agent.untilWorkflow(id, "paused");
    await (await agent.capabilities()).approvals.grant(approvalId, PAYLOAD);
    await verbs.resumeWorkflow(id);
    expect(await agent.untilOutput(id)).toMatchObject({ approved: true });
    for (const verb of ["pauseWorkflow", "resumeWorkflow", "restartWorkflow"] as const)
      expect((await refusal(verbs[verb]("none"))).message).toMatch(/^Workflow none not found/);
  });

  it("W2: a restart between the decision and its event asks again, and does not wait for the lost event", async () => {
    const { agent, id, approvalId } = await givenApproval();
    let lost = 0;
    interceptEvents(host, id, async (event, send) => {
      // The first event is lost, later ones pass.
      if (lost++ > 0) await send(event);
    });
    const { approvals } = await agent.capabilities();
    await approvals.grant(approvalId, PAYLOAD);
    await until(() => lost > 0);
    await (await agent.verbs()).restartWorkflow(id);
    const again = await untilRequested(agent);
    expect(again).not.toBe(approvalId);
    await approvals.grant(again, PAYLOAD);
    expect(await agent.untilOutput(id)).toMatchObject({ approved: true });
  });

  it("W2: an approval that nobody decides in time ends the wait", async () => {
    const agent = given();
    const id = await agent.start({ step: "approval", timeout: 50 });
    const { error } = await agent.untilWorkflow(id, "errored", "complete");
    expect(error?.message).toContain("was not decided within 50 ms");
    const { approvals } = await agent.capabilities();
    expect((await approvals.list()).items).toEqual([]);
  });

  it("W3: a forged event approves nothing, and the decision still counts", async () => {
    const { agent, id, approvalId } = await givenApproval();
    let forged = 0;
    interceptEvents(host, id, async (event, send) => {
      for (const payload of forgePayloads(event.payload, '"amount":5', '"amount":500')) {
        forged++;
        await send({ ...event, payload });
      }
      await send(event);
    });
    await (await agent.capabilities()).approvals.grant(approvalId, PAYLOAD);
    expect(await agent.untilOutput(id)).toMatchObject({ approved: true, ...PAYLOAD });
    expect(forged).toBeGreaterThan(0);
  });

  it("W5: terminating a workflow closes its approval, which cannot be decided then", async () => {
    const { agent, id, approvalId } = await givenApproval();
    await (await agent.verbs()).terminateWorkflow(id);
    await agent.untilWorkflow(id, "terminated");
    const { approvals } = await agent.capabilities();
    expect((await approvals.list()).items).toEqual([]);
    expect((await approvals.grant(approvalId, PAYLOAD)).outcome).not.toBe("decided");
    expect(await approvals.inspect(approvalId)).toMatchObject({ status: "cancelled" });
  });
}

/** W2 where the event of a decision is lost: it takes the ten seconds after which a workflow asks its agent. */
export function lostEventsContract(host: Host): void {
  it(`W2: on ${host.title}, a workflow whose event is lost asks its agent and finds the decision`, async () => {
    const agent = givenAgent(host);
    const id = await agent.start({ step: "approval" });
    const approvalId = await untilRequested(agent);
    interceptEvents(host, id, async () => {});
    await (await agent.capabilities()).approvals.grant(approvalId, PAYLOAD);
    expect(await agent.untilOutput(id)).toMatchObject({ approved: true });
  });
}
