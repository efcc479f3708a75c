/** Structured answers of turns by the AI SDK. */

import { describe, expect, it } from "vitest";
import { type Script, ScriptedModel } from "../../../src/testing/index.ts";
import { message } from "../../support/given.ts";
import { call, inside, turnWith } from "./given-turns.ts";

const SCHEMA = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};

/** Gives a second answer in the same step. */
class TwiceAnswering extends ScriptedModel {
  constructor(private readonly second: unknown) {
    super();
  }

  override async doStream(options: Parameters<ScriptedModel["doStream"]>[0]) {
    const { stream, ...rest } = await super.doStream(options);
    const input = JSON.stringify(this.second);
    type Part = typeof stream extends ReadableStream<infer P> ? P : never;
    const twice = new TransformStream<Part, Part>({
      transform(part, controller) {
        controller.enqueue(part);
        if (part.type === "tool-call") controller.enqueue({ ...part, toolCallId: "second", input });
      },
    });
    return { ...rest, stream: stream.pipeThrough(twice) };
  }
}

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

  it("W4: different answers in one step are refused, and one that is given twice is taken", () =>
    inside(async (object) => {
      const [porto, rome] = [{ city: "Porto" }, { city: "Rome" }];
      const run = (second: unknown) => {
        object.lent = { model: new TwiceAnswering(second) };
        return object.run({ messages: [message({ answer: porto })], answer });
      };
      expect(await run(rome)).toMatchObject({
        outcome: "error",
        failure: {
          name: "InvalidAnswerError",
          message: expect.stringContaining("given 2 times, and with different arguments"),
        },
        answer: { answer: "invalid" },
      });
      expect(object.ledger.answers).toEqual([]);
      // The second call gives the same, or what does not match the schema.
      for (const second of [porto, { town: "Rome" }]) {
        expect(await run(second)).toMatchObject({ outcome: "completed" });
        expect(object.ledger.answers).toEqual([porto]);
      }
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
      expect((await object.inspectConversation(turnWith(messages))).messageId).toBeUndefined();
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
