/** What the report finds wrong with approvals, and with workflows. */

import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { outputOf, restartFrom } from "../../support/engine.ts";
import { until } from "../../support/given.ts";
import type { Agent } from "../../support/think.ts";
import { givenWorkflow } from "../../support/workflows/approvals.ts";
import { workflowBodies } from "../../support/workflows/scripted-workflow.ts";
import {
  apply,
  codesIn,
  found,
  givenAgent,
  gone,
  HOUR,
  inside,
  MINUTE,
  reportOf,
} from "./support.ts";

const HOURS_48 = 48 * HOUR;

describe("findings of approvals", () => {
  it("approval-waits-long: an approval is an information after a minute, and a warning after half of its time", async () => {
    const workflow = await givenWorkflow([{ name: "refund", timeout: HOURS_48 }]);
    const agent = workflow.agent as unknown as Agent;
    const { approvalId } = await workflow.pending();
    expect(codesIn(await reportOf(agent))).toEqual([]);
    const soon = await found(agent, "approval-waits-long", { later: 2 * MINUTE });
    expect(soon.severity).toBe("info");
    expect(soon.title).toMatch(
      /^1 approval of the step "refund" of APPROVAL_WORKFLOW waits since \d\d:\d\d UTC\.$/,
    );
    expect((await reportOf(agent, { later: 2 * MINUTE })).verdicts.onTime).toBe(true);
    const given = await found(agent, "approval-waits-long", { later: 2 * HOUR });
    expect(given.severity).toBe("info");
    const late = { later: 25 * HOUR };
    const finding = await found(agent, "approval-waits-long", late);
    expect(finding).toMatchObject({
      severity: "warning",
      evidence: { count: 1, ids: [approvalId] },
      link: { view: "approvals", id: approvalId },
    });
    const report = await reportOf(agent, late);
    expect(report.verdicts.onTime).toBe(false);
    expect(report.counts.approvals).toBe(1);
    await capabilitiesOf(agent).approvals.grant(approvalId);
    await gone(agent, "approval-waits-long", late);
  });

  it("approval-waits-long: one with a short time is no warning before an hour", async () => {
    const workflow = await givenWorkflow([{ name: "refund", timeout: 2 * HOUR - 10 * MINUTE }]);
    const agent = workflow.agent as unknown as Agent;
    const { approvalId } = await workflow.pending();
    const early = await found(agent, "approval-waits-long", { later: HOUR - MINUTE });
    expect(early.severity).toBe("info");
    const late = await found(agent, "approval-waits-long", { later: HOUR + MINUTE });
    expect(late.severity).toBe("warning");
    await capabilitiesOf(agent).approvals.grant(approvalId);
  });

  it("approval-expires-soon: an approval near its timeout is found once, with the time", async () => {
    const workflow = await givenWorkflow([{ name: "refund", timeout: HOURS_48 }]);
    const agent = workflow.agent as unknown as Agent;
    const { approvalId } = await workflow.pending();
    const late = { later: HOURS_48 - 30 * MINUTE };
    const finding = await found(agent, "approval-expires-soon", late);
    expect(finding.title).toMatch(/expires at \d\d:\d\d UTC\.$/);
    expect(codesIn(await reportOf(agent, late))).toEqual(["approval-expires-soon"]);
    await capabilitiesOf(agent).approvals.reject(approvalId);
    await gone(agent, "approval-expires-soon", late);
  });

  it("approval-expired: one approval that nobody decided is an information, and three of a step are a warning", async () => {
    const refunds = ["a", "b", "c"].map((key) => {
      return { name: "refund", key, timeout: 1_000, onTimeout: "reject" } as const;
    });
    const approves = { timeout: 1_000, onTimeout: "approve" } as const;
    const agrees = ["d", "e", "f"].map((key) => ({ name: "agree", key, ...approves }));
    let isFound = false;
    const workflow = await givenWorkflow([...agrees, ...refunds], {
      // What is approved by default is not a finding.
      beforeStep: (name) => (name === "after refund a" ? until(() => isFound) : undefined),
    });
    const agent = workflow.agent as unknown as Agent;
    const first = await found(agent, "approval-expired");
    expect(first).toMatchObject({ severity: "info", evidence: { count: 1 } });
    isFound = true;
    await workflow.output();
    const { findings } = await reportOf(agent);
    expect(findings).toMatchObject([
      {
        code: "approval-expired",
        severity: "warning",
        title: expect.stringMatching(
          /^3 approvals of the step "refund" of APPROVAL_WORKFLOW expired/,
        ),
      },
    ]);
    const approved = (await capabilitiesOf(agent).approvals.list({ status: "expired" })).items.at(
      -1,
    );
    expect(approved).toMatchObject({ reason: expect.stringContaining("approved by default") });
    expect(approved).not.toHaveProperty("isApproved");
    const nextDay = codesIn(await reportOf(agent, { later: 25 * HOUR }));
    expect(nextDay).not.toContain("approval-expired");
  });
});

