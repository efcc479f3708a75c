/** Submissions of a chat whose `streamText()` gets its options from `durable()`. */

import { describe, expect, it } from "vitest";
import { modelCalls } from "../../../src/testing/index.ts";
import { charges } from "../../contract/hosts/app.ts";
import { message, refusal, until } from "../../support/given.ts";
import { hold } from "../../support/held-model.ts";
import { CUT_AFTER_TOOL, recorded, stallTimeouts } from "./chat-app.ts";
import { givenChat } from "./given-chat.ts";

const unique = () => ({ id: crypto.randomUUID() });
const SCHEMA = {
  type: "object",
  properties: { title: { type: "string" } },
  required: ["title"],
} as never;

describe("a chat with durable()", () => {
  it("L7: the final answer is neither in the conversation nor a message of its own", async () => {
    const chat = givenChat("ChatApp");
    const asked = message({ ...unique(), answer: { title: "Printer" } });
    const { submissionId } = await chat.verbs().submitMessages([asked], { output: SCHEMA });
    expect(await chat.ended(submissionId)).toMatchObject({
      status: "completed",
      output: { title: "Printer" },
    });
    expect(await chat.verbs().threadMessages("main")).toHaveLength(1);
  });

  it("L7: the model is shown what is wrong with its answer, and gives a better one", async () => {
    const chat = givenChat("ChatApp");
    const asked = message({ ...unique(), answers: [{ wrong: 1 }, { title: "Printer" }] });
    const output = { output: SCHEMA, repair: 1 } as const;
    const { submissionId } = await chat.verbs().submitMessages([asked], output as never);
    expect(await chat.ended(submissionId)).toMatchObject({
      status: "completed",
      output: { title: "Printer" },
    });
  });

  it("L7: the callbacks and limits of the app's own options apply", async () => {
    const chat = givenChat("ChatApp");
    const account = crypto.randomUUID();
    const asked = message({ ...unique(), tool: { name: "charge", input: { account } } });
    const { submissionId } = await chat.verbs().submitMessages([asked]);
    expect(await chat.ended(submissionId)).toMatchObject({
      status: "completed",
      usage: { inputTokens: 20, outputTokens: 10 },
    });
    expect(chat.hooks()).toEqual(["step tool-calls", "step stop", "response: completed assistant"]);
  });

  it("L6: the chat's recovery continues a crashed turn, and its tool runs once", async () => {
    const chat = givenChat("ChatApp");
    const account = crypto.randomUUID();
    const tool = { name: "charge", input: { account } };
    const { script, release } = hold({ tool, text: "paid" }, { passes: 1 });
    const { submissionId } = await chat.verbs().submitMessages([message(script)]);
    await until(() => charges.get(account) === 1);
    await chat.crash();
    release();
    expect(await chat.ended(submissionId)).toMatchObject({
      status: "completed",
      output: "paid",
      attempts: 1,
    });
    expect(charges.get(account)).toBe(1);
    expect(chat.hooks().filter((hook) => hook.startsWith("recovery"))).toHaveLength(1);
    expect(await chat.texts()).toHaveLength(2);
  });

  it("L8: a turn whose stream has stalled is attempted again", async () => {
    const chat = givenChat("ChatApp");
    stallTimeouts.set(chat.name, 1_500);
    const script = { ...unique(), hangTimes: 1, text: "answered" };
    const { submissionId } = await chat.verbs().submitMessages([message(script)]);
    expect(await chat.ended(submissionId)).toMatchObject({
      status: "completed",
      output: "answered",
      attempts: 2,
    });
    const next = await chat.verbs().submitMessages([message("next")]);
    expect(await chat.ended(next.submissionId)).toMatchObject({ status: "completed" });
    expect(await chat.texts()).toHaveLength(4);
  });

  it("L5: a submission that is cancelled while its recovery waits gets no reply", async () => {
    const chat = givenChat("ChatApp");
    const script = { ...unique(), delayMs: 600_000, text: "late" };
    const { submissionId } = await chat.verbs().submitMessages([message(script)]);
    await until(() => (modelCalls.get(JSON.stringify(script)) ?? 0) > 0);
    await chat.crash();
    await chat.verbs().cancelSubmission(submissionId);
    expect(await chat.ended(submissionId)).toMatchObject({ status: "aborted" });
    const next = await chat.verbs().submitMessages([message("next")]);
    expect(await chat.ended(next.submissionId)).toMatchObject({ status: "completed" });
    expect((await chat.texts()).join()).not.toContain("assistant: late");
  });

  it("L4: submissions and turns of the chat run in the order of its queue", async () => {
    const chat = givenChat("ChatApp");
    const { script, release } = hold({ text: "first" });
    const { submissionId } = await chat.verbs().submitMessages([message(script)]);
    await chat.running(submissionId);
    const own = chat.verbs().chat("second");
    // Answered after the call before has reached the queue.
    await chat.verbs().last();
    const third = await chat.verbs().submitMessages([message("third")]);
    release();
    expect(await own).toMatchObject({ status: "completed" });
    await chat.ended(third.submissionId);
    expect((await chat.texts()).filter((text) => text.startsWith("assistant"))).toEqual([
      "assistant: first",
      "assistant: You said: second",
      "assistant: You said: third",
    ]);
  });

  it("another thread is refused without getModel(), and nothing is stored", async () => {
    const chat = givenChat("ChatApp");
    const thread = chat.verbs().submitMessages([message("x")], { thread: "support" });
    const refused = await refusal(thread);
    expect(refused).toMatchObject({ name: "NotSupportedByHostError", host: "perdure/chat" });
    expect(refused.message).toContain("Override getModel()");
    expect(await chat.verbs().listSubmissions()).toEqual([]);
  });
});

