import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { APICallError, type UIMessage } from "ai";
import { describe, expect, it, vi } from "vitest";
import { transientOf } from "../../../src/core/failures.ts";
import { ISOLATED, TurnRefused } from "../../../src/submissions/host.ts";
import { ask, modelCalls, type Script, ScriptedModel } from "../../../src/testing/index.ts";
import { crash, message, until } from "../../support/given.ts";
import type { SdkObject } from "./sdk-object.ts";

/** Runs in an object of the plain host, a fresh one unless it has a name. */
function inside<T>(
  work: (object: SdkObject) => Promise<T>,
  name: string = crypto.randomUUID(),
): Promise<T> {
  const stub = env.SdkObject.getByName(name) as unknown as DurableObjectStub<SdkObject>;
  return runInDurableObject(stub, (object) => work(object));
}

const traces = (messages: UIMessage[], submissionId = "sub") => ({
  submissionId,
  thread: "support",
  messages,
});

const SCHEMA = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};

const call = (name: string) => ({ name, input: {} });

describe("the messages of a named thread", () => {
  const turn = (object: SdkObject, n: number, attempt = 1) =>
    object.run({ messages: [message(`${n}`)], submissionId: `sub-${n}`, attempt });

  it("L9: a thread keeps its newest messages, and those of the open turn", () =>
    inside(async (object) => {
      object.maxThreadMessages = 10;
      const sizes: number[] = [];
      for (let n = 0; n < 20; n++) {
        await turn(object, n);
        sizes.push((await object.texts()).length);
      }
      expect(Math.max(...sizes)).toBeLessThan(14);
      const left = await object.texts();
      expect(left.slice(-4)).toEqual([
        "user: 18",
        "assistant: You said: 18",
        "user: 19",
        "assistant: You said: 19",
      ]);
      expect(left.length).toBeGreaterThanOrEqual(10);
      object.maxThreadMessages = 1;
      await object.run({ messages: ["a", "b", "c"].map((text) => message(text)) });
      expect(await object.texts()).toEqual([
        "user: a",
        "user: b",
        "user: c",
        "assistant: You said: c",
      ]);
    }));

  it("L9: a thread larger than what the model sees keeps its newest messages, too", () =>
    inside(async (object) => {
      object.maxThreadMessages = 4;
      const long = "x".repeat(3_000_000);
      for (let n = 0; n < 8; n++) {
        await object.run({ messages: [message(`${n} ${long}`)], submissionId: `sub-${n}` });
      }
      const texts = (await object.texts()).map((text) => text.slice(0, 30).split(" x")[0]);
      expect(texts.length).toBeLessThan(8);
      expect(texts.at(-2)).toBe("user: 7");
    }));

  it("L9: a first attempt in a thread reads its rows once, and a later one finds what was left", () =>
    inside(async (object) => {
      const session = object.sessions.session("perdure:support");
      const made = vi.spyOn(object.sessions, "session").mockReturnValue(session);
      const statistics = vi.spyOn(session, "getHistoryRowStats");
      const history = vi.spyOn(session, "getRecentHistory");
      for (let n = 0; n < 5; n++) await turn(object, n);
      expect(statistics).toHaveBeenCalledTimes(0);
      expect(history).toHaveBeenCalledTimes(5);
      await turn(object, 5, 2);
      expect(statistics).toHaveBeenCalledTimes(1);
      made.mockRestore();
    }));
});

