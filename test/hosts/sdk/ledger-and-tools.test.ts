/** What turns by the AI SDK report to the ledger, and the tools and hooks of their agent. */

import { describe, expect, it } from "vitest";
import { message } from "../../support/given.ts";
import { call, inside, turnWith } from "./given-turns.ts";

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
      expect((await object.inspectConversation(turnWith(messages))).messageId).toBeUndefined();
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
