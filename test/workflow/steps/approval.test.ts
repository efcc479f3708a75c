/** `step.approval()` on DurableThink, in the real engine: W1 to W5, over crashes and restarts, and what clients are told. */

import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import type { Approval } from "../../../src/hosts/think/index.ts";
import { refusal, until } from "../../support/given.ts";
import { cutOff } from "../../support/think-agent.ts";
import { runs } from "../../support/workflows/approval-workflow.ts";
import { decidedBy, givenWorkflow, pendingAt } from "../../support/workflows/approvals.ts";
import { holdWait } from "../../support/workflows/watched-steps.ts";

describe("a decision", () => {
  it("W4: approves with a payload, as the schema takes it", async () => {
    const data = { order: 7, lines: ["a", null] };
    const ask = { name: "refund", title: "Refund order 7", data, schema: "refund" as const };
    const workflow = await givenWorkflow([ask]);
    const approval = await workflow.pending();
    expect(approval).toMatchObject({
      status: "pending",
      title: "Refund order 7",
      data,
      schema: { type: "object", required: ["amount"] },
      workflow: { name: "APPROVAL_WORKFLOW", id: workflow.id, stepName: "refund" },
    });
    expect(approval.expiresAt - approval.createdAt).toBe(86_400_000);
    const { approvalId } = approval;
    const decision = { payload: { amount: 40, note: "late" }, by: "ada", reason: "it was late" };
    const decided = await capabilitiesOf(workflow.agent).approvals.grant(approvalId, decision);
    expect(decided).toMatchObject({
      outcome: "decided",
      approval: { approvalId, status: "approved", ...decision },
    });
    const { outcomes } = await workflow.output();
    const inspected = await capabilitiesOf(workflow.agent).approvals.inspect(approvalId);
    expect(outcomes).toEqual([
      {
        approved: true,
        payload: { amount: 40, note: "LATE" },
        by: "ada",
        reason: "it was late",
        decidedAt: inspected?.decidedAt,
        isTimeout: false,
      },
    ]);
  });

  it("rejects, and needs no schema, no title and no data", async () => {
    const workflow = await givenWorkflow([{ name: "plain" }]);
    const approval = await workflow.pending();
    expect(approval).toMatchObject({ title: null, data: null, schema: null });
    await capabilitiesOf(workflow.agent).approvals.reject(approval.approvalId, {
      by: "bob",
      reason: "no",
    });
    const { outcomes } = await workflow.output();
    expect(outcomes).toMatchObject([{ approved: false, by: "bob", reason: "no" }]);
  });

  it("W4: a payload that does not match is refused, and the approval stays pending", async () => {
    const workflow = await givenWorkflow([{ name: "refund", schema: "refund" }]);
    const { approvalId } = await workflow.pending();
    const error = await refusal(
      capabilitiesOf(workflow.agent).approvals.grant(approvalId, { payload: { amount: 1_000 } }),
    );
    expect(error).toMatchObject({ name: "InvalidApprovalError", field: "payload" });
    expect(error.message).toMatch(/1000.*amount: .*decide again/s);
    expect(await capabilitiesOf(workflow.agent).approvals.inspect(approvalId)).toMatchObject({
      status: "pending",
    });
    await capabilitiesOf(workflow.agent).approvals.grant(approvalId, { payload: { amount: 1 } });
    const { outcomes } = await workflow.output();
    expect(outcomes).toMatchObject([{ payload: { amount: 1, note: "NONE" } }]);
  });

  it("W4: a payload that only the schema refuses is asked for again, with the reason", async () => {
    const workflow = await givenWorkflow([{ name: "refund", schema: "refund" }]);
    const first = await workflow.pending();
    await capabilitiesOf(workflow.agent).approvals.grant(first.approvalId, {
      payload: { amount: 13 },
      by: "ada",
    });
    const second = await pendingAt(workflow.agent, first.approvalId);
    expect(second).toMatchObject({
      title: first.title,
      schema: first.schema,
      refusal: { approvalId: first.approvalId, problem: "amount: 13 brings bad luck" },
    });
    expect(second.expiresAt).toBeLessThanOrEqual(first.expiresAt + 1_000);
    const late = await capabilitiesOf(workflow.agent).approvals.grant(first.approvalId, {
      payload: { amount: 1 },
    });
    expect(late).toMatchObject({
      outcome: "already_decided",
      approval: { status: "refused", by: "ada", payload: { amount: 13 } },
    });
    expect(
      (await capabilitiesOf(workflow.agent).approvals.list({ status: "refused" })).items,
    ).toHaveLength(1);
    await capabilitiesOf(workflow.agent).approvals.grant(second.approvalId, {
      payload: { amount: 1 },
    });
    const { outcomes } = await workflow.output();
    expect(outcomes).toMatchObject([{ payload: { amount: 1 } }]);
  });

  it("W4: after ten refusals the step throws, and says what was wrong", async () => {
    const workflow = await givenWorkflow([{ name: "refund", schema: "refund" }]);
    let { approvalId } = await workflow.pending();
    for (let round = 0; round <= 10; round++) {
      await capabilitiesOf(workflow.agent).approvals.grant(approvalId, { payload: { amount: 13 } });
      if (round < 10) ({ approvalId } = await pendingAt(workflow.agent, approvalId));
    }
    const { outcomes } = await workflow.output();
    expect(outcomes).toMatchObject([{ error: "ApprovalPayloadError", approvalId, issues: 1 }]);
    const [failed] = outcomes;
    expect(failed && "message" in failed && failed.message).toMatch(
      /amount: 13 brings bad luck.*restart the workflow/s,
    );
    expect(
      (await capabilitiesOf(workflow.agent).approvals.list({ status: "refused" })).items,
    ).toHaveLength(11);
    expect((await capabilitiesOf(workflow.agent).approvals.list()).items).toEqual([]);
  });

  it("W3: two approvals in a row cannot be answered by one click", async () => {
    const workflow = await givenWorkflow([{ name: "wait" }, { name: "wait", key: "second" }]);
    const first = await workflow.pending();
    const clicks = await Promise.all(
      [1, 2, 3].map(() =>
        capabilitiesOf(workflow.agent).approvals.grant(first.approvalId, { by: "ada" }),
      ),
    );
    expect(clicks.map(({ outcome }) => outcome).sort()).toEqual([
      "already_decided",
      "already_decided",
      "decided",
    ]);
    const second = await pendingAt(workflow.agent, first.approvalId);
    expect(await capabilitiesOf(workflow.agent).approvals.reject(first.approvalId)).toMatchObject({
      outcome: "already_decided",
      approval: { status: "approved", by: "ada" },
    });
    // The first one's event once more, as an at-least-once delivery may bring it.
    const data = { waitId: first.approvalId, status: "completed", settledAt: 1, result: {} };
    await (await env.APPROVAL_WORKFLOW.get(workflow.id)).sendEvent({
      type: `perdure-wait-${first.approvalId}`,
      payload: { id: "again", attempt: 2, event: { type: "wait.completed", data } },
    });
    expect(await capabilitiesOf(workflow.agent).approvals.inspect(second.approvalId)).toMatchObject(
      {
        status: "pending",
      },
    );
    await capabilitiesOf(workflow.agent).approvals.reject(second.approvalId);
    const { outcomes } = await workflow.output();
    expect(outcomes).toMatchObject([{ approved: true }, { approved: false }]);
  });

  it("O4: a payload that no event holds comes whole", async () => {
    const workflow = await givenWorkflow([{ name: "refund", schema: "refund" }]);
    const { approvalId } = await workflow.pending();
    const note = "é".repeat(450_000);
    await capabilitiesOf(workflow.agent).approvals.grant(approvalId, {
      payload: { amount: 1, note },
    });
    const { outcomes } = await workflow.output();
    expect((outcomes[0] as { payload: { note: string } }).payload.note).toBe(note.toUpperCase());
  });
});

