/** The scripted model, called by the AI SDK, and its invalid scripts. */

import { generateText, type LanguageModel, stepCountIs, streamText, tool } from "ai";
import { beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import {
  ask,
  InvalidScriptError,
  longText,
  modelCalls,
  modelsCalled,
  RecordingModel,
  resetModelCalls,
  type Script,
  ScriptedModel,
} from "../../src/testing/index.ts";

beforeEach(resetModelCalls);

const double = tool({
  inputSchema: z.object({ value: z.number() }),
  execute: async ({ value }) => value * 2,
});

/** How the AI SDK's own retries would hide what was scripted. */
const ONCE = { maxRetries: 0 };

describe("generateText() and streamText()", () => {
  it("follows the script in its message, and counts the calls by the text", async () => {
    const model: LanguageModel = new ScriptedModel();
    const prompt = ask({ text: "hello" });
    const { text, usage, finishReason } = await generateText({ model, prompt });
    expect({ text, finishReason }).toEqual({ text: "hello", finishReason: "stop" });
    expect(usage).toMatchObject({ inputTokens: 10, outputTokens: 5, totalTokens: 15 });
    expect(await streamText({ model, prompt }).text).toBe("hello");
    expect(modelCalls.get(prompt)).toBe(2);
    expect(modelsCalled.get(prompt)).toEqual(["scripted", "scripted"]);
  });

  it("answers a message that is not a script", async () => {
    const model = new ScriptedModel();
    for (const prompt of ["hello", "7", '["a"]', '"{}"']) {
      expect((await generateText({ model, prompt })).text).toBe(`You said: ${prompt}`);
    }
  });

  it("follows the script of its constructor for every message", async () => {
    const model = new ScriptedModel({ first: "I think. ", text: "Yes." });
    const { text } = await generateText({ model, prompt: ask({ text: "no" }) });
    expect(text).toBe("I think. Yes.");
  });

  it("a script without an answer says what a step with an output asks for", async () => {
    const think_final_answer = tool({
      inputSchema: z.object({ title: z.string(), priority: z.string() }),
      execute: async () => "taken",
    });
    const model = new ScriptedModel({ text: "Hello" });
    const asked = generateText({ ...ONCE, model, prompt: "go", tools: { think_final_answer } });
    await expect(asked).rejects.toThrow(InvalidScriptError);
    await expect(asked).rejects.toThrow(
      "new ScriptedModel({ answer: { title: ..., priority: ... } })",
    );
  });

  it("the model continues its script after a message about an interruption", async () => {
    const model = new ScriptedModel();
    const call = (value: number) => ({ name: "double", input: { value } });
    const prompt = ask({ tools: [call(1), call(2)] });
    const one = await generateText({ model, prompt, tools: { double }, stopWhen: stepCountIs(1) });
    const asked = [
      { role: "user", content: prompt },
      ...one.response.messages,
      { role: "user", content: "Continue your previous response." },
    ] as const;
    const next = await generateText({ model, messages: [...asked], tools: { double } });
    expect(next.toolCalls.map(({ input }) => input)).toEqual([{ value: 2 }]);
  });

  it("the model calls several tools in one step, also the same one twice", async () => {
    const call = { name: "double", input: { value: 2 } };
    const prompt = ask({ tools: [[call, call], call], text: "done" });
    const { steps } = await generateText({
      model: new ScriptedModel(),
      prompt,
      tools: { double },
      stopWhen: stepCountIs(5),
    });
    expect(steps.map(({ toolResults }) => toolResults.map(({ output }) => output))).toEqual([
      [4, 4],
      [4],
      [],
    ]);
  });

  it("the model calls one tool in each step, and then replies", async () => {
    const model = new RecordingModel();
    const call = (value: number) => ({ name: "double", input: { value } });
    const prompt = ask({ tools: [call(1), call(2)], text: "done" });
    const { steps, text } = await generateText({
      model,
      prompt,
      tools: { double },
      stopWhen: stepCountIs(5),
    });
    const outputs = steps.flatMap(({ toolResults }) => toolResults.map(({ output }) => output));
    expect({ outputs, text }).toEqual({ outputs: [2, 4], text: "done" });
    expect(model.offered()).toEqual([["double"], ["double"], ["double"]]);
    expect(model.prompts()[0]).toEqual([`user: ${prompt}`]);
  });

  it("the model fails failTimes times with the status and headers of a provider", async () => {
    const headers = { "retry-after": "1" };
    const prompt = ask({ fail: "busy", failTimes: 1, status: 429, headers, text: "at last" });
    const model = new ScriptedModel();
    await expect(generateText({ model, prompt, ...ONCE })).rejects.toMatchObject({
      statusCode: 429,
      message: "busy",
      responseHeaders: headers,
    });
    expect((await generateText({ model, prompt, ...ONCE })).text).toBe("at last");
    resetModelCalls();
    await expect(generateText({ model, prompt, ...ONCE })).rejects.toThrow("busy");
  });

  it("breaks off its reply when the failure has no status", async () => {
    const model = new ScriptedModel({ first: "I think", fail: "lost" });
    await expect(generateText({ model, prompt: "?", ...ONCE })).rejects.toThrow("lost");
  });

  it("stops when the call is aborted, also before it starts", async () => {
    const model = new ScriptedModel({ delayMs: 60_000 });
    for (const abortSignal of [AbortSignal.timeout(20), AbortSignal.abort(new Error("stop"))]) {
      await expect(generateText({ model, prompt: "?", abortSignal, ...ONCE })).rejects.toThrow();
    }
  });

  it("longText repeats the text", () => {
    expect(longText({ text: "ab", times: 3 })).toBe("ababab");
  });
});

describe("invalid scripts", () => {
  it.each<[string, Script | unknown, RegExp]>([
    [
      "an unknown field",
      { delay: 5 },
      /^Unknown option "delay" in script. Valid options: id, text, first, /,
    ],
    ["a prototype's name", { toString: "x" }, /Unknown option "toString" in script/],
    ["null", null, /^Invalid script null: expected an object with id, /],
    ["a list", [], /^Invalid script \[\]/],
    ["an invalid delay", { delayMs: "5" }, /^Invalid delayMs "5": expected milliseconds from 0\.$/],
    [
      "half a failure",
      { fail: "no", failTimes: 0.5 },
      /^Invalid failTimes 0\.5: expected a whole number from 0/,
    ],
    [
      "a status without a failure",
      { status: 429 },
      /^Invalid script: status needs a failure\. Add fail/,
    ],
    ["a status of success", { fail: "no", status: 200 }, /expected an HTTP status from 400/],
    ["an empty list of answers", { answers: [] }, /expected a list with at least one answer/],
    ["a tool without a name", { tool: { input: 1 } }, /expected \{ name, input \}/],
    ["an invalid long text", { long: { title: "x" } }, /expected an object of \{ text, times \}/],
    ["an unknown refusal", { refuses: "text" }, /expected "tool_choice" or "tools"/],
  ])("a script with %s is refused", async (_, script, message) => {
    const attempt = () => ask(script as Script);
    expect(attempt).toThrow(InvalidScriptError);
    expect(attempt).toThrow(message);
    if (script === null) return;
    if (!Array.isArray(script)) {
      const prompt = JSON.stringify(script);
      await expect(generateText({ model: new ScriptedModel(), prompt, ...ONCE })).rejects.toThrow(
        message,
      );
    }
    expect(() => new ScriptedModel(script as Script)).toThrow(message);
  });
});
