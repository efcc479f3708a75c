/** `traceSubmission()` on DurableThink: one trace for a workflow, whatever it waits for, and over crashes. */

import { expect, it } from "vitest";
import { z } from "zod";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import type { Trace, TraceSpan } from "../../../src/operator/protocol.ts";
import { ask } from "../../../src/testing/index.ts";
import { crash, givenThink, message, until } from "../../support/given.ts";
import { hold } from "../../support/held-model.ts";
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
  const {
    items: [approval],
  } = await until(async () => {
    const pending = await capabilitiesOf(workflow.agent).approvals.list();
    return pending.items.length > 0 && pending;
  });
  if (!approval) throw new Error("No approval");
  const [running] = await workflow.agent.listSubmissions();
  const early = await capabilitiesOf(workflow.agent).operations.traceSubmission(
    running?.submissionId ?? "",
  );
  const open = early?.spans.filter(({ endedAt }) => endedAt === undefined) ?? [];
  expect(open.map(({ kind }) => kind)).toEqual(["workflow", "step"]);
  await capabilitiesOf(workflow.agent).approvals.grant(approval.approvalId);
  await workflow.output();
  const { agent } = workflow;
  const ids = (await agent.listSubmissions()).map(({ submissionId }) => submissionId);
  const [second = "", first = ""] = ids;
  const trace = (await capabilitiesOf(agent).operations.traceSubmission(second)) as Trace;
  expect(await capabilitiesOf(agent).operations.traceSubmission(first)).toEqual(trace);
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

it("a trace has the model of a call that fails, how often an answer was repaired, and who approved", async () => {
  await using workflow = await givenScriptedWorkflow(async (step) => {
    const id = crypto.randomUUID();
    const output = z.object({ n: z.number() });
    await step.prompt("fail", { prompt: ask({ fail: `no ${id}` }) }).catch(() => {});
    await step.prompt("check", {
      prompt: ask({ text: id, answers: [{ n: "one" }, { n: 1 }] }),
      output,
      repair: 2,
    });
    await step.prompt("refine", {
      prompt: ask({ text: `again ${id}`, answers: [{ n: 1 }, { n: 2 }] }),
      output: output.refine(({ n }) => n > 1, { error: "too small" }),
      repair: 2,
    });
    await step.approval("review");
  });
  await workflow.start();
  const { agent } = workflow;
  const {
    items: [approval],
  } = await until(async () => {
    const pending = await capabilitiesOf(agent).approvals.list();
    return pending.items.length > 0 && pending;
  });
  await capabilitiesOf(agent).approvals.grant(approval?.approvalId ?? "", { by: "ada" });
  await workflow.output();
  const [last] = await agent.listSubmissions();
  const { spans } = (await capabilitiesOf(agent).operations.traceSubmission(
    last?.submissionId ?? "",
  )) as Trace;
  const failed = spans.find(({ kind, status }) => kind === "model" && status === "error");
  expect(failed?.attributes).toMatchObject({
    "gen_ai.request.model": "scripted",
    "error.type": expect.stringMatching(/./),
  });
  const stepOf = (name: string) => spans.find((span) => span.name === `perdure.step ${name}`);
  expect(stepOf("refine")?.attributes["perdure.step.repairs"]).toBe(1);
  const repaired = spans.filter(
    ({ attributes }) => attributes["perdure.submission.repairs"] !== undefined,
  );
  expect(repaired).toMatchObject([{ attributes: { "perdure.submission.repairs": 1 } }]);
  expect(repaired[0]?.parentSpanId).toBe(stepOf("check")?.spanId);
  expect(stepOf("review")?.attributes).toMatchObject({
    "perdure.approval.status": "approved",
    "perdure.approval.by": "ada",
  });
});

it("the trace of a turn that Think's recovery continued after a crash says that times are lost", async () => {
  let agent = givenThink();
  const name = agent.name ?? "";
  const tool = { name: "charge", input: { account: name } };
  const { script, release } = hold({ tool }, { passes: 1 });
  const { submissionId } = await agent.submitMessages([message(script)]);
  await until(async () => {
    const trace = await capabilitiesOf(agent).operations.traceSubmission(submissionId);
    return trace?.spans.some(({ kind, endedAt }) => kind === "tool" && endedAt !== undefined);
  });
  await crash();
  release();
  agent = givenThink(name);
  await until(async () => (await agent.inspectSubmission(submissionId))?.status === "completed");
  const trace = (await capabilitiesOf(agent).operations.traceSubmission(submissionId)) as Trace;
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
  expect(await capabilitiesOf(givenThink()).operations.traceSubmission("unknown")).toBeNull();
});