describe("W2: no wait hangs", () => {
  it.each([
    ["throw", "throw", { error: "ApprovalTimeoutError" }, undefined],
    ["reject", "reject", { approved: false, isTimeout: true }, undefined],
    [
      "approve",
      { approve: { amount: 5 } },
      { approved: true, isTimeout: true, payload: { amount: 5, note: "NONE" } },
      "refund",
    ],
    ["approve without a schema", "approve", { approved: true, isTimeout: true }, undefined],
  ] as const)("W2 onTimeout: %s", async (_, onTimeout, outcome, schema) => {
    const ask = { name: "slow", timeout: 700, onTimeout, ...(schema && { schema }) };
    const workflow = await givenWorkflow([ask]);
    const { outcomes } = await workflow.output();
    expect(outcomes).toMatchObject([outcome]);
    const { approvals } = capabilitiesOf(workflow.agent);
    const [expired] = (await approvals.list({ status: "expired" })).items;
    const { approvalId = "" } = expired ?? {};
    expect(expired?.reason).toContain("Not decided in time");
    expect(await capabilitiesOf(workflow.agent).approvals.grant(approvalId)).toMatchObject({
      outcome: "already_decided",
      approval: { status: "expired" },
    });
  });

  it("W2: a decision whose event is lost wins over the timeout", async () => {
    const workflow = await givenWorkflow([{ name: "slow", timeout: 500 }]);
    let isDecided = false;
    holdWait(workflow.id, () => until(() => isDecided));
    const { approvalId } = await workflow.pending();
    cutOff.add(workflow.agent.name ?? "");
    await decidedBy(capabilitiesOf(workflow.agent).approvals.grant(approvalId, { by: "ada" }));
    isDecided = true;
    const { outcomes } = await workflow.output();
    expect(outcomes).toMatchObject([{ approved: true, by: "ada", isTimeout: false }]);
  });
});