describe("a turn in a named thread", () => {
  it("L4: a turn claims first, and stores its messages and its reply", () =>
    inside(async (object) => {
      const refused = () => {
        throw new TurnRefused();
      };
      const messages = [message("hello")];
      await expect(object.run({ messages, begin: refused })).rejects.toThrow(TurnRefused);
      expect(await object.texts()).toEqual([]);

      const end = await object.run({ messages });
      expect(end).toEqual({
        outcome: "completed",
        messageId: "sub:reply",
        finishReason: "stop",
        text: "You said: hello",
      });
      expect(await object.texts()).toEqual(["user: hello", "assistant: You said: hello"]);
      const isAlive = (entry: string) => entry === "alive";
      expect(object.ledger.log.filter((entry) => !isAlive(entry))).toEqual([
        "begin",
        "step 0",
        "spent",
      ]);
      expect(object.ledger.log.some(isAlive)).toBe(true);
      expect(object.ledger.usage).toEqual([{ inputTokens: 10, outputTokens: 5, totalTokens: 15 }]);
    }));

  it("L4: a turn sees the earlier messages of its thread, and none of other threads", () =>
    inside(async (object) => {
      await object.run({ messages: [message("one")], submissionId: "a" });
      await object.run({ messages: [message("elsewhere")], submissionId: "b", thread: "sales" });
      await object.run({ messages: [message("two")], submissionId: "c" });
      expect(object.model.prompts().at(-1)).toEqual([
        "user: one",
        "assistant: You said: one",
        "user: two",
      ]);
      expect(await object.texts("sales")).toHaveLength(2);
    }));

  it("L6: a repeated turn appends nothing twice", () =>
    inside(async (object) => {
      const messages = [message("first"), message("second")];
      await object.turns.threads.append("support", messages.slice(0, 1));
      expect(await object.inspectConversation(traces(messages))).toEqual({
        applied: "partial",
        hasEffects: false,
      });
      await object.run({ messages });
      await object.run({ messages });
      expect(await object.texts()).toEqual([
        "user: first",
        "user: second",
        "assistant: You said: second",
      ]);
    }));

  it("L6: after a crash a turn continues from its messages", async () => {
    const name = crypto.randomUUID();
    const text = ask({ delayMs: 500, text: "at last" });
    const messages = [message(text)];
    const lost = env.SdkObject.getByName(name).run({ messages });
    lost.catch(() => undefined);
    await until(() => modelCalls.get(text));
    await crash();
    await inside(async (object) => {
      expect(await object.inspectConversation(traces(messages))).toEqual({
        applied: "all",
        hasEffects: false,
      });
      await object.run({ messages });
      expect(await object.texts()).toEqual([`user: ${text}`, "assistant: at last"]);
    }, name);
    await crash();
    await inside(async (object) => {
      expect((await object.inspectConversation(traces(messages))).messageId).toBe("sub:reply");
    }, name);
  });

  it("L6: a repeated turn moves to the end of a thread that has newer messages", () =>
    inside(async (object) => {
      const messages = [message({ fail: "no luck" })];
      await object.run({ messages, submissionId: "a" });
      await object.run({ messages: [message("later")], submissionId: "b" });
      await object.run({ messages, submissionId: "a", attempt: 2 });
      expect(object.model.prompts().at(-1)?.at(-1)).toMatch(/^user: .*no luck/);
      expect(await object.texts()).toEqual([
        "user: later",
        "assistant: You said: later",
        expect.stringContaining("no luck"),
      ]);
    }));

  it("L6: a turn is found by its complete reply, and can be removed", () =>
    inside(async (object) => {
      const messages = [message({ tool: call("charge"), text: "paid" })];
      expect(await object.inspectConversation(traces(messages))).toEqual({
        applied: "none",
        hasEffects: false,
      });
      await object.run({ messages });
      expect(await object.inspectConversation(traces(messages))).toEqual({
        applied: "all",
        hasEffects: false,
        messageId: "sub:reply",
        text: "paid",
      });
      await object.run({ messages: [message("next")], submissionId: "next" });
      for (const _ of [1, 2]) {
        await object.removeMessages(traces(messages));
        expect(await object.texts()).toEqual(["user: next", "assistant: You said: next"]);
      }
      await object.turns.threads.clear("support");
      expect(await object.texts()).toEqual([]);
    }));
});

describe("an isolated turn", () => {
  it("L4: an isolated turn sees no other message, and leaves no row", () =>
    inside(async (object) => {
      const joining = { 1: [message("and this")] };
      await object.turns.threads.messages("support");
      const before = object.rows();
      const messages = [message({ tool: call("charge") })];
      const end = await object.run({ messages, thread: ISOLATED, joining });
      const finishReason = "stop";
      const text = "You said: and this";
      expect(end).toEqual({ outcome: "completed", finishReason, text });
      await object.run({ messages: [message("again")], thread: ISOLATED });
      expect(object.model.prompts().slice(1)).toEqual([
        [expect.any(String), "assistant: [tool-call]", "tool: [tool-result]", "user: and this"],
        ["user: again"],
      ]);
      const trace = await object.inspectConversation({ ...traces(messages), thread: ISOLATED });
      expect(trace).toEqual({ applied: "none", hasEffects: false });
      await object.removeMessages({ ...traces(messages), thread: ISOLATED });
      expect(object.rows()).toBe(before);
    }));
});

