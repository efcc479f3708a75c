/** Threads, joining and budgets on a Think agent, with the scripted model. */

import { runInDurableObject } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import { ask } from "../../../../src/testing/index.ts";
import { crash, refusal, until } from "../../../support/given.ts";
import { hold } from "../../../support/held-model.ts";
import {
  type Agent,
  again,
  asked,
  ended,
  givenAgent,
  joined,
  running,
  submit,
  texts,
} from "../../../support/think.ts";
import { charges, type ThinkAgent } from "../../../support/think-agent.ts";
import { chatClient } from "../peers.ts";

describe("threads of a Think agent", () => {
  it("L4: a named thread keeps its own turns, and runs while the conversation is busy", async () => {
    const agent = givenAgent();
    await submit(agent, { delayMs: 600_000 }, { submissionId: "main" });
    await running(agent, "main");
    await submit(agent, "one", { submissionId: "1", thread: "side" });
    await submit(agent, "two", { submissionId: "2", thread: "side" });
    expect(await ended(agent, "2")).toMatchObject({
      status: "completed",
      thread: "side",
      messageId: "2:reply",
      usage: { totalTokens: 15 },
    });
    expect(await texts(agent, "side")).toEqual([
      "user: one",
      "assistant: You said: one",
      "user: two",
      "assistant: You said: two",
    ]);
    expect(await agent.texts()).toHaveLength(1);
    await agent.cancelSubmission("main");
  });

  it("L4: an isolated turn has the agent's tools, answers, and leaves no trace", async () => {
    const agent = givenAgent();
    const account = crypto.randomUUID();
    const script = { tool: { name: "charge", input: { account } }, text: "charged" };
    await submit(agent, script, { submissionId: "s", thread: "isolated" });
    expect(await ended(agent, "s")).toMatchObject({ status: "completed" });
    expect(charges.get(account)).toBe(1);
    expect(await agent.texts()).toEqual([]);
    expect(await agent.threadMessages("isolated")).toEqual([]);
  });

  it.each([
    ["fail", { status: "error", errorName: "TurnInterruptedError" }],
    ["tell", { status: "completed", attempts: 2 }],
  ] as const)(
    "L6: a tool of an isolated turn runs once over a crash (%s)",
    async (afterSideEffects, end) => {
      const agent = givenAgent();
      const account = crypto.randomUUID();
      const tools = [{ name: "charge", input: { account } }];
      const { script, release } = hold({ tools }, { passes: 1 });
      const retry = { afterSideEffects };
      await submit(agent, script, { submissionId: "s", thread: "isolated", retry });
      await until(() => charges.get(account) === 1);
      await crash();
      release();
      const next = again(agent);
      expect(await ended(next, "s")).toMatchObject(end);
      expect(charges.get(account)).toBe(1);
    },
  );

  it("L6: a thread's turn starts over after a crash, and its messages are stored once", async () => {
    const agent = givenAgent();
    const { script, release } = hold({ text: "late" });
    await submit(agent, script, { submissionId: "s", thread: "side" });
    await running(agent, "s");
    await crash();
    release();
    const next = again(agent);
    expect(await ended(next, "s")).toMatchObject({ status: "completed", attempts: 2 });
    expect(await next.threadMessages("side")).toHaveLength(2);
  });

  it("L5: clearThread() cancels, skips and empties its thread, and changes no other", async () => {
    const agent = givenAgent();
    await submit(agent, "one", { submissionId: "other", thread: "other" });
    await submit(agent, "one", { submissionId: "1", thread: "side" });
    await ended(agent, "1");
    await submit(agent, { delayMs: 600_000 }, { submissionId: "2", thread: "side" });
    await submit(agent, "x", { submissionId: "3", thread: "side" });
    await running(agent, "2");
    await agent.clearThread("side");
    expect(await ended(agent, "2")).toMatchObject({ status: "aborted" });
    expect(await ended(agent, "3")).toMatchObject({ status: "skipped" });
    await submit(agent, "new", { submissionId: "4", thread: "side" });
    await ended(agent, "4");
    expect(await texts(agent, "side")).toEqual(["user: new", "assistant: You said: new"]);
    await ended(agent, "other");
    expect(await agent.threadMessages("other")).toHaveLength(2);
    const refused = await refusal(agent.clearThread("main"));
    expect(refused.message).toContain("Use clearMessages()");
  });

  it("L4: waitForSubmission() inside a turn of a thread is refused", async () => {
    const agent = givenAgent({
      onTool: async (inside) => {
        await inside.waitForSubmission("s");
      },
    });
    const tool = { name: "charge", input: { account: crypto.randomUUID() } };
    await submit(agent, { tool }, { submissionId: "s", thread: "side" });
    await ended(agent, "s");
    const said = JSON.stringify(await agent.threadMessages("side"));
    expect(said).toContain("waitForSubmission() cannot be called from inside an active turn");
  });
});

