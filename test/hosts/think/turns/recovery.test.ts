/** Turns that Think's own recovery continues or gives up, and how their submissions end. */

import { introspectWorkflowInstance, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { systemClock } from "../../../../src/core/clock.ts";
import { ask, modelCalls, type Script } from "../../../../src/testing/index.ts";
import { givenThink, message, until } from "../../../support/given.ts";
import { hold } from "../../../support/held-model.ts";
import {
  type Agent,
  again,
  asked,
  ended,
  givenAgent,
  running,
  submit,
  texts,
  wakeNow,
} from "../../../support/think.ts";
import { appHooks, made, type ThinkAgent } from "../../../support/think-agent.ts";

/** A reply that does not come while the test runs. */
const endless = (rest: Script = {}): Script => ({
  id: crypto.randomUUID(),
  delayMs: 600_000,
  ...rest,
});

/** Crashes the agent. Returns a stub of its next instance. */
async function crashed(agent: Agent): Promise<Agent> {
  await runInDurableObject<ThinkAgent, void>(agent, (_, ctx) => ctx.abort("crash")).catch(() => {});
  return again(agent);
}

afterEach(() => vi.restoreAllMocks());

it("W5: terminating a workflow by its binding cancels the turn that Think's recovery continues", async () => {
  const id = `wf-${crypto.randomUUID()}`;
  const agent = givenThink(`agent-of-${id}`) as unknown as Agent;
  const script = endless({ answer: { title: "late", count: 1 } });
  await using _ = await introspectWorkflowInstance(env.PROMPT_WORKFLOW, id);
  await agent.startPrompts(id, { prompts: [{ name: "only", prompt: ask(script) }] });
  await asked(script);
  const next = await crashed(agent);
  const [submission] = await next.listSubmissions();
  await asked(script, 2);
  await (await env.PROMPT_WORKFLOW.get(id)).terminate();
  const { now } = systemClock;
  vi.spyOn(systemClock, "now").mockImplementation(() => now() + 30_000);
  await wakeNow(next);
  expect(await ended(next, submission?.submissionId ?? "")).toMatchObject({
    status: "aborted",
    error: "The workflow that waited for it was terminated",
    attempts: 1,
  });
  await submit(next, "and then", { submissionId: "next" });
  expect(await ended(next, "next")).toMatchObject({ status: "completed" });
  expect(modelCalls.get(ask(script))).toBe(2);
});

it("L6: an answer whose stream stalls is asked for again, and no half of it is continued", async () => {
  const agent = givenAgent();
  made.set(agent.name ?? "", (think) => {
    think.chatStreamStallTimeoutMs = 500;
  });
  const text = JSON.stringify({ title: "one two three four five six" });
  const { script, release } = hold({ ignoreTools: true, text, wordMs: 1 }, { words: 2 });
  const output = { type: "object", properties: { title: { type: "string" } } } as const;
  await submit(agent, script, { submissionId: "s", output });
  await asked(script, 2);
  release();
  expect(await ended(agent, "s")).toMatchObject({
    status: "completed",
    output: JSON.parse(text),
    attempts: 2,
  });
  expect(await texts(agent)).toHaveLength(2);
});

describe("when Think gives up its recovery", () => {
  const GIVEN_UP = { status: "error", errorName: "TurnInterruptedError", attempts: 1 };

  it.each([
    ["nothing of the reply", {}],
    ["a part of the reply", { first: "a beginning" }],
  ])("L6: the submission ends after the next start, with %s stored", async (_, rest) => {
    const exhausted: string[] = [];
    const agent = givenAgent({
      chatRecovery: {
        maxInterruptedAttempts: 1,
        onExhausted: ({ reason, requestId, recoveryRootRequestId }) =>
          void exhausted.push(reason, requestId, recoveryRootRequestId),
      },
    });
    const script = endless(rest);
    await submit(agent, script, { submissionId: "s" });
    await asked(script);
    const next = await crashed(agent);
    const end = await ended(next, "s");
    expect(end).toMatchObject(GIVEN_UP);
    expect(end.error).toContain(
      "interrupted_attempts_exceeded. chatRecovery.maxInterruptedAttempts lets",
    );
    // L7: the turn has the submission's id.
    expect(exhausted).toEqual(["interrupted_attempts_exceeded", "s", "s"]);
    expect(modelCalls.get(ask(script))).toBe(1);
    await submit(next, "and then", { submissionId: "next" });
    expect(await ended(next, "next")).toMatchObject({ status: "completed" });
  });

  it("L6: giving up a recovery ends no turn that began after its conversation was cleared", async () => {
    const agent = givenAgent({ chatRecovery: { maxInterruptedAttempts: 1 } });
    const script = endless();
    await submit(agent, script, { submissionId: "s" });
    await asked(script);
    const next = await crashed(agent);
    await next.resetTurns();
    const { script: said, release } = hold({ text: "said" });
    await submit(next, said, { submissionId: "next" });
    await asked(said);
    await wakeNow(next);
    release();
    expect(await ended(next, "next")).toMatchObject({ status: "completed", attempts: 1 });
  });

  it("L6: the submission of a sub-agent ends when Think gives up its recovery", async () => {
    const parent = givenAgent();
    const script = endless();
    const name = `child-${crypto.randomUUID()}`;
    appHooks.set(name, { chatRecovery: { maxInterruptedAttempts: 1 } });
    await parent.submitToChild(name, message(script), "s");
    await asked(script);
    const next = await crashed(parent);
    await until(async () => (await next.statusesOfChild(name))[0] === "error");
    expect(modelCalls.get(ask(script))).toBe(1);
  });
});

it("L6: the ledger retries an interrupted turn while a long task of the app runs", async () => {
  const agent = givenAgent();
  const { script, release } = hold();
  await submit(agent, script, { submissionId: "s" });
  await asked(script);
  await agent.startLongTask();
  // The turn that was interrupted is not known to Think, as where its own recovery is lost.
  await runInDurableObject<ThinkAgent, void>(agent, async ({ tasks }) => {
    for (const { runId, definition } of await tasks.list()) {
      if (definition !== "nap") await tasks.cancel(runId);
    }
  });
  const next = await crashed(agent);
  release();
  await running(next, "s").catch(() => {});
  expect(await ended(next, "s")).toMatchObject({ status: "completed" });
  const [task] = await next.openTasks();
  expect(task).toBe("nap");
  expect((await texts(next)).filter((text) => text.startsWith("assistant"))).toHaveLength(1);
});