describe("a turn that fails or is cancelled", () => {
  /** Runs it until its first words are there, and cancels it. */
  async function cancelled(object: SdkObject, messages: UIMessage[]) {
    const controller = new AbortController();
    const running = object.run({ messages, signal: controller.signal });
    await until(() => object.ledger.log.includes("alive"));
    await new Promise((resolve) => setTimeout(resolve, 50));
    controller.abort(new Error("cancelled"));
    return running;
  }

  it("L6: a failed turn keeps its partial reply until another attempt replaces it", () =>
    inside(async (object) => {
      const script: Script = { first: "I will think", delayMs: 60_000 };
      const messages = [message(script, "asked")];
      const end = await cancelled(object, messages);
      expect(end).toMatchObject({ outcome: "aborted", messageId: "sub:reply" });
      expect((await object.texts()).at(-1)).toBe("assistant: I will think");
      const trace = await object.inspectConversation(traces(messages));
      expect(trace).toEqual({ applied: "all", hasEffects: false });

      // The messages are stored: what another attempt is asked is the same.
      object.lent = { maxSteps: 1, timeout: 100 };
      const timedOut = await object.run({ messages });
      expect(timedOut).toMatchObject({ outcome: "error", failure: { name: "TimeoutError" } });
      expect(object.model.prompts().at(-1)).toHaveLength(1);
      expect(await object.texts()).toHaveLength(2);
    }));

  it("L6: a later turn sees a partial reply", () =>
    inside(async (object) => {
      await cancelled(object, [message({ first: "I will think", delayMs: 60_000 })]);
      await object.run({ messages: [message("go on")], submissionId: "next" });
      expect(object.model.prompts().at(-1)?.slice(1)).toEqual([
        "assistant: I will think",
        "user: go on",
      ]);
    }));

  it("L6: a turn keeps what came before the model failed, and its next attempt sees only its messages", () =>
    inside(async (object) => {
      const text = ask({ first: "I begin", fail: "fetch failed" });
      const messages = [message(text)];
      const end = await object.run({ messages });
      expect(end).toMatchObject({
        outcome: "error",
        failure: { name: "Error", message: "fetch failed" },
        cause: expect.objectContaining({ message: "fetch failed" }),
        messageId: "sub:reply",
      });
      expect((await object.texts()).at(-1)).toBe("assistant: I begin");
      await object.run({ messages });
      expect(modelCalls.get(text)).toBe(2);
      expect(object.model.prompts().at(-1)).toEqual([`user: ${text}`]);
      expect(await object.texts()).toHaveLength(2);
    }));

  it("L6: messages that joined an earlier attempt are shown to the model once", () =>
    inside(async (object) => {
      const messages = [message({ tool: call("charge") })];
      const joined = message({ first: "I begin", fail: "broken" });
      await object.run({ messages, joining: { 1: [joined] } });
      expect(await object.inspectConversation(traces(messages))).toEqual({
        applied: "all",
        hasEffects: false,
      });
      await object.turns.threads.append("support", [message("more")]);
      // The ledger hands over what had joined together with the messages.
      const all = [...messages, joined];
      await object.run({ messages: all, joining: { 0: [joined] }, attempt: 2 });
      expect(
        object.model
          .prompts()
          .at(-1)
          ?.map((text) => text.slice(0, 10)),
      ).toEqual(["user: more", 'user: {"to', 'user: {"fi']);
      expect((await object.texts()).slice(2)).toEqual([
        expect.stringContaining("I begin"),
        "assistant: I begin",
      ]);
    }));

  it("L2: a late attempt does not overwrite the reply of a later one", () =>
    inside(async (object) => {
      const messages = [message({ first: "I will think", delayMs: 300 })];
      const controller = new AbortController();
      const late = object.run({ messages, signal: controller.signal });
      await until(() => object.model.calls.length > 0);
      const whole = {
        id: "sub:reply",
        role: "assistant",
        parts: [{ type: "text", text: "whole" }],
      };
      await object.turns.threads.reply("support", whole as UIMessage);
      controller.abort();
      expect((await late).outcome).toBe("aborted");
      expect((await object.texts()).at(-1)).toBe("assistant: whole");
    }));
});

