/** `step.prompt()` at each of its boundaries: restarts, other isolates, crashes of the agent, for agents and sub-agents (W1, W2). */

import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { ask, modelCalls } from "../../../src/testing/index.ts";
import { outputOf, pauseAndResume, restartFrom } from "../../support/engine.ts";
import { crash, until } from "../../support/given.ts";
import { givenPlot } from "../../support/workflows/plot-workflow.ts";

const output = z.object({ title: z.string() });

function script(delayMs = 50): string {
  return ask({ answer: { title: "hello" }, delayMs, text: crypto.randomUUID() });
}

/** One prompt, and what is done with its answer. */
async function givenPrompt(delayMs?: number, options: { isSub?: boolean } = {}) {
  const prompt = script(delayMs);
  let effects = 0;
  const workflow = await givenPlot(async (step) => {
    const { title } = await step.prompt("ask", { prompt, output });
    await step.do("use", async () => {
      effects++;
    });
    return title;
  }, options);
  return { prompt, workflow, effects: () => effects };
}

describe("W1: a restart at a step boundary", () => {
  it.each([
    ["perdure:run", "do"],
    ["ask:submit", "do"],
    ["ask:wait", "waitForEvent"],
    ["use", "do"],
  ] as const)(
    "W1 from %s finds the answer, and asks the model nothing",
    { timeout: 60_000 },
    async (name, type) => {
      const { prompt, workflow, effects } = await givenPrompt();
      await using _ = workflow;
      await workflow.start();
      expect(await workflow.output()).toBe("hello");
      await restartFrom(env.PLOT_WORKFLOW, workflow.id, { name, type });
      await until(() => effects() === 2, 40_000);
      expect(await outputOf(env.PLOT_WORKFLOW, workflow.id)).toBe("hello");
      expect(modelCalls.get(prompt)).toBe(1);
    },
  );

  it("W1: while the turn runs waits for that turn", async () => {
    const { prompt, workflow } = await givenPrompt(1_000);
    await using _ = workflow;
    await workflow.start();
    await until(() => modelCalls.get(prompt));
    await workflow.agent.restart(workflow.id);
    expect(await outputOf(env.PLOT_WORKFLOW, workflow.id)).toBe("hello");
    expect(modelCalls.get(prompt)).toBe(1);
  });
});

describe("W1: another isolate of the workflow", () => {
  it("W1: while the turn runs takes its answer once", async () => {
    const { prompt, workflow, effects } = await givenPrompt(1_000);
    await using _ = workflow;
    await workflow.start();
    await until(() => modelCalls.get(prompt));
    await pauseAndResume(env.PLOT_WORKFLOW, workflow.id);
    expect(await outputOf(env.PLOT_WORKFLOW, workflow.id)).toBe("hello");
    expect(modelCalls.get(prompt)).toBe(1);
    expect(effects()).toBe(1);
  });
});

describe.each([
  ["an agent", false],
  ["a sub-agent", true],
])("a crash of %s", (_, isSub) => {
  it("L1 W1: in the middle of the turn: it is answered once", async () => {
    const { prompt, workflow, effects } = await givenPrompt(1_500, { isSub });
    await using _ = workflow;
    await workflow.start();
    await until(() => modelCalls.get(prompt));
    await crash();
    await until(async () => (await workflow.statuses()).includes("completed"), 60_000);
    expect(await outputOf(env.PLOT_WORKFLOW, workflow.id)).toBe("hello");
    expect(effects()).toBe(1);
  }, 70_000);

  it("W1: between two steps: the stub of the workflow is a new one", async () => {
    await using workflow = await givenPlot(
      async (step) => {
        const first = await step.prompt("one", { prompt: script(), output });
        await step.do("crash", async () => {
          await crash();
        });
        const second = await step.prompt("two", { prompt: script(), output });
        return [first.title, second.title];
      },
      { isSub },
    );
    await workflow.start();
    expect(await outputOf(env.PLOT_WORKFLOW, workflow.id)).toEqual(["hello", "hello"]);
  });
});