describe("findings of workflows", () => {
  it("workflow-step-renamed: a step that asks again under a new name after a deploy is found", async () => {
    const agent = givenAgent();
    const id = `renamed-${crypto.randomUUID()}`;
    let name = "approve refund";
    workflowBodies.set(id, async (step) => {
      const ask = () => step.approval(name, { title: "Refund?", data: { order: 7 } });
      const { approved } = await ask();
      return approved;
    });
    await agent.startScripted(id);
    const first = await until(async () => (await capabilitiesOf(agent).approvals.list()).items[0]);
    // A deploy renames the step while the instance waits.
    name = "approve the refund";
    const waiting = { name: "approve refund:approval-wait", type: "waitForEvent" } as const;
    await restartFrom(env.SCRIPTED_WORKFLOW, id, waiting);
    const second = await until(async () =>
      (await capabilitiesOf(agent).approvals.list()).items.find(
        ({ approvalId }) => approvalId !== first.approvalId,
      ),
    );
    expect(second.workflow.stepName).toBe(name);
    // In this test the second comes at once, as if the workflow had asked both at the same time.
    expect(codesIn(await reportOf(agent))).toEqual([]);
    const earlier = "UPDATE perdure_jobs SET created_at = created_at - 60000 WHERE id = ?";
    await inside(agent, (_, { storage }) => void storage.sql.exec(earlier, first.approvalId));
    const finding = await found(agent, "workflow-step-renamed");
    expect(finding.title).toContain('"approve the refund"');
    expect(finding.title).toContain('"approve refund"');
    expect(finding.evidence.ids).toEqual([id]);
    await capabilitiesOf(agent).approvals.grant(second.approvalId);
    expect(await outputOf(env.SCRIPTED_WORKFLOW, id)).toBe(true);
    await gone(agent, "workflow-step-renamed");
  });

  it("workflow-failed: instances that failed are grouped by their error, and a restart fixes it", async () => {
    const agent = givenAgent();
    const id = `failing-${crypto.randomUUID()}`;
    let isBroken = true;
    workflowBodies.set(id, async () => {
      if (isBroken) throw new TypeError("no such order");
      return "done";
    });
    await agent.startScripted(id);
    const finding = await found(agent, "workflow-failed");
    expect(finding).toMatchObject({
      evidence: { count: 1, ids: [id], lastError: expect.stringContaining("no such order") },
      fix: { action: { do: "restart-workflow", workflowId: id, step: "failed" } },
    });
    expect((await reportOf(agent)).counts.workflows).toEqual({ errored: 1 });
    isBroken = false;
    await apply(agent, finding.fix.action);
    await gone(agent, "workflow-failed");
  });

  it("workflow-missing: instances whose binding the Worker no longer has are found", async () => {
    const agent = givenAgent();
    const id = `missing-${crypto.randomUUID()}`;
    workflowBodies.set(id, async (step) => (await step.approval("wait", { title: "?" })).approved);
    await agent.startScripted(id);
    const { approvalId } = await until(
      async () => (await capabilitiesOf(agent).approvals.list()).items[0],
    );
    expect(codesIn(await reportOf(agent))).toEqual([]);
    const finding = await found(agent, "workflow-missing", { env: { OTHER: {} } });
    expect(finding.title).toContain("SCRIPTED_WORKFLOW");
    expect(finding.evidence.ids).toEqual([id]);
    await capabilitiesOf(agent).approvals.grant(approvalId);
    expect(await outputOf(env.SCRIPTED_WORKFLOW, id)).toBe(true);
  });
});
