/** Names, keys and other texts of steps: what storage and the platform can hold works, and the rest is refused at the call. */

import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { runCode } from "../../../src/features/codemode/index.ts";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { sleepUntilNext } from "../../../src/scheduler/index.ts";
import { ask } from "../../../src/testing/index.ts";
import type { ThinkWorkflowStep } from "../../../src/workflow/index.ts";
import { outputOf } from "../../support/engine.ts";
import { refusal, until } from "../../support/given.ts";
import {
  givenScriptedWorkflow,
  type WorkflowBody,
} from "../../support/workflows/scripted-workflow.ts";

const say = (text: string) => ask({ text: `${text} ${crypto.randomUUID()}` });
const HALF = "issue-👩".slice(0, 7);

async function outcomeOf(body: WorkflowBody): Promise<unknown> {
  const workflow = await givenScriptedWorkflow(body);
  await workflow.start();
  return outputOf(env.SCRIPTED_WORKFLOW, workflow.id);
}

it("W2: runCode() on an agent without codemode() fails at once, with the line to add", async () => {
  const error = await refusal(
    outcomeOf((step) => runCode(step, "book", { code: "async () => 1" })),
  );
  expect(error.message).toMatch(/FeatureNotInstalledError.*runCode\(\) needs codemode\(\)/s);
});

it("W1: runCode() with a step that is not Perdure's says which one it takes", async () => {
  const refused = runCode({} as never, "book", { code: "async () => 1" });
  await expect(refused).rejects.toThrow("Pass on the step that run() of a ThinkWorkflow receives");
});

describe("W1: step names with control characters", () => {
  it.each(["a\u0000b", "line\nbreak\ttab", "\u001f", "c1\u0085\u009f\u007f"])(
    "W1: the name and the key %j work, and are told apart from the same ones without",
    async (name) => {
      const plain = `${name.replace(/\p{Cc}/gu, "")}plain`;
      const workflow = await givenScriptedWorkflow(async (step) => {
        const said = [];
        for (const key of [undefined, name, "key"]) {
          const options = key === undefined ? {} : { key };
          said.push(await step.prompt(name, { prompt: say(`one ${key}`), ...options }));
        }
        said.push(await step.prompt(plain, { prompt: say("other") }));
        const all = await step.promptAll(name, [name], {
          prompt: () => say("all"),
          key: () => name,
        });
        await sleepUntilNext(step, name, "once at 2020-01-01T09:00 in UTC", { key: name });
        const { approved } = await step.approval(name, { title: name, data: { [name]: name } });
        return [...said, ...all, approved];
      });
      await workflow.start();
      const {
        items: [approval],
      } = await until(async () => {
        const found = await capabilitiesOf(workflow.agent).approvals.list();
        return found.items.length > 0 && found;
      });
      expect(approval).toMatchObject({ title: name, data: { [name]: name } });
      expect(approval?.workflow.stepName).toBe(name);
      await capabilitiesOf(workflow.agent).approvals.grant(approval?.approvalId ?? "", {
        by: name,
        reason: name,
      });
      const output = (await outputOf(env.SCRIPTED_WORKFLOW, workflow.id)) as string[];
      expect(new Set(output).size).toBe(6);
    },
  );
});

describe("L1: half of a surrogate pair is refused at the call, and nothing is stored", () => {
  it.each<[string, (step: ThinkWorkflowStep) => Promise<unknown>]>([
    ["a name", (step) => step.prompt(HALF, { prompt: "hi" })],
    ["the name of an approval", (step) => step.approval(HALF)],
    ["the key of a prompt", (step) => step.prompt("s", { prompt: "hi", key: HALF })],
    ["a thread", (step) => step.prompt("s", { prompt: "hi", thread: HALF })],
    [
      "the name of an agent",
      (step) => step.prompt("s", { prompt: "hi", agent: { binding: "ThinkAgent", name: HALF } }),
    ],
    [
      "the key of an item",
      (step) => step.promptAll("s", [1], { prompt: () => "hi", key: () => HALF }),
    ],
    ["the key of an approval", (step) => step.approval("s", { key: HALF })],
    ["the name of a sleep", (step) => sleepUntilNext(step, HALF, "every hour")],
    ["a title", (step) => step.approval("s", { title: HALF })],
    ["the key of an agent tool", (step) => step.agentTool("s", "Child", { input: 1, key: HALF })],
    ["a child", (step) => step.agentTool("s", HALF, { input: 1 })],
    ["code", (step) => runCode(step, "s", { code: `async () => "${HALF}"` })],
    ["the key of code", (step) => runCode(step, "s", { code: "async () => 1", key: HALF })],
    [
      "the key of a sleep",
      (step) => sleepUntilNext(step, "s", "every day at 09:00 in Europe/Paris", { key: HALF }),
    ],
  ])("L1: %s", async (_, call) => {
    const error = await refusal(outcomeOf((step) => call(step)));
    expect(error.message).toMatch(/^errored: Error: Invalid\w+Error: /);
    expect(error.message).toContain("issue-\\ud83d");
    expect(error.message).toMatch(/half of (a character|one)/);
    expect(error.message).toContain("toWellFormed()");
  });
});