describe("the ledger", () => {
  it("L9: the ledger refuses a call before it is made", () =>
    inside(async (object) => {
      const end = await object.run({ messages: [message("hello")], budgetEndsAt: 0 });
      expect(end).toMatchObject({
        outcome: "error",
        failure: { name: "BudgetExceededError", message: "No tokens left" },
        cause: expect.objectContaining({ name: "BudgetExceededError" }),
      });
      expect(object.model.calls).toEqual([]);
      expect(await object.texts()).toEqual(["user: hello"]);
    }));

  it("L9: the ledger refuses a later call after a tool has had its effect", () =>
    inside(async (object) => {
      const messages = [message({ tool: call("charge") })];
      const end = await object.run({ messages, budgetEndsAt: 1 });
      expect(end).toMatchObject({
        outcome: "error",
        failure: { name: "BudgetExceededError" },
        messageId: "sub:reply",
      });
      expect(object.model.calls).toHaveLength(1);
      expect((await object.inspectConversation(traces(messages))).messageId).toBeUndefined();
    }));

  it("L4: messages join at the next step, and stay", () =>
    inside(async (object) => {
      const first = message({ tool: call("charge") });
      const second = message({ tools: [call("charge")], text: "both done" });
      await object.run({ messages: [first], joining: { 1: [second] } });
      const [, ...later] = object.model.prompts();
      const secondText = expect.stringContaining("both done");
      const head = [
        expect.any(String),
        "assistant: [tool-call]",
        "tool: [tool-result]",
        secondText,
      ];
      expect(later).toEqual([head, [...head, "assistant: [tool-call]", "tool: [tool-result]"]]);
      expect(await object.texts()).toEqual([
        expect.stringContaining("charge"),
        secondText,
        "assistant: [tool-charge][tool-charge]both done",
      ]);
    }));

  it("L6: tool calls are recorded before they run, and the tokens of each model call after it", () =>
    inside(async (object) => {
      const messages = [message({ tools: [call("charge"), call("count"), call("breaks")] })];
      const end = await object.run({ messages });
      expect(end.outcome).toBe("completed");
      const log = object.ledger.log.filter((entry) => entry !== "alive");
      expect(log).toEqual([
        ...["begin", "step 0", "acts", "charged", "spent"],
        ...["step 1", "acts", "spent"],
        ...["step 2", "acts", "spent", "step 3", "spent"],
      ]);
      const reply = (await object.turns.threads.messages("support")).at(-1);
      expect(reply?.parts).toContainEqual(expect.objectContaining({ output: 2 }));
      expect(reply?.parts).toContainEqual(
        expect.objectContaining({ errorText: expect.stringContaining("The tool is broken") }),
      );
    }));
});

describe("the agent's tools and hooks", () => {
  it("L4: tools are offered unless they need a client or an approval", () =>
    inside(async (object) => {
      await object.run({ messages: [message("hello")] });
      expect(object.model.offered()).toEqual([["charge", "count", "breaks"]]);
    }));

  it("L4: hooks decide on tool calls and steps", () =>
    inside(async (object) => {
      const seen: string[] = [];
      object.lent = {
        hooks: {
          beforeTool: ({ toolName, input }) =>
            toolName === "charge"
              ? { run: false, output: "Ask the owner" }
              : { run: true, input: { ...(input as object), extra: true } },
          afterTool: ({ toolCall }) => void seen.push(`after ${toolCall.toolName}`),
          beforeStep: ({ stepNumber }) => {
            seen.push(`before ${stepNumber}`);
            return stepNumber === 2 ? { toolChoice: "none" } : undefined;
          },
          onStepEnd: ({ finishReason }) => void seen.push(finishReason),
          onChunk: ({ chunk }) => void (chunk.type === "text-delta" && seen.push(chunk.text)),
        },
      };
      const tools = ["charge", "count", "charge"].map(call);
      const end = await object.run({ messages: [message({ tools, text: "fine" })] });
      expect(end.outcome).toBe("completed");
      expect(object.ledger.log.filter((entry) => /acts|charged/.test(entry))).toEqual(["acts"]);
      expect(seen).toEqual([
        ...["before 0", "after charge", "tool-calls"],
        ...["before 1", "after count", "tool-calls"],
        ...["before 2", "fine", "stop"],
      ]);
      const reply = (await object.turns.threads.messages("support")).at(-1);
      expect(reply?.parts).toContainEqual(expect.objectContaining({ output: "Ask the owner" }));
    }));

  it("L7: a turn fails with the error of setup()", () =>
    inside(async (object) => {
      Object.defineProperty(object, "lent", {
        get() {
          throw new TypeError("No model is configured");
        },
      });
      const end = await object.run({ messages: [message("hello")] });
      expect(end).toMatchObject({
        outcome: "error",
        failure: { name: "TypeError", message: "No model is configured" },
      });
    }));
});

