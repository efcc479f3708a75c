/** The history of a run of a workflow, as its agent puts it together. */

import { describe, expect, it } from "vitest";
import { z } from "zod";
import { ask } from "../../src/testing/index.ts";
import { historyAt, historyIn } from "../support/histories.ts";
import { givenScriptedWorkflow } from "../support/workflows/scripted-workflow.ts";

const Ticket = z.object({ title: z.string() });

describe("the history of a run", () => {
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
