/** Turns by the AI SDK that are cancelled, time out or fail midway. */

import type { UIMessage } from "ai";
import { describe, expect, it } from "vitest";
import { ask, modelCalls, type Script } from "../../../src/testing/index.ts";
import { message, until } from "../../support/given.ts";
import { call, inside, turnWith } from "./given-turns.ts";
import type { SdkObject } from "./sdk-object.ts";

describe("a turn that fails or is cancelled", () => {
  /** Runs it until its first words are stored, and cancels it. */
  async function cancelled(object: SdkObject, messages: UIMessage[]) {
    const controller = new AbortController();
    const running = object.run({ messages, signal: controller.signal });
    // Each part is a sign of life: start, start of the step, start of the text, and the text.
    await until(() => object.ledger.log.filter((entry) => entry === "alive").length >= 4);
    controller.abort(new Error("cancelled"));
    return running;
  }

  it("L6: a failed turn keeps its partial reply until another attempt replaces it", () =>
    inside(async (object) => {
      const script: Script = { first: "I will think", delayMs: 600_000 };
      const messages = [message(script, "asked")];
      const end = await cancelled(object, messages);
      expect(end).toMatchObject({ outcome: "aborted", messageId: "sub:reply" });
      expect((await object.texts()).at(-1)).toBe("assistant: I will think");
      const trace = await object.inspectConversation(turnWith(messages));
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
      await cancelled(object, [message({ first: "I will think", delayMs: 600_000 })]);
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
      expect(await object.inspectConversation(turnWith(messages))).toEqual({
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
      const messages = [message({ first: "I will think", delayMs: 600_000 })];
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
