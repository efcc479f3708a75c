/** `step.prompt()` on DurableThink, in the real engine: W1 to W4, and what the agent keeps of a prompt. */

import { introspectWorkflowInstance } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { ask, modelCalls, type Script } from "../../../src/testing/index.ts";
import { givenThink, message, refusal, until } from "../../support/given.ts";
import { hold } from "../../support/held-model.ts";
import type { Agent } from "../../support/think.ts";
import { type AppHooks, appHooks, charges, cutOff } from "../../support/think-agent.ts";
import type { PromptOutcome, PromptParams } from "../../support/workflows/prompt-workflow.ts";
import { holdWait, stepsOf } from "../../support/workflows/watched-steps.ts";

const ANSWER = { title: "hello", count: 3 };

/** Every script is another text, so that its model calls are its own. */
function script(rest: Script = {}): string {
  return ask({ answer: ANSWER, delayMs: 50, text: crypto.randomUUID(), ...rest });
}

/** An agent with a workflow under introspection that runs `prompts`. */
async function givenWorkflow(prompts: PromptParams["prompts"], hooks?: AppHooks) {
  const id = `wf-${crypto.randomUUID()}`;
  const name = `agent-of-${id}`;
  if (hooks) appHooks.set(name, hooks);
  const agent = givenThink(name);
  const instance = await introspectWorkflowInstance(env.PROMPT_WORKFLOW, id);
  return {
    id,
    agent,
    instance,
    start: () => agent.startPrompts(id, { prompts }),
    complete: async () => {
      await instance.waitForStatus("complete");
      return (await instance.getOutput()) as PromptOutcome[];
    },
    [Symbol.asyncDispose]: () => instance.dispose(),
  };
}

/** Its only event was sent to a workflow that has ended: the platform has dropped it, and nothing is left. */
async function dropped(agent: Agent, submissionId = "") {
  await agent.waitForSubmission(submissionId);
  const { outbox } = capabilitiesOf(agent);
  await until(async () => (await outbox.stats()).waiting === 0);
  expect(await outbox.stats()).toEqual({ waiting: 0, deadLetters: 0 });
  expect((await outbox.listDeliveries({ submissionId })).items).toEqual([]);
}

describe("L4: a prompt in a thread", () => {
  it("is answered while the conversation is busy, and leaves no trace where it is isolated", async () => {
    const prompts = ["isolated", "side"].map((thread) => ({
      name: thread,
      thread,
      prompt: script(),
    }));
    await using workflow = await givenWorkflow(prompts);
    await workflow.agent.submitMessages([message({ delayMs: 600_000 })], { submissionId: "busy" });
    await workflow.start();
    expect(await workflow.complete()).toMatchObject([{ answer: ANSWER }, { answer: ANSWER }]);
    expect(await workflow.agent.inspectSubmission("busy")).toMatchObject({ status: "running" });
    expect(await workflow.agent.texts()).toHaveLength(1);
    expect(await workflow.agent.threadMessages("side")).toHaveLength(1);
    await workflow.agent.cancelSubmission("busy");
  });
});

describe("W1: a prompt is idempotent", () => {
  it("W1: answers, and the model is called once", async () => {
    const prompt = script();
    await using workflow = await givenWorkflow([{ name: "first", prompt }]);
    await workflow.start();
    expect(await workflow.complete()).toMatchObject([{ answer: ANSWER }]);
    expect(modelCalls.get(prompt)).toBe(1);
  });

  it("W1: restartWorkflow() of a finished workflow completes at once, without a second model call", async () => {
    const prompt = script();
    await using workflow = await givenWorkflow([{ name: "first", prompt }]);
    await workflow.start();
    await workflow.complete();
    const startedAt = Date.now();
    const firstRun = stepsOf.get(workflow.id);
    await workflow.agent.restart(workflow.id);
    const answers = await until(async () => {
      const status = await (await env.PROMPT_WORKFLOW.get(workflow.id)).status();
      const isAgain = stepsOf.get(workflow.id) !== firstRun;
      return isAgain && status.status === "complete" && (status.output as PromptOutcome[]);
    });
    expect(answers).toMatchObject([{ answer: ANSWER }]);
    expect((answers[0] as { at: number }).at).toBeGreaterThanOrEqual(startedAt);
    expect(stepsOf.get(workflow.id)).not.toContain("first:wait");
    expect(modelCalls.get(prompt)).toBe(1);
  });

  it("W1: a failed prompt is tried afresh after a restart", async () => {
    const prompt = script({ fail: "no model today" });
    await using workflow = await givenWorkflow([{ name: "same", prompt }]);
    await workflow.start();
    const message = 'step.prompt("same"): no model today';
    expect(await workflow.complete()).toMatchObject([{ error: "ThinkPromptError", message }]);
    const callsBefore = modelCalls.get(prompt) ?? 0;
    await workflow.agent.restart(workflow.id);
    await until(() => (modelCalls.get(prompt) ?? 0) > callsBefore);
  });

  it("W1: keys tell repeated uses of one name apart", async () => {
    const prompts = ["a", "b"].map((key) => ({
      name: "loop",
      key,
      prompt: script({ answer: { title: key, count: 1 } }),
    }));
    await using workflow = await givenWorkflow(prompts);
    await workflow.start();
    expect(await workflow.complete()).toMatchObject([
      { answer: { title: "a" } },
      { answer: { title: "b" } },
    ]);
  });
});