describe("options of other forms", () => {
  it("L7: a prompt, a list of instructions and prepareStep work with durable()", async () => {
    const chat = givenChat("VariantChat");
    const account = crypto.randomUUID();
    const tool = { name: "charge", input: { account } };
    const asked = message({ ...unique(), tool, answer: { title: "Printer" } });
    const { submissionId } = await chat.verbs().submitMessages([asked], { output: SCHEMA });
    expect(await chat.ended(submissionId)).toMatchObject({
      status: "completed",
      output: { title: "Printer" },
    });
    expect(chat.hooks()).toEqual(["durable", "prepared 0", "prepared 1"]);
    const system = recorded.calls.at(-1)?.prompt[0];
    expect(system?.role).toBe("system");
    expect(system?.content).toMatch(/^Be brief.\n\nBe kind.\n\n.*think_final_answer/s);
    expect(charges.get(account)).toBe(1);
  });

  it("durable() returns the options as they are in a turn that is no submission's", async () => {
    const chat = givenChat("VariantChat");
    expect(await chat.verbs().chat("Hello")).toMatchObject({ status: "completed" });
    expect(chat.hooks()[0]).toBe("as is");
    expect(await chat.texts()).toEqual(["user: Hello", "assistant: You said: Hello"]);
  });
});

describe("a chat without durable()", () => {
  it("L1 L3 L7: a submission completes with the text of its reply", async () => {
    const chat = givenChat("PlainChat");
    const asked = [message("Hello")];
    const options = { idempotencyKey: "one" };
    const { submissionId } = await chat.verbs().submitMessages(asked, options);
    expect(await chat.ended(submissionId)).toMatchObject({
      status: "completed",
      output: "You said: Hello",
    });
    expect((await chat.verbs().submitMessages(asked, options)).accepted).toBe(false);
  });

  it("L7: a failed turn ends in an error with the text of its reply's error", async () => {
    const chat = givenChat("PlainChat");
    const asked = message({ ...unique(), fail: "The model refuses", status: 400 });
    const { submissionId } = await chat.verbs().submitMessages([asked]);
    const ended = await chat.ended(submissionId);
    expect(ended).toMatchObject({ status: "error", errorName: "TurnError" });
    expect(ended?.error).toContain("The model refuses");
  });

  it("L8: a turn whose connection closed is retried", async () => {
    const chat = givenChat("PlainChat");
    const script = { ...unique(), text: "whole", finish: "interrupted", finishTimes: 1 } as const;
    const { submissionId } = await chat.verbs().submitMessages([message(script)]);
    expect(await chat.ended(submissionId)).toMatchObject({
      status: "completed",
      output: "whole",
      attempts: 2,
      finishReason: "stop",
    });
  });

  it.each([
    ["shows a transient error", { status: 400 }],
    ["breaks with one", {}],
  ])("L8: a turn whose reply %s is retried", async (_, refusal) => {
    const chat = givenChat("PlainChat");
    const fails = { fail: "Overloaded", failTimes: 1, ...refusal };
    const script = { ...unique(), ...fails, text: "answered" };
    const { submissionId } = await chat.verbs().submitMessages([message(script)]);
    const answered = { status: "completed", output: "answered", attempts: 2 };
    expect(await chat.ended(submissionId)).toMatchObject(answered);
  });

  it("L2: a turn whose tool has run is not retried without a record of the call", async () => {
    const chat = givenChat("PlainChat");
    const account = crypto.randomUUID();
    const tool = { name: "charge", input: { account } };
    const asked = message({ ...unique(), tool, text: CUT_AFTER_TOOL });
    const { submissionId } = await chat.verbs().submitMessages([asked]);
    const failed = { status: "error", errorName: "TurnError", error: "Overloaded", attempts: 1 };
    expect(await chat.ended(submissionId)).toMatchObject(failed);
    expect(charges.get(account)).toBe(1);
  });

  it("L2: retry.afterSideEffects allows it", async () => {
    const chat = givenChat("PlainChat");
    const account = crypto.randomUUID();
    const tool = { name: "charge", input: { account } };
    const asked = message({ ...unique(), tool, text: CUT_AFTER_TOOL });
    const retry = { maxAttempts: 2, afterSideEffects: "repeat" } as const;
    const { submissionId } = await chat.verbs().submitMessages([asked], { retry });
    expect(await chat.ended(submissionId)).toMatchObject({ status: "error", attempts: 2 });
    expect(charges.get(account)).toBe(2);
  });

  it("L7: a turn whose tool call has never arrived ends in an error", async () => {
    const chat = givenChat("PlainChat");
    const asked = message({ ...unique(), text: "I will look", lostCall: "charge" });
    const { submissionId } = await chat.verbs().submitMessages([asked]);
    const failed = { status: "error", errorName: "MissingToolCallError", attempts: 1 };
    expect(await chat.ended(submissionId)).toMatchObject(failed);
  });

  it("L7: an error that the reply hides names durable() and onError", async () => {
    const chat = givenChat("PlainChat");
    const asked = message({ ...unique(), fail: "hidden", status: 400 });
    const { submissionId } = await chat.verbs().submitMessages([asked]);
    const ended = await chat.ended(submissionId);
    expect(ended).toMatchObject({ status: "error", errorName: "TurnError", attempts: 1 });
    expect(ended?.error).toMatch(/An error occurred.*this\.durable\(.*onError/);
  });

  it.each(["length", "content-filter", "other"] as const)(
    "L7: a turn that ends by %s completes, and is partial",
    async (finish) => {
      const chat = givenChat("PlainChat");
      const script = { ...unique(), text: "half", finish };
      const { submissionId } = await chat.verbs().submitMessages([message(script)]);
      const partial = {
        status: "completed",
        output: "half",
        finishReason: finish,
        isPartial: true,
      };
      expect(await chat.ended(submissionId)).toMatchObject(partial);
    },
  );

  it("L7: an answer that the text of the reply has as JSON is accepted", async () => {
    const chat = givenChat("PlainChat");
    const asked = message({ ...unique(), text: '{"title":"Printer"}' });
    const { submissionId } = await chat.verbs().submitMessages([asked], { output: SCHEMA });
    expect(await chat.ended(submissionId)).toMatchObject({ output: { title: "Printer" } });
  });

  it("L7: an answer that cannot be asked for ends in an error that names durable()", async () => {
    const chat = givenChat("PlainChat");
    const asked = message({ ...unique(), text: "No JSON" });
    const { submissionId } = await chat.verbs().submitMessages([asked], { output: SCHEMA });
    const ended = await chat.ended(submissionId);
    expect(ended).toMatchObject({ status: "error", errorName: "NotSupportedByHostError" });
    expect(ended?.error).toContain("this.durable(");
  });

  it("L9: a budget that cannot be checked ends in an error that names durable()", async () => {
    const chat = givenChat("PlainChat");
    const options = { budget: { tokens: 100 } };
    const { submissionId } = await chat.verbs().submitMessages([message("x")], options);
    const ended = await chat.ended(submissionId);
    expect(ended).toMatchObject({ status: "error", errorName: "NotSupportedByHostError" });
    expect(ended?.error).toContain("budget without durable()");
  });

  it("L4: a steering submission that cannot join runs next", async () => {
    const chat = givenChat("PlainChat");
    const { script, release } = hold({ text: "first" });
    const { submissionId } = await chat.verbs().submitMessages([message(script)]);
    await chat.running(submissionId);
    const more = await chat.verbs().submitMessages([message("More")], { whenBusy: "steer" });
    release();
    const ended = await chat.ended(more.submissionId);
    expect(ended).toMatchObject({ status: "completed", output: "You said: More" });
    expect(ended?.mergedInto).toBeUndefined();
  });

  it("L5: cancelling a running submission aborts its turn", async () => {
    const chat = givenChat("PlainChat");
    const asked = message({ ...unique(), delayMs: 600_000 });
    const { submissionId } = await chat.verbs().submitMessages([asked]);
    await chat.running(submissionId);
    await chat.verbs().cancelSubmission(submissionId);
    expect(await chat.ended(submissionId)).toMatchObject({ status: "aborted" });
    const next = await chat.verbs().submitMessages([message("next")]);
    expect(await chat.ended(next.submissionId)).toMatchObject({ status: "completed" });
  });

  it("L6: a crash before the answer ends in one answer", async () => {
    const chat = givenChat("PlainChat");
    const { script, release } = hold({ text: "answered" });
    const { submissionId } = await chat.verbs().submitMessages([message(script)]);
    await until(() => (modelCalls.get(JSON.stringify(script)) ?? 0) > 0);
    await chat.crash();
    release();
    expect(await chat.ended(submissionId)).toMatchObject({ output: "answered" });
    expect(await chat.texts()).toHaveLength(2);
  });
});
