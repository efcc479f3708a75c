/** Turns of a Think agent that are asked again, and turns that are given up because they stall. */

import { describe, expect, it } from "vitest";
import { ask, RecordingModel, virtualClock } from "../../../../src/testing/index.ts";
import { until } from "../../../support/given.ts";
import { acceptPrompt } from "../../../support/prompts.ts";
import { HANG_MS } from "../../../support/sizes.ts";
import {
  type Agent,
  asked,
  ended,
  givenAgent,
  running,
  submit,
  texts,
} from "../../../support/think.ts";
import { cutOff } from "../../../support/think-agent.ts";

const THREADS = ["main", "side"] as const;

describe("another attempt", () => {
  it.each(THREADS)(
    "L6: after a failure the conversation contains the reply once (%s)",
    async (thread) => {
      const agent = givenAgent({ options: { retry: { baseDelay: 1 } } });
      const script = {
        first: "a beginning",
        delayMs: 50,
        fail: "Network connection lost",
        failTimes: 1,
        text: `, and the end in ${thread}`,
      };
      await submit(agent, script, { submissionId: "s", thread });
      expect(await ended(agent, "s")).toMatchObject({ status: "completed", attempts: 2 });
      expect(await texts(agent, thread)).toEqual([
        `user: ${ask(script)}`,
        `assistant: a beginning, and the end in ${thread}`,
      ]);
    },
  );

  it.each(THREADS)(
    "L6: messages of retrySubmission() come last, after newer ones (%s)",
    async (thread) => {
      const model = new RecordingModel();
      const agent = givenAgent({ beforeTurn: () => ({ model }) });
      const text = `the answer in ${thread}`;
      const script = { fail: "bad request", status: 400, failTimes: 1, text };
      await submit(agent, script, { submissionId: "s", thread });
      expect(await ended(agent, "s")).toMatchObject({ status: "error" });
      await submit(agent, "other", { submissionId: "other", thread });
      await ended(agent, "other");
      const retried = await agent.retrySubmission("s");
      await ended(agent, retried?.submissionId ?? "");
      expect(model.prompts().at(-1)?.at(-1)).toBe(`user: ${ask(script)}`);
      // The message is there once, where it was asked last.
      expect(await texts(agent, thread)).toEqual([
        "user: other",
        "assistant: You said: other",
        `user: ${ask(script)}`,
        `assistant: ${text}`,
      ]);
    },
  );

  it("L8: messages of a deferred turn come last, after an interruption", async () => {
    const agent = givenAgent();
    using clock = virtualClock({ patience: HANG_MS });
    const headers = { "retry-after": "600" };
    const script = { fail: "overloaded", status: 503, headers, failTimes: 1, text: "at last" };
    await submit(agent, script, { submissionId: "s" });
    await until(async () => (await agent.inspectSubmission("s"))?.failedAttempts);
    await submit(agent, "urgent", { submissionId: "urgent", whenBusy: "interrupt" });
    await ended(agent, "urgent");
    expect(await agent.inspectSubmission("s")).toMatchObject({ status: "pending", attempts: 1 });
    await clock.advance("11 minutes", agent);
    expect(await ended(agent, "s")).toMatchObject({ status: "completed", attempts: 2 });
    expect(await texts(agent)).toEqual([
      "user: urgent",
      "assistant: You said: urgent",
      `user: ${ask(script)}`,
      "assistant: at last",
    ]);
  });
});

describe("a stalled turn", () => {
  const STALLED = [{ attempt: 1, errorName: "TurnStalledError" }];
  const options = { stallTimeout: "10 minutes", retry: { baseDelay: 1 } } as const;

  /**
   * Lets the time pass until the first attempt is given up and the next one has begun. A single long advance can pass over
   * all of it: while an alarm runs, the object has no next one that the clock could ring.
   */
  async function stall(agent: Agent, submissionId: string, clock = virtualClock()): Promise<void> {
    using _ = clock;
    await until(async () => {
      await clock.advance("30 seconds", agent);
      const found = await agent.inspectSubmission(submissionId);
      return found && (found.attempts > 1 || !["pending", "running"].includes(found.status));
    });
  }

  it("L6: a stalled turn is asked again even if its model cannot be stopped", async () => {
    const agent = givenAgent({ options });
    const script = { hangTimes: 1, text: `the answer ${crypto.randomUUID()}` };
    await submit(agent, script, { submissionId: "s" });
    await asked(script);
    await stall(agent, "s");
    expect(await ended(agent, "s")).toMatchObject({
      status: "completed",
      attempts: 2,
      usage: { totalTokens: 15 },
    });
    expect(await agent.inspectSubmission("s")).toMatchObject({ failedAttempts: STALLED });
    expect(await texts(agent)).toEqual([`user: ${ask(script)}`, `assistant: ${script.text}`]);
  });

  it("W4: a stalled prompt is asked for its answer again", async () => {
    const agent = givenAgent({ options });
    cutOff.add(agent.name ?? "");
    const script = { hangTimes: 1, answer: { title: crypto.randomUUID() } };
    const submissionId = await acceptPrompt(agent, {
      idempotencyKey: "k",
      run: "r",
      messages: [{ role: "user" as const, parts: [{ type: "text" as const, text: ask(script) }] }],
      workflow: { name: "PROMPT_WORKFLOW", id: crypto.randomUUID(), stepName: "s" },
      answer: {
        schema: { type: "object", properties: { title: { type: "string" } }, required: ["title"] },
      },
    });
    await asked(script);
    await stall(agent, submissionId);
    expect(await ended(agent, submissionId)).toMatchObject({
      status: "completed",
      attempts: 2,
      output: script.answer,
    });
  });

  it.each([
    ["fail", { status: "error", errorName: "TurnStalledError", attempts: 1 }],
    ["tell", { status: "completed", attempts: 2 }],
  ] as const)(
    "L6: leaves a tool that cannot be stopped, which runs once (%s)",
    async (afterSideEffects, end) => {
      let acting = 0;
      const agent = givenAgent({
        options,
        onTool: () => {
          acting++;
          return new Promise<never>(() => {});
        },
      });
      const tool = { name: "charge", input: { account: crypto.randomUUID() } };
      const retry = { afterSideEffects };
      await submit(agent, { tool, text: "told" }, { submissionId: "s", retry });
      await until(() => acting);
      await stall(agent, "s");
      expect(await ended(agent, "s")).toMatchObject(end);
      expect(acting).toBe(1);
      await submit(agent, "next", { submissionId: "next" });
      expect(await ended(agent, "next")).toMatchObject({ status: "completed" });
      expect((await texts(agent)).slice(-2)).toEqual(["user: next", "assistant: You said: next"]);
    },
  );

  it("L6: a stalled turn is given up while isolated turns make progress", async () => {
    const agent = givenAgent({ options });
    const script = { hangTimes: 1, text: crypto.randomUUID() };
    await submit(agent, script, { submissionId: "s" });
    await asked(script);
    using clock = virtualClock();
    for (let n = 0; n < 3; n++) {
      await running(agent, "s");
      await clock.advance("4 minutes", agent);
      await submit(agent, "isolated", { submissionId: `${n}`, thread: "isolated" });
      expect(await ended(agent, `${n}`)).toMatchObject({ status: "completed" });
    }
    await stall(agent, "s", clock);
    expect(await ended(agent, "s")).toMatchObject({ status: "completed" });
    expect(await agent.inspectSubmission("s")).toMatchObject({ failedAttempts: STALLED });
  });
});
