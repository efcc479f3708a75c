/** What a Think agent's callers and its status hook may do, and who waits for whom. */

import { runInDurableObject } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import type { SubmissionInspection } from "../../../../src/submissions/types.ts";
import { ask, modelCalls, ScriptedModel } from "../../../../src/testing/index.ts";
import { message, refusal, until } from "../../../support/given.ts";
import { forever, sleep } from "../../../support/ledger.ts";
import { ended, givenAgent, running, submit, texts } from "../../../support/think.ts";
import type { ThinkAgent } from "../../../support/think-agent.ts";

const THREADS = ["main", "side", "isolated"] as const;

describe("onSubmissionStatus", () => {
  it.each(THREADS)(
    "L1: onSubmissionStatus() returns for running before the model is called (%s)",
    async (thread) => {
      const script = { text: `the answer ${crypto.randomUUID()}` };
      const calls: string[] = [];
      const agent = givenAgent({
        onStatus: async ({ status }) => {
          await sleep(100);
          calls.push(`${status} after ${modelCalls.get(ask(script)) ?? 0} calls`);
        },
      });
      await submit(agent, script, { submissionId: "s", thread });
      expect(calls[0]).toBe("pending after 0 calls");
      await ended(agent, "s");
      expect(calls).toEqual([
        "pending after 0 calls",
        "running after 0 calls",
        "completed after 1 calls",
      ]);
    },
  );

  it("L5: onSubmissionStatus() returns for aborted before cancelSubmission() does", async () => {
    const statuses: string[] = [];
    const agent = givenAgent({
      onStatus: async ({ status }) => {
        await sleep(50);
        statuses.push(status);
      },
    });
    await submit(agent, { delayMs: 60_000 }, { submissionId: "s" });
    await running(agent, "s");
    await agent.cancelSubmission("s");
    expect(statuses).toEqual(["pending", "running", "aborted"]);
  });

  it.each(["main", "side"])(
    "L5: an onSubmissionStatus() that cancels its submission leaves no message in the conversation (%s)",
    async (thread) => {
      const agent = givenAgent({
        onStatus: async ({ status, submissionId }, self) => {
          if (status === "running") await self.cancelSubmission(submissionId);
        },
      });
      await submit(agent, "not this", { submissionId: "s", thread });
      expect(await ended(agent, "s")).toMatchObject({ status: "aborted" });
      await submit(agent, "nor this", { submissionId: "next", thread });
      await ended(agent, "next");
      expect(await texts(agent, thread)).toEqual([]);
    },
  );

  it.each(["pending", "running", "completed"] as const)(
    "L9: an onSubmissionStatus() that hangs for %s delays the turn by the time limit at most",
    async (hanging) => {
      const agent = givenAgent({
        onStatus: ({ status }: SubmissionInspection) =>
          status === hanging ? forever() : Promise.resolve(),
        options: { hookTimeoutMs: 100 },
      });
      for (const submissionId of ["a", "b"]) {
        await submit(agent, submissionId, { submissionId });
        expect(await ended(agent, submissionId)).toMatchObject({ status: "completed" });
      }
    },
  );
});

describe("messages that would break a conversation", () => {
  it.each(["main", "side"])("L1: a system message is refused (%s)", async (thread) => {
    const agent = givenAgent();
    const system = { ...message("Be brief."), role: "system" as const };
    const refused = await refusal(agent.submitMessages([system], { thread }));
    expect(refused).toMatchObject({ name: "InvalidSubmissionError" });
    expect(refused.message).toContain("getSystemPrompt()");
    await submit(agent, "hello", { submissionId: "s", thread });
    expect(await ended(agent, "s")).toMatchObject({ status: "completed" });
  });

  it("L1: a part that the AI SDK omits is accepted, and the turn completes", async () => {
    const agent = givenAgent();
    const said = message("hello");
    const parts = [{ type: "data-x", data: 1 }, { type: "step-start" }, { type: "new-kind" }];
    const asked = { ...said, parts: [...said.parts, ...parts] } as typeof said;
    await agent.submitMessages([asked], { submissionId: "s" });
    expect(await ended(agent, "s")).toMatchObject({ status: "completed" });
    const seeded = { ...message("I am here."), role: "assistant" as const };
    await agent.submitMessages([seeded, message("and now?")], { submissionId: "t" });
    expect(await ended(agent, "t")).toMatchObject({ status: "completed" });
  });
});

describe("over RPC", () => {
  it("L1: invalid options are refused over RPC", async () => {
    const agent = givenAgent();
    const batch = { thread: "isolated", batch: { id: "b", lanes: "x" } };
    const refused = await refusal(agent.submitMessages([message("x")], batch as never));
    expect(refused).toMatchObject({ name: "InvalidSubmissionError", field: "batch" });
    expect(await agent.listSubmissions()).toEqual([]);
  });

  it("L1: thread names with half of a character are refused over RPC", async () => {
    const agent = givenAgent();
    const thread = "issue-👩".slice(0, 7);
    const refused = [
      refusal(agent.submitMessages([message("x")], { thread })),
      refusal(agent.threadMessages(thread)),
      refusal(agent.clearThread(thread)),
      refusal(agent.inspectSubmission(thread)),
    ];
    for (const error of await Promise.all(refused)) {
      expect(error).toMatchObject({ name: "InvalidSubmissionError" });
    }
  });
});

it("L6: a retry removes the partial reply of the first attempt, and is answered once", async () => {
  const agent = givenAgent();
  const script = {
    first: "a beginning",
    delayMs: 20,
    fail: "bad request",
    status: 400,
    failTimes: 1,
    text: `, and the end ${crypto.randomUUID()}`,
  };
  for (const thread of ["main", "side"]) {
    const asked = { ...script, text: `${script.text} in ${thread}` };
    await submit(agent, asked, { submissionId: thread, thread });
    expect(await ended(agent, thread)).toMatchObject({ status: "error" });
    const retried = await agent.retrySubmission(thread);
    await until(async () => (await agent.submissionStats()).pending === 0);
    expect(await ended(agent, retried?.submissionId ?? "")).toMatchObject({ status: "completed" });
    expect(await texts(agent, thread)).toEqual([
      `user: ${ask(asked)}`,
      `assistant: a beginning${asked.text}`,
    ]);
  }
});

it.each(["main", "side"])(
  "L9: a turn says what is wrong where getModel() returns nothing (%s)",
  async (thread) => {
    const agent = givenAgent();
    await runInDurableObject(agent, (app: ThinkAgent) => {
      app.getModel = () => undefined as never;
    });
    await submit(agent, {}, { submissionId: "s", thread });
    const { error } = await ended(agent, "s");
    expect(error).toContain("Invalid model undefined: expected a model of the AI SDK");
    expect(error).toContain("Return it from getModel() of ThinkAgent");
  },
);

it.each(["main", "side"])(
  "L9: a model's error of 5 MB is cut where it is stored (%s)",
  async (thread) => {
    const agent = givenAgent();
    await submit(agent, "hello", { submissionId: "s", thread });
    await ended(agent, "s");
    await runInDurableObject(agent, (app: ThinkAgent) => {
      app.getModel = () => new ScriptedModel({ fail: "x".repeat(5_000_000) });
    });
    await submit(agent, {}, { submissionId: "failed", thread });
    const { status, error } = await ended(agent, "failed");
    expect(status).toBe("error");
    expect(error).toMatch(/^x{4096}\W/);
    expect((await agent.inspectSubmission("failed"))?.error).toBe(error);
    expect(error?.length).toBeLessThan(5_000);
  },
);
