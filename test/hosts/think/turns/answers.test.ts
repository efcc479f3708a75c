/** O4 on DurableThink, in the real engine: a `step.prompt()` whose answer is larger than an event or a step's result. */

import { introspectWorkflowInstance } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { isDeepStrictEqual } from "node:util";
import { expect, it } from "vitest";
import { PART_LENGTH } from "../../../../src/core/text.ts";
import { ask, type LongText, longText, modelCalls } from "../../../../src/testing/index.ts";
import { givenThink, until } from "../../../support/given.ts";
import { hold } from "../../../support/held-model.ts";
import { appHooks, cutOff, type ThinkAgent } from "../../../support/think-agent.ts";
import type { PromptOutcome } from "../../../support/workflows/prompt-workflow.ts";
import { holdWait } from "../../../support/workflows/watched-steps.ts";

const WHOLE = [{ isWhole: true }];
const MIB = 1_048_576;
const latin: LongText = { text: "x", times: 1.5 * MIB };
/** 5 MiB in UTF-8, of which JSON escapes a part. */
const mixed: LongText = { text: '😀€é"\\\n', times: Math.ceil((5 * MIB) / 12) };

/** A workflow under introspection with one prompt that is answered with a long title; notes the parts that are read. */
async function givenWorkflow(title: LongText, onRead = (_part: number, _agent: ThinkAgent) => {}) {
  const id = `wf-${crypto.randomUUID()}`;
  const reads: number[] = [];
  const agent = givenThink(`agent-of-${id}`);
  appHooks.set(`agent-of-${id}`, {
    onRead: (part, object) => {
      reads.push(part);
      onRead(part, object);
    },
  });
  const { script, release } = hold({ answer: { count: 3 }, long: { title }, text: id });
  const prompt = ask(script);
  const instance = await introspectWorkflowInstance(env.PROMPT_WORKFLOW, id);
  return {
    id,
    agent,
    reads,
    calls: () => modelCalls.get(prompt),
    start: async (options: { timeout?: number; isCutOff?: boolean } = {}) => {
      const { isCutOff, ...rest } = options;
      await agent.startPrompts(id, { prompts: [{ name: "large", prompt, title, ...rest }] });
      if (isCutOff) cutOff.add(agent.name ?? "");
      release();
    },
    complete: async () => {
      await instance.waitForStatus("complete");
      return (await instance.getOutput()) as PromptOutcome[];
    },
    [Symbol.asyncDispose]: () => instance.dispose(),
  };
}

/** The parts of the answer, in their order. */
function partsOf(title: LongText): number[] {
  const { length } = JSON.stringify({ count: 3, title: longText(title) });
  return Array.from({ length: Math.ceil(length / PART_LENGTH) }, (_, part) => part);
}

it.each([
  ["1.5 MiB", latin],
  ["5 MiB, of characters of all lengths", mixed],
])("O4: an answer of %s arrives whole, each part read once", async (_, title) => {
  await using workflow = await givenWorkflow(title);
  await workflow.start();
  expect(await workflow.complete()).toEqual(WHOLE);
  expect(workflow.reads).toEqual(partsOf(title));
  const [submission] = await workflow.agent.listSubmissions();
  expect(isDeepStrictEqual(submission?.output, { title: longText(title), count: 3 })).toBe(true);
  expect(workflow.calls()).toBe(1);
});

it("O4 W1: a restarted workflow gets a large answer from the ledger, without a second model call", async () => {
  await using workflow = await givenWorkflow(mixed);
  await workflow.start();
  await workflow.complete();
  workflow.reads.length = 0;
  await workflow.agent.restart(workflow.id);
  const output = await until(async () => {
    const status = await (await env.PROMPT_WORKFLOW.get(workflow.id)).status();
    return workflow.reads.length > 0 && status.status === "complete" && status.output;
  });
  expect(output).toEqual(WHOLE);
  expect(workflow.reads).toEqual(partsOf(mixed));
  expect(workflow.calls()).toBe(1);
});

it("O4 W2: after a timeout the step gets a large answer from the ledger, even if the event never arrived", async () => {
  await using workflow = await givenWorkflow(mixed);
  const { name } = workflow.agent;
  // The workflow has a stub of its own.
  const ended = async () =>
    (await givenThink(name).listSubmissions({ status: "completed" })).length;
  holdWait(workflow.id, () => until(ended));
  await workflow.start({ timeout: 500, isCutOff: true });
  expect(await workflow.complete()).toEqual(WHOLE);
  expect(workflow.reads).toEqual(partsOf(mixed));
});

it("O4: a crash between two parts repeats only the part that was being read", async () => {
  let crashes = 1;
  await using workflow = await givenWorkflow(mixed, (part, agent) => {
    if (part === 3 && crashes-- > 0) agent.die();
  });
  await workflow.start();
  expect(await workflow.complete()).toEqual(WHOLE);
  expect(workflow.reads).toEqual(partsOf(mixed).flatMap((part) => (part === 3 ? [3, 3] : [part])));
});

it("O4: an answer that is deleted before it was read is an error that says so", async () => {
  await using workflow = await givenWorkflow(latin, (part, agent) => {
    if (part === 2) void agent.deleteSubmissions();
  });
  await workflow.start();
  const [outcome] = await workflow.complete();
  expect(outcome).toMatchObject({ error: "ThinkPromptNotFoundError" });
  expect((outcome as { message: string }).message).toMatch(
    /^step\.prompt\("large"\): The answer of \d{7} bytes was deleted from the agent's ledger before all of it was read/,
  );
});