describe("W2: no wait hangs", () => {
  it("W2: a timeout cancels the turn and says so", async () => {
    const prompt = script({ delayMs: 60_000 });
    await using workflow = await givenWorkflow([{ name: "slow", prompt, timeout: 1_000 }]);
    await workflow.start();
    const [outcome] = await workflow.complete();
    expect(outcome).toMatchObject({ error: "ThinkPromptTimeoutError" });
    const { submissionId } = outcome as { submissionId: string };
    expect(await workflow.agent.inspectSubmission(submissionId)).toMatchObject({
      status: "aborted",
      error: "Workflow prompt wait timed out",
    });
  });

  it("W2: cancelOnTimeout: false lets the turn go on", async () => {
    const { script: held, release } = hold();
    const prompt = script(held);
    await using workflow = await givenWorkflow([
      { name: "slow", prompt, timeout: 1_000, cancelOnTimeout: false },
    ]);
    await workflow.start();
    const [outcome] = await workflow.complete();
    const { submissionId } = outcome as { submissionId: string };
    release();
    const submission = await workflow.agent.waitForSubmission(submissionId);
    expect(submission).toMatchObject({ status: "completed", output: ANSWER });
  });

  it("W2: a result whose event never came wins over the timeout", async () => {
    const { script: held, release } = hold();
    const prompt = script(held);
    await using workflow = await givenWorkflow([{ name: "lost", prompt, timeout: 500 }]);
    const { name } = workflow.agent;
    // The workflow has a stub of its own.
    const ended = async () =>
      (await givenThink(name).listSubmissions({ status: "completed" })).length;
    holdWait(workflow.id, () => until(ended));
    await workflow.start();
    cutOff.add(workflow.agent.name ?? "");
    release();
    expect(await workflow.complete()).toMatchObject([{ answer: ANSWER }]);
    expect(stepsOf.get(workflow.id)).toContain("lost:close");
  });
});

it("W3: no event can answer another wait: each wait has an event type of its own", async () => {
  const held = hold();
  const [first, second] = [
    script(),
    script({ ...held.script, answer: { title: "second", count: 2 } }),
  ];
  await using workflow = await givenWorkflow([
    { name: "wait", prompt: first },
    { name: "wait", key: "other", prompt: second },
  ]);
  await workflow.start();
  await until(() => modelCalls.get(second));
  const [, answered] = await workflow.agent.listSubmissions();
  // The first wait's event once more, as an at-least-once delivery may bring it.
  await (await env.PROMPT_WORKFLOW.get(workflow.id)).sendEvent({
    type: `perdure-prompt-${answered?.submissionId}`,
    payload: {
      id: `${answered?.submissionId}:0`,
      attempt: 2,
      event: {
        type: "submission.completed",
        timestamp: new Date().toISOString(),
        data: { submissionId: answered?.submissionId, status: "completed", output: ANSWER },
      },
    },
  });
  held.release();
  expect(await workflow.complete()).toMatchObject([
    { answer: ANSWER },
    { answer: { title: "second", count: 2 } },
  ]);
});