const overloaded = () =>
  new APICallError({
    message: "overloaded",
    url: "http://model.test",
    requestBodyValues: {},
    statusCode: 529,
    responseHeaders: { "retry-after-ms": "1" },
    isRetryable: true,
  });

/** Cannot be reached. */
class OverloadedModel extends ScriptedModel {
  override async doStream(): Promise<never> {
    throw overloaded();
  }
}

/** Fails as overloaded. */
class FaultyModel extends ScriptedModel {
  override async doStream(options: Parameters<ScriptedModel["doStream"]>[0]) {
    const { stream } = await super.doStream(options);
    const faulty = new TransformStream({
      start: (controller) => controller.enqueue({ type: "error", error: overloaded() }),
    });
    return { stream: stream.pipeThrough(faulty) };
  }
}

describe("failures of the provider", () => {
  it("L8: a provider error keeps its status", () =>
    inside(async (object) => {
      const headers = { "retry-after": "7" };
      const messages = [message({ fail: "overloaded", status: 529, headers })];
      const end = await object.run({ messages });
      expect(end).toMatchObject({
        outcome: "error",
        failure: { name: "AI_APICallError", message: "overloaded" },
      });
      const cause = end.outcome === "error" ? end.cause : undefined;
      expect(transientOf(cause, 0)).toEqual({ retryAfterMs: 7_000 });
    }));

  it("L8: a provider error keeps its status through the AI SDK's own retries", () =>
    inside(async (object) => {
      object.lent = { model: new OverloadedModel(), maxRetries: 1 };
      const end = await object.run({ messages: [message("hello")] });
      const cause = end.outcome === "error" ? end.cause : undefined;
      expect(cause).toMatchObject({ name: "AI_RetryError" });
      expect(transientOf(cause, 0)).toEqual({ retryAfterMs: 1 });
    }));

  it("L7: an error in the middle of a reply ends the turn, whatever comes after it", () =>
    inside(async (object) => {
      object.lent = { model: new FaultyModel() };
      const end = await object.run({ messages: [message({ tool: call("charge") })] });
      expect(end).toMatchObject({ outcome: "error" });
      expect(end).toHaveProperty("cause.statusCode", 529);
      expect(object.ledger.log.filter((entry) => entry.startsWith("step"))).toEqual(["step 0"]);
    }));

  it("L7: a provider error prints nothing and leaves no unhandled rejection", () =>
    inside(async (object) => {
      const unhandled = vi.fn();
      const printed = vi.spyOn(console, "error");
      globalThis.addEventListener("unhandledrejection", unhandled);
      for (const script of [{ fail: "a" }, { fail: "b", status: 500 }, { first: "c", fail: "c" }]) {
        const end = await object.run({ messages: [message(script)], submissionId: script.fail });
        expect(end.outcome).toBe("error");
      }
      await object.run({ messages: [message("d")], submissionId: "d", budgetEndsAt: 0 });
      const signal = AbortSignal.abort(new Error("cancelled"));
      const end = await object.run({ messages: [message("e")], submissionId: "e", signal });
      expect(end.outcome).toBe("aborted");
      await new Promise((resolve) => setTimeout(resolve, 50));
      globalThis.removeEventListener("unhandledrejection", unhandled);
      expect(unhandled).not.toHaveBeenCalled();
      expect(printed).not.toHaveBeenCalled();
      printed.mockRestore();
    }));

  it("L6: an error of the platform is thrown, and is not the turn's error", () =>
    inside(async (object) => {
      const reset = Object.assign(new Error("Durable Object reset because its code was updated."), {
        durableObjectReset: true,
      });
      object.lent = {
        hooks: {
          beforeStep: () => {
            throw reset;
          },
        },
      };
      await expect(object.run({ messages: [message("hello")] })).rejects.toBe(reset);
    }));
});

