/** `traceSubmission()` on DurableThink: one trace for a workflow, whatever it waits for, and over crashes. */

import { expect, it } from "vitest";
import type { Trace, TraceSpan } from "../../../src/operator/protocol.ts";
import { ask } from "../../../src/testing/index.ts";
import { crash, givenThink, message, until } from "../../support/given.ts";
import { givenScriptedWorkflow } from "../../support/workflows/scripted-workflow.ts";

const namesOf = ({ spans }: Trace, kind: TraceSpan["kind"]) =>
  spans.filter((span) => span.kind === kind).map(({ name }) => name);

it("two prompts of a workflow and the approval between them are one trace, with links over the wait", async () => {
  await using workflow = await givenScriptedWorkflow(async (step) => {
    const charge = { name: "charge", input: { account: crypto.randomUUID() } };
    await step.prompt("plan", { prompt: ask({ tool: charge, text: "a plan" }) });
    await step.approval("review");
    await step.prompt("act", { prompt: ask({ text: "done" }), thread: "isolated" });
  });
  await workflow.start();
  const [approval] = await until(async () => {
    const pending = await workflow.agent.listApprovals();
    return pending.length > 0 && pending;
  });
  if (!approval) throw new Error("No approval");
  const [running] = await workflow.agent.listSubmissions();
  const early = await workflow.agent.traceSubmission(running?.submissionId ?? "");
  const open = early?.spans.filter(({ endedAt }) => endedAt === undefined) ?? [];
  expect(open.map(({ kind }) => kind)).toEqual(["workflow", "step"]);
  await workflow.agent.grantApproval(approval.approvalId);
  await workflow.output();
  const { agent } = workflow;
  const ids = (await agent.listSubmissions()).map(({ submissionId }) => submissionId);
  const [second = "", first = ""] = ids;
  // Agents' tracking learns of the end when it is asked.
  await agent.getWorkflowStatus("SCRIPTED_WORKFLOW", workflow.id);
  const trace = (await agent.traceSubmission(second)) as Trace;
  expect(await agent.traceSubmission(first)).toEqual(trace);
  expect(namesOf(trace, "workflow")).toEqual(["perdure.workflow SCRIPTED_WORKFLOW"]);
  expect(namesOf(trace, "step")).toEqual([
    "perdure.step plan",
    "perdure.step review",
    "perdure.step act",
  ]);
  expect(namesOf(trace, "tool")).toEqual(["execute_tool charge"]);
  expect(namesOf(trace, "model")).toEqual(["chat scripted", "chat scripted", "chat scripted"]);
  const [root] = trace.spans;
  expect(root).toMatchObject({ kind: "workflow", status: "ok", endedAt: expect.any(Number) });
  const steps = trace.spans.filter(({ kind }) => kind === "step");
  const submissions = trace.spans.filter(({ kind }) => kind === "submission");
  const { traceId } = trace;
  expect(steps.map(({ parentSpanId }) => parentSpanId)).toEqual(steps.map(() => root?.spanId));
  expect(steps.map(({ links }) => links)).toEqual([
    undefined,
    [{ traceId, spanId: submissions[0]?.spanId }],
    [{ traceId, spanId: steps[1]?.spanId }],
  ]);
  expect(submissions.map(({ parentSpanId }) => parentSpanId)).toEqual([
    steps[0]?.spanId,
    steps[2]?.spanId,
  ]);
  expect(trace.spans.every(({ status }) => status !== "error")).toBe(true);
});

it("the trace of a turn that Think's recovery continued after a crash says that times are lost", async () => {
  let agent = givenThink();
  const name = agent.name ?? "";
  const script = { tool: { name: "charge", input: { account: name } }, delayMs: 1_500 };
  const { submissionId } = await agent.submitMessages([message(script)]);
  await until(async () => {
    const trace = await agent.traceSubmission(submissionId);
    return trace?.spans.some(({ kind, endedAt }) => kind === "tool" && endedAt !== undefined);
  });
  await crash();
  agent = givenThink(name);
  await until(async () => (await agent.inspectSubmission(submissionId))?.status === "completed");
  const trace = (await agent.traceSubmission(submissionId)) as Trace;
  expect(namesOf(trace, "tool")).toEqual(["execute_tool charge"]);
  const attempts = trace.spans.filter(({ kind }) => kind === "attempt");
  expect(attempts.at(-1)).toMatchObject({ status: "ok" });
  const isMarked = attempts.some(
    ({ attributes }) =>
      attributes["perdure.attempt.partial"] === true ||
      attributes["perdure.attempt.interrupted"] === true,
  );
  expect(isMarked).toBe(true);
});

it("an unknown id has no trace", async () => {
  expect(await givenThink().traceSubmission("unknown")).toBeNull();
});