describe("joining and stopping turns of the conversation", () => {
  const charge = (account: string) => ({ name: "charge", input: { account } });

  /** Runs a turn until a client has been sent the beginning of its reply, which does not go on. */
  async function givenPartial(agent: Agent): Promise<void> {
    const client = await chatClient(agent);
    await submit(agent, { first: "a partial answer", delayMs: 600_000 }, { submissionId: "s" });
    await until(() => JSON.stringify(client.frames).includes("a partial answer"));
    client.close();
  }

  it("L4: steer shows the model the messages at its next step, and the reply answers both", async () => {
    const agent = givenAgent();
    const account = crypto.randomUUID();
    const { script, release } = hold({ tool: charge(account), text: "first" });
    await submit(agent, script, { submissionId: "s" });
    await running(agent, "s");
    await submit(agent, { text: "both" }, { submissionId: "steer", whenBusy: "steer" });
    release();
    expect(await ended(agent, "steer")).toMatchObject({ status: "completed", mergedInto: "s" });
    const s = await ended(agent, "s");
    expect(s).toMatchObject({ status: "completed", usage: { totalTokens: 30 } });
    const said = await agent.texts();
    expect(said.map((text) => text.split(":")[0])).toEqual(["user", "user", "assistant"]);
    expect(said.at(-1)).toContain("both");
    expect((await agent.lastMessage()).id).toBe(s.messageId);
  });

  it("L1: after a crash Think continues a steered turn, and the joined submission ends with it", async () => {
    const agent = givenAgent();
    const account = crypto.randomUUID();
    const { script, release } = hold({ tool: charge(account), text: "first" });
    await submit(agent, script, { submissionId: "s" });
    await running(agent, "s");
    const { script: joining, release: releaseJoining } = hold({ text: "both" });
    await submit(agent, joining, { submissionId: "steer", whenBusy: "steer" });
    release();
    await joined(agent, "steer", "s");
    await asked(joining);
    await crash();
    releaseJoining();
    const next = again(agent);
    expect(await ended(next, "s")).toMatchObject({ status: "completed", attempts: 1 });
    expect(await ended(next, "steer")).toMatchObject({ status: "completed", mergedInto: "s" });
    expect(await texts(next)).toEqual([
      `user: ${ask(script)}`,
      `user: ${ask(joining)}`,
      "assistant: [tool-charge]both",
    ]);
    expect(charges.get(account)).toBe(1);
  });

  it("L1: after a crash during a rollback, the messages are removed and the next turn runs", async () => {
    const agent = givenAgent();
    await givenPartial(agent);
    await runInDurableObject<ThinkAgent, void>(agent, async (inside) => {
      inside.session.deleteMessages = () => new Promise(() => {});
    });
    await submit(agent, "instead", { submissionId: "instead", whenBusy: "rollback" });
    expect(await ended(agent, "s")).toMatchObject({ status: "aborted" });
    await crash();
    const next = again(agent);
    await ended(next, "instead");
    expect(await texts(next)).toEqual(["user: instead", "assistant: You said: instead"]);
  });

  it("L4: steer works in a named thread", async () => {
    const agent = givenAgent();
    const account = crypto.randomUUID();
    const side = { thread: "side" } as const;
    const { script, release } = hold({ tool: charge(account), text: "first" });
    await submit(agent, script, { ...side, submissionId: "s" });
    await running(agent, "s");
    await submit(agent, { text: "both" }, { ...side, submissionId: "steer", whenBusy: "steer" });
    release();
    expect(await ended(agent, "steer")).toMatchObject({ status: "completed", mergedInto: "s" });
    expect((await texts(agent, "side")).at(-1)).toContain("both");
  });

  it("L5: rollback removes the messages and the partial reply from the conversation", async () => {
    const agent = givenAgent();
    await submit(agent, "before", { submissionId: "before" });
    await ended(agent, "before");
    await givenPartial(agent);
    await submit(agent, "instead", { submissionId: "instead", whenBusy: "rollback" });
    expect(await ended(agent, "s")).toMatchObject({ status: "aborted" });
    await ended(agent, "instead");
    expect(await texts(agent)).toEqual([
      "user: before",
      "assistant: You said: before",
      "user: instead",
      "assistant: You said: instead",
    ]);
  });

  it("L5: interrupt keeps the partial reply", async () => {
    const agent = givenAgent();
    await givenPartial(agent);
    await submit(agent, "instead", { submissionId: "instead", whenBusy: "interrupt" });
    await ended(agent, "instead");
    const said = await texts(agent);
    expect(said).toHaveLength(4);
    expect(said[1]).toBe("assistant: a partial answer");
    const reply = await runInDurableObject<ThinkAgent, string | undefined>(
      agent,
      ({ messages }) => messages[1]?.id,
    );
    expect(await agent.inspectSubmission("s")).toMatchObject({ messageId: reply });
  });
});

describe("budget and tools of the conversation", () => {
  it("L9: a budget ends the turn before the call that it has no tokens for", async () => {
    const agent = givenAgent();
    const account = crypto.randomUUID();
    const script = { tool: { name: "charge", input: { account } }, text: "never said" };
    await submit(agent, script, { submissionId: "s", budget: { tokens: 15 } });
    const end = await ended(agent, "s");
    expect(end).toMatchObject({ status: "error", errorName: "BudgetExceededError" });
    expect(end.usage?.totalTokens).toBe(15);
    expect((await agent.texts()).at(-1)).toBe("assistant: [step-start][tool-charge]");
    await submit(agent, "x", { submissionId: "next" });
    expect(await ended(agent, "next")).toMatchObject({ status: "completed" });
  });
});
