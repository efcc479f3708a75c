/** Turns by the AI SDK in named threads, and isolated ones. */

import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { TurnRefused } from "../../../src/submissions/host.ts";
import { ISOLATED } from "../../../src/submissions/threads.ts";
import { ask, modelCalls } from "../../../src/testing/index.ts";
import { crash, message, until } from "../../support/given.ts";
import { hold } from "../../support/held-model.ts";
import { call, inside, turnWith } from "./given-turns.ts";
import type { SdkObject } from "./sdk-object.ts";

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
      expect(await object.inspectConversation(turnWith(messages))).toEqual({
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
    const { script, release } = hold({ text: "at last" });
    const text = ask(script);
    const messages = [message(text)];
    const lost = env.SdkObject.getByName(name).run({ messages });
    lost.catch(() => undefined);
    await until(() => modelCalls.get(text));
    await crash();
    release();
    await inside(async (object) => {
      expect(await object.inspectConversation(turnWith(messages))).toEqual({
        applied: "all",
        hasEffects: false,
      });
      await object.run({ messages });
      expect(await object.texts()).toEqual([`user: ${text}`, "assistant: at last"]);
    }, name);
    await crash();
    await inside(async (object) => {
      expect((await object.inspectConversation(turnWith(messages))).messageId).toBe("sub:reply");
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
      expect(await object.inspectConversation(turnWith(messages))).toEqual({
        applied: "none",
        hasEffects: false,
      });
      await object.run({ messages });
      expect(await object.inspectConversation(turnWith(messages))).toEqual({
        applied: "all",
        hasEffects: false,
        messageId: "sub:reply",
        text: "paid",
      });
      await object.run({ messages: [message("next")], submissionId: "next" });
      for (const _ of [1, 2]) {
        await object.removeMessages(turnWith(messages));
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
      const trace = await object.inspectConversation({ ...turnWith(messages), thread: ISOLATED });
      expect(trace).toEqual({ applied: "none", hasEffects: false });
      await object.removeMessages({ ...turnWith(messages), thread: ISOLATED });
      expect(object.rows()).toBe(before);
    }));
});
