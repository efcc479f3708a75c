/** `step.prompt()` when its agent no longer has the submission: the step fails soon, and the turn is not run again. */

import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { ask, modelCalls } from "../../../src/testing/index.ts";
import { outputOf } from "../../support/engine.ts";
import { givenThink, until } from "../../support/given.ts";
import { cutOff } from "../../support/think-agent.ts";
import type { PromptOutcome } from "../../support/workflows/prompt-workflow.ts";

const script = (delayMs: number) =>
  ask({ answer: { title: "hello", count: 3 }, delayMs, text: crypto.randomUUID() });

async function givenPrompt(delayMs: number, { isCutOff = false } = {}) {
  const id = `wf-${crypto.randomUUID()}`;
  const name = `agent-of-${id}`;
  const prompt = script(delayMs);
  await givenThink(name).startPrompts(id, { prompts: [{ name: "ask", prompt }] });
  if (isCutOff) cutOff.add(name);
  await until(() => modelCalls.get(prompt));
  return { id, prompt, agent: () => givenThink(name) };
}

describe("W2: a prompt whose submission is gone", () => {
  it("W2: fails by name within seconds after destroy(), and the model is not asked again", async () => {
    const { id, prompt, agent } = await givenPrompt(120_000);
    // The call itself is cut off by what it does.
    await Promise.resolve(agent().destroy()).catch(() => {});
    const [outcome] = await outputOf<PromptOutcome[]>(env.PROMPT_WORKFLOW, id, 25_000);
    expect(outcome).toMatchObject({
      error: "ThinkPromptNotFoundError",
      message: expect.stringMatching(
        /^step\.prompt\("ask"\): The agent no longer has the submission ".+": it was deleted/,
      ),
      submissionId: expect.any(String),
    });
    expect(modelCalls.get(prompt)).toBe(1);
    expect(await agent().listSubmissions()).toEqual([]);
  }, 40_000);

  it("W2: fails by name within seconds when its end was deleted before the workflow heard of it", async () => {
    const { id, prompt, agent } = await givenPrompt(1_000, { isCutOff: true });
    const [{ submissionId } = { submissionId: "" }] = await agent().listSubmissions();
    await agent().waitForSubmission(submissionId);
    await agent().deleteSubmission(submissionId);
    const [outcome] = await outputOf<PromptOutcome[]>(env.PROMPT_WORKFLOW, id, 25_000);
    expect(outcome).toMatchObject({ error: "ThinkPromptNotFoundError", submissionId });
    expect(modelCalls.get(prompt)).toBe(1);
  }, 40_000);

  it("W1: a restarted workflow asks the destroyed agent afresh", async () => {
    const { id, prompt, agent } = await givenPrompt(3_000);
    await Promise.resolve(agent().destroy()).catch(() => {});
    await (await env.PROMPT_WORKFLOW.get(id)).restart();
    const [outcome] = await outputOf<PromptOutcome[]>(env.PROMPT_WORKFLOW, id, 25_000);
    expect(outcome).toMatchObject({ answer: { title: "hello" } });
    expect(modelCalls.get(prompt)).toBe(2);
  }, 40_000);
});