describe("W1: a workflow that is restarted", () => {
  it("W1: a restarted workflow takes over the pending approval, and its old id still works", async () => {
    const workflow = await givenWorkflow([{ name: "wait" }]);
    const { approvalId } = await workflow.pending();
    await workflow.agent.restart(workflow.id);
    await until(() => runs.get(workflow.id) === 2);
    expect((await capabilitiesOf(workflow.agent).approvals.list()).items).toMatchObject([
      { approvalId },
    ]);
    await capabilitiesOf(workflow.agent).approvals.grant(approvalId, { by: "old card" });
    const { outcomes } = await workflow.output();
    expect(outcomes).toMatchObject([{ approved: true, by: "old card" }]);
  });

  it("W1: asks again for what was decided in an earlier run, and takes over what was not", async () => {
    const workflow = await givenWorkflow([{ name: "first" }, { name: "second" }]);
    const first = await workflow.pending();
    await capabilitiesOf(workflow.agent).approvals.grant(first.approvalId);
    const second = await pendingAt(workflow.agent, first.approvalId);
    await workflow.agent.restart(workflow.id);
    const again = await pendingAt(workflow.agent, second.approvalId);
    expect(again.approvalId).not.toBe(first.approvalId);
    expect(again.workflow.stepName).toBe("first");
    await capabilitiesOf(workflow.agent).approvals.reject(again.approvalId);
    // The restarted one has come to it when it has a new time.
    await until(async () => {
      const now: Approval | null = await capabilitiesOf(workflow.agent).approvals.inspect(
        second.approvalId,
      );
      return now && now.expiresAt > second.expiresAt;
    });
    await capabilitiesOf(workflow.agent).approvals.grant(second.approvalId);
    const { outcomes } = await workflow.output();
    expect(outcomes).toMatchObject([{ approved: false }, { approved: true }]);
  });

  it("W1: a finished one asks again", async () => {
    const workflow = await givenWorkflow([{ name: "wait" }]);
    const first = await workflow.pending();
    await capabilitiesOf(workflow.agent).approvals.grant(first.approvalId);
    await workflow.output();
    await workflow.agent.restart(workflow.id);
    const second = await pendingAt(workflow.agent, first.approvalId);
    await capabilitiesOf(workflow.agent).approvals.reject(second.approvalId);
    const { outcomes } = await workflow.output();
    expect(outcomes).toMatchObject([{ approved: false }]);
  });
});

describe("W5: a workflow that is terminated", () => {
  it("W5: elsewhere: a click finds it out, decides nothing, and cancels", async () => {
    const workflow = await givenWorkflow([{ name: "wait" }]);
    const { approvalId } = await workflow.pending();
    await (await env.APPROVAL_WORKFLOW.get(workflow.id)).terminate();
    expect(await capabilitiesOf(workflow.agent).approvals.grant(approvalId)).toMatchObject({
      outcome: "already_decided",
      approval: { status: "cancelled" },
    });
  });

  it("W5: a terminated workflow has its approval cancelled, and a restart asks again", async () => {
    const statuses: string[] = [];
    const workflow = await givenWorkflow([{ name: "wait" }], {
      onApproval: ({ status }) => void statuses.push(status),
    });
    const { approvalId } = await workflow.pending();
    await workflow.agent.terminate(workflow.id);
    expect(await capabilitiesOf(workflow.agent).approvals.grant(approvalId)).toMatchObject({
      outcome: "already_decided",
      approval: {
        status: "cancelled",
        reason: "The workflow that waited for it was terminated",
      },
    });
    expect(statuses).toEqual(["pending", "cancelled"]);
    await workflow.agent.restart(workflow.id);
    const anew = await pendingAt(workflow.agent, approvalId);
    await capabilitiesOf(workflow.agent).approvals.grant(anew.approvalId);
    expect((await workflow.output()).outcomes).toMatchObject([{ approved: true }]);
  });
});