describe("W4: both sides validate", () => {
  it("W4: an answer that does not match is an error of the submission and of the step", async () => {
    const prompt = script({ answer: { title: 7 } });
    await using workflow = await givenWorkflow([{ name: "wrong", prompt }]);
    await workflow.start();
    const [outcome] = await workflow.complete();
    expect(outcome).toMatchObject({ error: "ThinkPromptValidationError" });
    expect((outcome as { message: string }).message).toContain("title");
    const { submissionId } = outcome as { submissionId: string };
    expect(await workflow.agent.inspectSubmission(submissionId)).toMatchObject({
      status: "error",
      errorName: "InvalidAnswerError",
    });
  });

  it("W4: a model that does without the tool answers all the same", async () => {
    await using workflow = await givenWorkflow([
      { name: "talks", prompt: script({ ignoreTools: true }) },
    ]);
    await workflow.start();
    expect(await workflow.complete()).toMatchObject([{ answer: ANSWER }]);
    const [submission] = await workflow.agent.listSubmissions();
    expect(submission).toMatchObject({ status: "completed", attempts: 2 });
  });

  it("W4: a model that ends without an answer is an error that says so", async () => {
    const prompt = script({ ignoreTools: true, answer: undefined });
    await using workflow = await givenWorkflow([{ name: "silent", prompt }]);
    await workflow.start();
    const [outcome] = await workflow.complete();
    expect(outcome).toMatchObject({ error: "ThinkPromptValidationError" });
    expect((outcome as { message: string }).message).toContain("JSON");
  });
});

describe("what the agent keeps", () => {
  it("L7: the conversation keeps the prompt and not the final-answer call; the ledger keeps the answer", async () => {
    const prompt = script();
    await using workflow = await givenWorkflow([{ name: "first", prompt }]);
    await workflow.start();
    await workflow.complete();
    expect(await workflow.agent.texts()).toEqual([`user: ${prompt}`]);
    const [submission] = await workflow.agent.listSubmissions();
    expect(submission).toMatchObject({
      status: "completed",
      output: ANSWER,
      usage: { inputTokens: 10, outputTokens: 5, totalTokens: 15 },
    });
  });

  it("the app's beforeTurn runs, and cannot switch the final answer off", async () => {
    const seen: string[] = [];
    const prompt = script();
    await using workflow = await givenWorkflow([{ name: "first", prompt }], {
      beforeTurn: (ctx) => {
        seen.push(ctx.system);
        return { toolChoice: "none", activeTools: [], maxSteps: 1, system: "Be brief." };
      },
    });
    await workflow.start();
    expect(await workflow.complete()).toMatchObject([{ answer: ANSWER }]);
    expect(seen).toHaveLength(1);
  });
});

it("W5: terminating a workflow cancels the turns that it waits for, and no others", async () => {
  const prompt = script({ delayMs: 600_000 });
  await using workflow = await givenWorkflow([{ name: "first", prompt }]);
  await workflow.start();
  await until(() => modelCalls.get(prompt));
  const other = await workflow.agent.submitMessages([message({ text: "of nobody's workflow" })]);
  await workflow.agent.terminate(workflow.id);
  const submissions = await workflow.agent.listSubmissions({ status: "aborted" });
  expect(submissions).toMatchObject([
    { error: "The workflow that waited for it was terminated", attempts: 1 },
  ]);
  expect(await workflow.agent.waitForSubmission(other.submissionId)).toMatchObject({
    status: "completed",
  });
  await dropped(workflow.agent, submissions[0]?.submissionId);
});

it("W1: O3: an answer whose workflow was terminated elsewhere is dropped, and answers its next run", async () => {
  const { script: held, release } = hold();
  const prompt = script(held);
  await using workflow = await givenWorkflow([{ name: "first", prompt }]);
  await workflow.start();
  await until(() => modelCalls.get(prompt));
  const instance = await env.PROMPT_WORKFLOW.get(workflow.id);
  await instance.terminate();
  release();
  const [submission] = await workflow.agent.listSubmissions();
  await dropped(workflow.agent, submission?.submissionId);
  await instance.restart();
  expect(await workflow.complete()).toMatchObject([{ answer: ANSWER }]);
  expect(modelCalls.get(prompt)).toBe(1);
});

