/**
 * `step.prompt()` at each of its boundaries: restarts, other isolates, crashes of the agent, for agents and sub-agents, and
 * when the agent no longer has the submission (W1, W2).
 */

import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { ask, modelCalls, type Script } from "../../../src/testing/index.ts";
import { outputOf, pauseAndResume, restartFrom } from "../../support/engine.ts";
import { crash, givenThink, until } from "../../support/given.ts";
import { hold } from "../../support/held-model.ts";
import { cutOff } from "../../support/think-agent.ts";
import type { PromptOutcome } from "../../support/workflows/prompt-workflow.ts";
import { givenScriptedWorkflow } from "../../support/workflows/scripted-workflow.ts";

const output = z.object({ title: z.string() });

function script(rest: Script = {}): string {
  return ask({ answer: { title: "hello" }, text: crypto.randomUUID(), ...rest });
}

/** One prompt, and what is done with its answer. */
async function givenPrompt(rest?: Script, options: { isSub?: boolean } = {}) {
  const prompt = script(rest);
  let effects = 0;
  const workflow = await givenScriptedWorkflow(async (step) => {
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
    ["ask:submit", "do"],
    ["ask:wait", "waitForEvent"],
    ["use", "do"],
  ] as const)(
    "W1 from %s finds the answer, and asks the model nothing",

    async (name, type) => {
      const { prompt, workflow, effects } = await givenPrompt();
      await using _ = workflow;
      await workflow.start();
      expect(await workflow.output()).toBe("hello");
      // The event is spent by the first run: the step asks its agent when the time for it is over.
      await workflow.instance.modify((modifier) =>
        modifier.forceEventTimeout({ name: "ask:wait" }),
      );
      await restartFrom(env.SCRIPTED_WORKFLOW, workflow.id, { name, type });
      await until(() => effects() === 2);
      expect(await outputOf(env.SCRIPTED_WORKFLOW, workflow.id)).toBe("hello");
      expect(modelCalls.get(prompt)).toBe(1);
    },
  );

  it("W1: from a prompt that has failed asks the model again", async () => {
    const prompt = ask({ fail: "no model today", text: crypto.randomUUID() });
    await using workflow = await givenScriptedWorkflow((step) => step.prompt("ask", { prompt }));
    await workflow.start();
    expect((await workflow.error()).message).toContain("no model today");
    const before = modelCalls.get(prompt) ?? 0;
    await restartFrom(env.SCRIPTED_WORKFLOW, workflow.id, { name: "ask:submit" });
    await until(() => (modelCalls.get(prompt) ?? 0) > before);
  });

  it("W1: while the turn runs waits for that turn", async () => {
    const { script: held, release } = hold();
    const { prompt, workflow } = await givenPrompt(held);
    await using _ = workflow;
    await workflow.start();
    await until(() => modelCalls.get(prompt));
    await workflow.agent.restart(workflow.id);
    release();
    expect(await outputOf(env.SCRIPTED_WORKFLOW, workflow.id)).toBe("hello");
    expect(modelCalls.get(prompt)).toBe(1);
  });
});

describe("W1: another isolate of the workflow", () => {
  it("W1: while the turn runs takes its answer once", async () => {
    const { script: held, release } = hold();
    const { prompt, workflow, effects } = await givenPrompt(held);
    await using _ = workflow;
    await workflow.start();
    await until(() => modelCalls.get(prompt));
    await pauseAndResume(env.SCRIPTED_WORKFLOW, workflow.id);
    release();
    expect(await outputOf(env.SCRIPTED_WORKFLOW, workflow.id)).toBe("hello");
    expect(modelCalls.get(prompt)).toBe(1);
    expect(effects()).toBe(1);
  });
});

describe.each([
  ["an agent", false],
  ["a sub-agent", true],
])("a crash of %s", (_, isSub) => {
  it("L1 W1: in the middle of the turn: it is answered once", async () => {
    const { script: held, release } = hold();
    const { prompt, workflow, effects } = await givenPrompt(held, { isSub });
    await using _ = workflow;
    await workflow.start();
    await until(() => modelCalls.get(prompt));
    await crash();
    release();
    await until(async () => (await workflow.statuses()).includes("completed"));
    expect(await outputOf(env.SCRIPTED_WORKFLOW, workflow.id)).toBe("hello");
    expect(effects()).toBe(1);
  });

  it("W1: between two steps: the stub of the workflow is a new one", async () => {
    await using workflow = await givenScriptedWorkflow(
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
    expect(await outputOf(env.SCRIPTED_WORKFLOW, workflow.id)).toEqual(["hello", "hello"]);
  });
});

/** One prompt of a workflow that its agent has started, and whose answer is held. */
async function givenPromptOfAgent({ isCutOff = false } = {}) {
  const id = `wf-${crypto.randomUUID()}`;
  const name = `agent-of-${id}`;
  const { script: held, release } = hold();
  const prompt = script({ ...held, answer: { title: "hello", count: 3 } });
  await givenThink(name).startPrompts(id, { prompts: [{ name: "ask", prompt }] });
  if (isCutOff) cutOff.add(name);
  await until(() => modelCalls.get(prompt));
  return { id, prompt, release, agent: () => givenThink(name) };
}

describe("W2: a prompt whose submission is gone", () => {
  it("W2: a prompt fails by name within seconds after destroy(), and the model is not asked again", async () => {
    const { id, prompt, agent } = await givenPromptOfAgent();
    // The call itself is cut off by what it does.
    await Promise.resolve(agent().destroy()).catch(() => {});
    const [outcome] = await outputOf<PromptOutcome[]>(env.PROMPT_WORKFLOW, id);
    expect(outcome).toMatchObject({
      error: "ThinkPromptNotFoundError",
      message: expect.stringMatching(
        /^step\.prompt\("ask"\): The agent no longer has the submission ".+": it was deleted/,
      ),
      submissionId: expect.any(String),
    });
    expect(modelCalls.get(prompt)).toBe(1);
    expect(await agent().listSubmissions()).toEqual([]);
  });

  it("W2: a prompt fails by name within seconds if its end was deleted before the workflow read it", async () => {
    const { id, prompt, release, agent } = await givenPromptOfAgent({ isCutOff: true });
    release();
    const [{ submissionId } = { submissionId: "" }] = await agent().listSubmissions();
    await agent().waitForSubmission(submissionId);
    await agent().deleteSubmission(submissionId);
    const [outcome] = await outputOf<PromptOutcome[]>(env.PROMPT_WORKFLOW, id);
    expect(outcome).toMatchObject({ error: "ThinkPromptNotFoundError", submissionId });
    expect(modelCalls.get(prompt)).toBe(1);
  });

  it("W1: a restarted workflow asks the destroyed agent afresh", async () => {
    const { id, prompt, release, agent } = await givenPromptOfAgent();
    await Promise.resolve(agent().destroy()).catch(() => {});
    release();
    await (await env.PROMPT_WORKFLOW.get(id)).restart();
    const [outcome] = await outputOf<PromptOutcome[]>(env.PROMPT_WORKFLOW, id);
    expect(outcome).toMatchObject({ answer: { title: "hello" } });
    expect(modelCalls.get(prompt)).toBe(2);
  });
});
