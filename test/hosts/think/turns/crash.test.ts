/** A DurableThink agent crashes in the middle of a prompt, while the model thinks. Crashes at its writes: crash-prompts.test.ts. */

import {
  evictDurableObject,
  introspectWorkflowInstance,
  runInDurableObject,
} from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { ask, modelCalls, type Script } from "../../../../src/testing/index.ts";
import { crash, givenThink, message, until } from "../../../support/given.ts";
import { hold } from "../../../support/held-model.ts";
import { charges, type ThinkAgent } from "../../../support/think-agent.ts";
import type { PromptOutcome } from "../../../support/workflows/prompt-workflow.ts";

const ANSWER = { title: "hello", count: 3 };

function script(rest: Script = {}): string {
  return ask({ answer: ANSWER, delayMs: 50, text: crypto.randomUUID(), ...rest });
}

async function givenPrompt(prompt: string) {
  const id = `wf-${crypto.randomUUID()}`;
  const name = `agent-of-${id}`;
  const instance = await introspectWorkflowInstance(env.PROMPT_WORKFLOW, id);
  return {
    agent: () => givenThink(name),
    start: () => givenThink(name).startPrompts(id, { prompts: [{ name: "only", prompt }] }),
    complete: async () => {
      await instance.waitForStatus("complete");
      return (await instance.getOutput()) as PromptOutcome[];
    },
    [Symbol.asyncDispose]: () => instance.dispose(),
  };
}

/** The object dies where it stands; storage keeps what was written before. */
async function abort(stub: DurableObjectStub<ThinkAgent>): Promise<void> {
  await runInDurableObject(stub, (_, ctx) => ctx.abort("crash")).catch(() => undefined);
}

it("L1: a turn that a crash interrupts is continued by Think's recovery and answers the workflow", async () => {
  const held = hold();
  const prompt = script(held.script);
  await using workflow = await givenPrompt(prompt);
  await workflow.start();
  await until(() => modelCalls.get(prompt));
  await abort(workflow.agent());
  held.release();
  expect(await workflow.complete()).toMatchObject([{ answer: ANSWER }]);
  expect(modelCalls.get(prompt)).toBe(2);
  const [submission, ...others] = await workflow.agent().listSubmissions();
  expect(others).toEqual([]);
  expect(submission).toMatchObject({ status: "completed", attempts: 1, output: ANSWER });
  expect(await workflow.agent().texts()).toEqual([`user: ${prompt}`]);
});

it("L1: an eviction between acceptance and end loses nothing, and waitForSubmission() can be called again", async () => {
  const agent = givenThink();
  const first = await agent.submitMessages([message({ delayMs: 300, text: "first" })]);
  const second = await agent.submitMessages([message({ text: "second" })]);
  await evictDurableObject(agent);
  const ended = await agent.waitForSubmission(second.submissionId);
  expect(ended).toMatchObject({ status: "completed", attempts: 1 });
  expect(await agent.inspectSubmission(first.submissionId)).toMatchObject({
    status: "completed",
  });
});

it("L1: a crash of all objects at once loses nothing", async () => {
  const held = [1, 2, 3].map(() => hold());
  const prompts = held.map((one) => script(one.script));
  const agents = prompts.map(() => givenThink());
  const accepted = await Promise.all(
    agents.map((agent, n) => agent.submitMessages([message(prompts[n] ?? "")])),
  );
  await until(() => prompts.every((prompt) => modelCalls.get(prompt)));
  await crash();
  for (const { release } of held) release();
  for (const [n, { submissionId }] of accepted.entries()) {
    const agent = env.ThinkAgent.getByName(agents[n]?.name ?? "");
    expect(await agent.waitForSubmission(submissionId)).toMatchObject({ status: "completed" });
  }
});

it("L6: a tool that has run does not run again when a crash interrupts the turn after it", async () => {
  const account = crypto.randomUUID();
  const held = hold({ tool: { name: "charge", input: { account } } }, { passes: 1 });
  const prompt = script(held.script);
  await using workflow = await givenPrompt(prompt);
  await workflow.start();
  // The model's second call is running, with the tool's result.
  await until(() => (modelCalls.get(prompt) ?? 0) >= 2);
  expect(charges.get(account)).toBe(1);
  await abort(workflow.agent());
  held.release();
  expect(await workflow.complete()).toMatchObject([{ answer: ANSWER }]);
  expect(charges.get(account)).toBe(1);
});