it("W2: O3: an answer that comes after its step timed out and its workflow completed is dropped", async () => {
  const { script: held, release } = hold();
  const prompt = script(held);
  const prompts = [{ name: "first", prompt, timeout: 500, cancelOnTimeout: false }];
  await using workflow = await givenWorkflow(prompts);
  await workflow.start();
  expect(await workflow.complete()).toMatchObject([{ error: "ThinkPromptTimeoutError" }]);
  release();
  const [submission] = await workflow.agent.listSubmissions();
  await dropped(workflow.agent, submission?.submissionId);
});

it("W5: terminating a workflow that was terminated elsewhere cancels what it waited for", async () => {
  const prompt = script({ delayMs: 600_000 });
  await using workflow = await givenWorkflow([{ name: "first", prompt }]);
  await workflow.start();
  await until(() => modelCalls.get(prompt));
  await (await env.PROMPT_WORKFLOW.get(workflow.id)).terminate();
  await refusal(workflow.agent.terminate(workflow.id));
  expect(await workflow.agent.listSubmissions()).toMatchObject([
    { status: "aborted", error: "The workflow that waited for it was terminated" },
  ]);
});

it("a prompt's turn may use the agent's tools before it answers", async () => {
  const account = crypto.randomUUID();
  const prompt = script({ tool: { name: "charge", input: { account } } });
  await using workflow = await givenWorkflow([{ name: "first", prompt }]);
  await workflow.start();
  expect(await workflow.complete()).toMatchObject([{ answer: ANSWER }]);
  expect(charges.get(account)).toBe(1);
  expect(modelCalls.get(prompt)).toBe(2);
  const [submission] = await workflow.agent.listSubmissions();
  expect(submission?.usage).toMatchObject({ totalTokens: 30 });
  const [asked, ...replies] = await workflow.agent.texts();
  expect(asked).toBe(`user: ${prompt}`);
  expect(replies.join()).toContain("[tool-charge]");
  expect(replies.join()).not.toContain("final_answer");
});

it("O2: a workflow resumes while ten turns are queued behind its own", async () => {
  const { script: held, release } = hold();
  const prompt = script(held);
  await using workflow = await givenWorkflow([{ name: "first", prompt }]);
  await workflow.start();
  await until(() => modelCalls.get(prompt));
  for (let n = 0; n < 10; n++) {
    await workflow.agent.submitMessages([message({ delayMs: 600_000, text: `queued ${n}` })]);
  }
  release();
  expect(await workflow.complete()).toMatchObject([{ answer: ANSWER }]);
  // None of them has ended.
  const statuses = (await workflow.agent.listSubmissions()).map(({ status }) => status);
  expect(statuses.filter((status) => status === "completed")).toHaveLength(1);
  expect(statuses.filter((status) => status === "pending").length).toBeGreaterThanOrEqual(9);
  await workflow.agent.resetTurns();
});

describe("bad input is refused at the call, and nothing is stored", () => {
  it("refuses empty messages", async () => {
    const agent = givenThink();
    const error = await refusal(agent.submitMessages([]));
    expect(error.message).toContain("requires at least one message");
    expect(await agent.listSubmissions()).toEqual([]);
  });

  it("refuses an id and a key of two submissions", async () => {
    const agent = givenThink();
    await agent.submitMessages([message("a")], { submissionId: "a", idempotencyKey: "key-a" });
    await agent.submitMessages([message("b")], { submissionId: "b", idempotencyKey: "key-b" });
    const both = { submissionId: "a", idempotencyKey: "key-b" };
    const error = await refusal(agent.submitMessages([message("c")], both));
    expect(error.message).toContain("refer to different submissions");
    expect(await agent.listSubmissions()).toHaveLength(2);
  });

  it("refuses a schema that has no JSON Schema form, without a retry", async () => {
    const prompts = [{ name: "when", prompt: script(), schema: "date" as const }];
    await using workflow = await givenWorkflow(prompts);
    await workflow.start();
    await workflow.instance.waitForStatus("errored");
    const { message: text } = await workflow.instance.getError();
    expect(text).toContain('step.prompt("when"): Invalid output: it has no JSON Schema form');
    expect(await workflow.agent.listSubmissions()).toEqual([]);
  });

  it.each([
    [
      "timeout",
      { timeout: "3 dayz" as unknown as number },
      'Invalid timeout "3 dayz": expected a positive number',
    ],
    ["timeout", { timeout: 0 }, "Invalid timeout 0"],
    ["thread", { thread: "" }, 'Invalid thread ""'],
    ["prompt", { prompt: " " }, 'Invalid prompt " "'],
  ])("refuses a bad %s at once, before anything is stored: %j", async (_, options, text) => {
    await using workflow = await givenWorkflow([{ name: "bad", prompt: script(), ...options }]);
    await workflow.start();
    await workflow.instance.waitForStatus("errored");
    expect((await workflow.instance.getError()).message).toContain(text);
    expect(await workflow.agent.listSubmissions()).toEqual([]);
  });

  it("refuses a workflow that was created without an agent", async () => {
    const id = `wf-${crypto.randomUUID()}`;
    await using instance = await introspectWorkflowInstance(env.PROMPT_WORKFLOW, id);
    await env.PROMPT_WORKFLOW.create({ id, params: { prompts: [] } });
    await instance.waitForStatus("errored");
    expect((await instance.getError()).message).toContain("runWorkflow()");
  });
});