describe("a structured answer", () => {
  const answer = { schema: SCHEMA };

  it("L7: a structured answer is recorded, and its call is not stored", () =>
    inside(async (object) => {
      const script: Script = { tool: call("charge"), answer: { city: "Porto" } };
      const end = await object.run({ messages: [message(script)], answer });
      expect(end).toMatchObject({ outcome: "completed", messageId: "sub:reply" });
      expect(object.ledger.answers).toEqual([{ city: "Porto" }]);
      expect(object.ledger.log.filter((entry) => entry === "acts")).toHaveLength(1);
      expect((await object.texts()).at(-1)).toBe("assistant: [tool-charge]");
      expect(object.model.calls[0]?.toolChoice).toEqual({ type: "required" });
    }));

  it("L9: an answer that is nested too deep is refused", () =>
    inside(async (object) => {
      let deep: unknown = "Porto";
      for (let level = 0; level <= 500; level++) deep = { city: deep };
      const end = await object.run({
        messages: [message({ answer: deep })],
        answer: { schema: { type: "object" } },
      });
      expect(end).toMatchObject({ outcome: "error", failure: { name: "InvalidAnswerError" } });
      expect(end).toHaveProperty(
        "failure.message",
        expect.stringContaining("nested more than 500 levels deep"),
      );
    }));

  it("L7: a turn with only a structured answer leaves no reply", () =>
    inside(async (object) => {
      const messages = [message({ answer: { city: "Porto" } })];
      const end = await object.run({ messages, answer });
      expect(end).toEqual({
        outcome: "completed",
        messageId: undefined,
        finishReason: "tool-calls",
        text: "",
      });
      expect(await object.texts()).toHaveLength(1);
    }));

  it("W4: a missing answer fails the turn", () =>
    inside(async (object) => {
      const messages = [message({ ignoreTools: true, text: "Porto" })];
      const end = await object.run({ messages, answer });
      expect(end).toMatchObject({
        outcome: "error",
        failure: { name: "UnansweredPromptError" },
      });
      expect((await object.inspectConversation(traces(messages))).messageId).toBeUndefined();
    }));

  it("W4: an answer that does not match its schema fails the turn", () =>
    inside(async (object) => {
      const messages = [message({ tool: call("charge"), answer: { town: "Porto" } })];
      const end = await object.run({ messages, answer });
      expect(end).toMatchObject({
        outcome: "error",
        failure: { name: "InvalidAnswerError", message: expect.stringContaining("city") },
      });
      expect(object.ledger.answers).toEqual([]);
    }));

  it("W4: an answer that is not an object is a property of the arguments, and its references are adapted", () =>
    inside(async (object) => {
      const items = { anyOf: [{ $ref: "#" }, { $ref: "#/$defs/Leaf" }, { $ref: "#/anyOf/0" }] };
      const $defs = { Leaf: { type: "number" } };
      const schema = { anyOf: [{ type: "string" }, { type: "array", items }], $defs };
      const script = { answer: { answer: ["a", ["b"], 1] } };
      await object.run({ messages: [message(script)], answer: { schema } });
      expect(object.ledger.answers).toEqual([["a", ["b"], 1]]);
      const offered = object.model.calls[0]?.tools?.find(({ name }) =>
        name.startsWith("think_final"),
      );
      const own = "#/properties/answer";
      const refs = [{ $ref: own }, { $ref: "#/$defs/Leaf" }, { $ref: `${own}/anyOf/0` }];
      expect(offered).toMatchObject({
        inputSchema: {
          properties: { answer: { anyOf: [{}, { items: { anyOf: refs } }] } },
          $defs,
        },
      });
    }));

  it("W4: the last step asks for the answer, whatever the app has set", () =>
    inside(async (object) => {
      object.lent = { maxSteps: 2, toolChoice: "none", activeTools: ["charge"] };
      const tools = ["charge", "charge"].map(call);
      await object.run({ messages: [message({ tools, answer: { city: "Porto" } })], answer });
      expect(object.model.offered()).toEqual([
        ["charge", "think_final_answer"],
        ["think_final_answer"],
      ]);
      expect(object.model.calls.at(-1)?.toolChoice).toEqual({
        type: "tool",
        toolName: "think_final_answer",
      });
    }));
});
