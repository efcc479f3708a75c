/** The history of a run of a workflow, as its agent puts it together. */

import { describe, expect, it } from "vitest";
import { z } from "zod";
import { Budget } from "../../../src/features/deploy/history/budget.ts";
import { platformHistory } from "../../../src/features/deploy/history/platform.ts";
import { ask } from "../../../src/testing/index.ts";
import type { ThinkWorkflowStep } from "../../../src/workflow/index.ts";
import { until } from "../../support/given.ts";
import { historyAt, historyIn } from "../../support/workflows/histories.ts";
import { givenScriptedWorkflow } from "../../support/workflows/scripted-workflow.ts";

const Ticket = z.object({ title: z.string() });

describe("the history of a run", () => {
  it.each<[string, (step: ThinkWorkflowStep) => Promise<unknown>, string]>([
    ["an approval", (step) => step.approval("apply"), "apply:approval-wait"],
    ["a prompt", (step) => step.prompt("file", { prompt: ask({ delayMs: 60_000 }) }), "file:wait"],
    [
      "a batch",
      (step) => step.promptAll("files", ["a"], { prompt: () => ask({ delayMs: 60_000 }) }),
      "wait",
    ],
  ])("has the name of its Workflow on the platform, recorded by %s", async (_, body, name) => {
    await using workflow = await givenScriptedWorkflow(body);
    await workflow.start();
    const history = await until(async () => {
      const found = await historyIn(workflow.agent, workflow.id);
      return found.platform.some((each) => each.name.endsWith(name)) && found;
    });
    expect(history.deployedAs).toBe("scripted");
  });

  it("has the steps of the platform with their outputs, and what they have asked of the agent", async () => {
    await using workflow = await givenScriptedWorkflow(async (step) => {
      await step.do("load", async () => ({ rows: [1, 2] }));
      await step.prompt("file", { prompt: ask({ answer: { title: "fire" } }), output: Ticket });
      await step.approval("apply", {
        title: "Apply?",
        data: { a: 1 },
        schema: z.object({ n: z.number() }),
      });
    });
    await workflow.start();
    const history = await historyAt(workflow.agent, workflow.id, "apply:approval-wait");
    expect(history).toMatchObject({
      workflow: "SCRIPTED_WORKFLOW",
      workflowId: workflow.id,
      version: null,
      params: { __workflowName: "SCRIPTED_WORKFLOW" },
    });
    expect(history.isCut).toBeUndefined();
    expect(history.platform[0]).toMatchObject({
      name: "load",
      count: 1,
      kind: "do",
      status: "completed",
      output: { rows: [1, 2] },
    });
    const states = history.platform.map(({ name, kind, status }) => `${name} ${kind} ${status}`);
    expect(states).toEqual([
      "load do completed",
      "file:submit do completed",
      "file:wait event completed",
      "perdure:run do completed",
      "apply:approval-submit do completed",
      "apply:approval-wait event open",
    ]);
    expect(history.asked).toMatchObject([
      {
        kind: "prompt",
        step: "file",
        request: { thread: "main", answer: { schema: { type: "object" } } },
        end: { status: "completed", output: { title: "fire" } },
      },
      { kind: "approval", step: "apply", request: { title: "Apply?", data: { a: 1 } } },
    ]);
    expect(history.asked[1]?.end).toBeUndefined();
  });

  it("is null for a run that the agent does not track", async () => {
    await using workflow = await givenScriptedWorkflow(async () => {});
    await expect(historyIn(workflow.agent, "unknown")).rejects.toThrow("does not track");
  });
});

type Told = Record<string, unknown>;

/** What is made of the events of a platform that tells these, and then nothing more. */
async function told(events: Told[], find?: () => Promise<WorkflowInstance>) {
  const budget = new Budget();
  const left = events.map((event, at) => ({
    timestamp: at,
    eventId: at,
    instanceId: "w",
    ...event,
  }));
  let isDisposed = false;
  const subscription = {
    next: async () =>
      left.length > 0 ? { done: false, value: left.shift() } : new Promise(() => {}),
    [Symbol.dispose]: () => {
      isDisposed = true;
    },
  };
  const instance = { subscribe: async () => subscription } as unknown as WorkflowInstance;
  const { steps, params, status } = await platformHistory(find ?? (async () => instance), budget);
  return { steps: [...steps.values()], params, status, isCut: budget.isCut, isDisposed };
}

const step = (name: string, output: unknown = null): Told[] => [
  { type: "step_started", stepName: `${name}-1` },
  { type: "step_completed", stepName: `${name}-1`, output },
];

describe("the events of the platform", () => {
  it("a failed step has the error of its last attempt, and a retried one has completed", async () => {
    const error = (message: string) => ({ name: "TypeError", message });
    const { steps, isCut, isDisposed } = await told([
      { type: "workflow_queued" },
      { type: "workflow_started", params: { a: 1 } },
      { type: "step_started", stepName: "a-b-12" },
      { type: "attempt_errored", stepName: "a-b-12", attempt: 1, error: error("first") },
      { type: "attempt_errored", stepName: "a-b-12", attempt: 2, error: error("second") },
      { type: "step_errored", stepName: "a-b-12" },
      { type: "sleep_started", stepName: "nap-1" },
      { type: "wait_started", stepName: "nap-1", eventType: "go" },
      { type: "wait_timed_out", stepName: "nap-1" },
      { type: "rollback_step_started", stepName: "a-b-12" },
    ]);
    expect(steps).toMatchObject([
      { name: "a-b", count: 12, kind: "do", status: "failed", error: error("second") },
      { name: "nap", count: 1, kind: "sleep", status: "open" },
      { name: "nap", count: 1, kind: "event", status: "expired" },
    ]);
    expect({ isCut, isDisposed }).toEqual({ isCut: undefined, isDisposed: true });
  });

  it("a restart begins anew, also from a step", async () => {
    const queued = { type: "workflow_queued" };
    const { steps } = await told([
      ...[queued, ...step("old"), queued, ...step("a", 1), ...step("b", 1)],
      { type: "step_started", stepName: "b-1" },
    ]);
    expect(steps.map(({ name, status }) => `${name} ${status}`)).toEqual(["a completed", "b open"]);
  });

  it("more than 1,000 steps are cut", async () => {
    const events = Array.from({ length: 1_200 }, (_, at) => step(`step ${at}`)).flat();
    const { isCut, isDisposed } = await told(events);
    expect(isCut).toContain("1,000 steps");
    expect(isDisposed).toBe(true);
  });

  it("outputs of more than 4,000,000 characters are left out, and smaller ones after them are not", async () => {
    const large = "x".repeat(1_500_000);
    const events = ["a", "b", "c"].flatMap((name) => step(name, large));
    const { steps, isCut } = await told([...events, ...step("d", 7)]);
    expect(steps.map(({ output }) => String(output).length)).toEqual([
      ...[1_500_000, 1_500_000, "undefined".length, 1],
    ]);
    expect(isCut).toContain("4 MB");
  });

  it("a platform that refuses, or has no such instance, is named", async () => {
    const refuses = async () => Promise.reject(new Error("instance.not_found"));
    expect((await told([], refuses)).isCut).toContain("instance.not_found");
  });

  it("a platform that does not answer is given up", async () => {
    expect((await told([], () => new Promise(() => {}))).isCut).toContain("TimeoutError");
  });
});