it("L1: a sub-agent has a ledger of its own", async () => {
  const agent = givenThink();
  const ended = await agent.delegate(ask({ text: "from the child" }));
  expect(ended).toMatchObject({ status: "completed", attempts: 1 });
  expect(ended?.messageId).toBeDefined();
  expect(await agent.listSubmissions()).toEqual([]);
});

it("resetTurnState() skips what waits for its turn, and the workflow is told", async () => {
  const agent = givenThink();
  await agent.submitMessages([message({ delayMs: 600_000, text: "running" })]);
  const waiting = await agent.submitMessages([message("waiting")]);
  await agent.resetTurns();
  expect(await agent.waitForSubmission(waiting.submissionId)).toMatchObject({
    status: "skipped",
    error: "Submission was skipped by turn reset.",
  });
  expect((await agent.texts()).join()).not.toContain("waiting");
});

it("L5: cancel of a running turn aborts it, and the model's late answer changes nothing", async () => {
  const agent = givenThink();
  const text = ask({ delayMs: 600_000, text: "late" });
  const { submissionId } = await agent.submitMessages([message(text)]);
  await until(() => modelCalls.get(text));
  const cancelled = await agent.cancelSubmission(submissionId, "not needed");
  expect(cancelled).toMatchObject({
    outcome: "cancelled",
    previousStatus: "running",
    messagesApplied: true,
  });
  const next = await agent.submitMessages([message({ text: "next" })]);
  expect(await agent.waitForSubmission(next.submissionId)).toMatchObject({ status: "completed" });
  expect(await agent.inspectSubmission(submissionId)).toMatchObject({
    status: "aborted",
    error: "not needed",
  });
});

it("L7: a turn that writes a message reports its id", async () => {
  const agent = givenThink();
  const { submissionId } = await agent.submitMessages([message({ text: "hello back" })]);
  const ended = await agent.waitForSubmission(submissionId);
  expect(await agent.lastMessage()).toEqual({ id: ended?.messageId, role: "assistant" });
});

it('L1 runTurn({ mode: "submit" }) is accepted by the same ledger', async () => {
  const agent = givenThink();
  const { submissionId } = await agent.submitTurn(ask({ text: "by runTurn" }));
  expect(await agent.waitForSubmission(submissionId)).toMatchObject({ status: "completed" });
  expect(await agent.listSubmissions()).toHaveLength(1);
});

it("refuses a wait from inside a turn or the status hook, where it could never end", async () => {
  const agent = givenThink();
  const seen: string[] = [];
  appHooks.set(agent.name ?? "", {
    onStatus: async (submission, self) => {
      if (submission.status !== "running") return;
      const error = await refusal(self.waitForSubmission(submission.submissionId));
      seen.push(error.message);
    },
  });
  const { submissionId } = await agent.submitMessages([message({ delayMs: 100 })]);
  await agent.waitForSubmission(submissionId);
  expect(seen).toEqual([
    "waitForSubmission() cannot be called from onSubmissionStatus: the submission settles only after the hook returns. Call it elsewhere, or pass notify to submitMessages().",
  ]);
});
