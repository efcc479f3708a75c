/** A chat crashes at any write of a turn, with and without `durable()`, and its recovery gives up or is declined. */

import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { method } from "../../../src/outbox/index.ts";
import { type CrashScenario, crashAtEveryWrite, modelCalls } from "../../../src/testing/index.ts";
import { charges } from "../../contract/hosts/app.ts";
import { message, until } from "../../support/given.ts";
import { hold } from "../../support/held-model.ts";
import { HANG_MS, sizeOf } from "../../support/sizes.ts";
import { type ChatApp, heardEnds, openings } from "./chat-app.ts";
import { client, givenChat } from "./given-chat.ts";

const STRIDE = sizeOf("CRASH_STRIDE", 23);
const SCHEMA = {
  type: "object",
  properties: { title: { type: "string" } },
  required: ["title"],
} as never;

type Chats = Pick<ChatApp, "inspectSubmission" | "submitMessages" | "threadMessages">;

function chats(stub: unknown): Chats {
  return stub as Chats;
}

/** @param output what the submission must end with */
function turn(
  objects: unknown,
  script: (id: string) => object,
  output: (id: string) => unknown,
  more: object = {},
): CrashScenario<undefined> {
  return {
    name: "a turn of a chat",
    objects: objects as DurableObjectNamespace<undefined>,
    concurrency: 4,
    stride: STRIDE,
    timeout: HANG_MS,
    steps: [
      (stub, { id }) =>
        chats(stub).submitMessages([message({ id, ...script(id) }, `asked-${id}`)], {
          submissionId: id,
          notify: method("hear"),
          ...more,
        }),
    ],
    check: async (stub, { id }) => {
      const found = await chats(stub).inspectSubmission(id);
      const wanted = JSON.stringify(output(id));
      const stored = await chats(stub).threadMessages("main");
      const asked = stored.filter(({ id: messageId }) => messageId === `asked-${id}`).length;
      const problems = [
        found?.status !== "completed" && `L1 ${found?.status}: ${found?.error}`,
        JSON.stringify(found?.output) !== wanted && `L7 ${JSON.stringify(found?.output)}`,
        asked !== 1 && `L6 the message is stored ${asked} times`,
        (charges.get(id) ?? 0) > 1 && `L6 charged ${charges.get(id)} times`,
        new Set(heardEnds.get(id)).size !== 1 && "O1 not one delivery of the end",
      ];
      return problems.filter((problem) => typeof problem === "string");
    },
  };
}

describe("L1 L6 L7 O1: a turn ends once after a crash at any write", () => {
  it("with a tool and a structured answer", async () => {
    const script = (id: string) => ({
      tool: { name: "charge", input: { account: id } },
      answer: { title: "Printer" },
    });
    const scenario = turn(env.ChatApp, script, () => ({ title: "Printer" }), { output: SCHEMA });
    const { wrong } = await crashAtEveryWrite(scenario);
    expect(wrong).toEqual([]);
  });

  it("without durable()", async () => {
    const text = () => ({ text: "answered", delayMs: 5 });
    const { wrong } = await crashAtEveryWrite(turn(env.PlainChat, text, () => "answered"));
    expect(wrong).toEqual([]);
  });
});

/** A submission whose turn hangs, once the model was called. */
async function hanging(script: object) {
  const chat = givenChat("ChatApp");
  const asked = { id: crypto.randomUUID(), hangTimes: 100, ...script };
  const { submissionId } = await chat.verbs().submitMessages([message(asked)]);
  const calls = () => modelCalls.get(JSON.stringify(asked)) ?? 0;
  await until(() => calls() > 0);
  return { chat, submissionId, calls };
}

it("L1: a turn whose recovery the chat gives up ends in an error", async () => {
  const { chat, submissionId, calls } = await hanging({});
  for (let crashes = 0; crashes < 8; crashes++) {
    const before = calls();
    await chat.crash();
    const status = await until(async () => {
      const found = await chat.verbs().inspectSubmission(submissionId);
      return (calls() > before || found?.status !== "running") && found?.status;
    });
    if (status !== "running") break;
  }
  expect(await chat.ended(submissionId)).toMatchObject({
    status: "error",
    errorName: "TurnInterruptedError",
  });
  expect(chat.hooks().some((hook) => hook.startsWith("exhausted"))).toBe(true);
});

it("L1: a turn that onChatRecovery() declines to continue ends in an error", async () => {
  const { chat, submissionId } = await hanging({ text: "declined" });
  await chat.crash();
  expect(await chat.ended(submissionId)).toMatchObject({
    status: "error",
    errorName: "TurnInterruptedError",
  });
});

describe("a turn without messages, in which the assistant speaks first", () => {
  /** The object crashes in the middle of the reply. */
  async function interruptedOpening() {
    const chat = givenChat("ChatApp");
    const words = "one two three four five six seven eight nine ten eleven twelve thirteen";
    const { script, release } = hold({ wordMs: 1, text: words }, { words: 12 });
    openings.set(chat.name, JSON.stringify(script));
    const socket = await client(chat.name);
    chat
      .verbs()
      .speak()
      .catch(() => {});
    await until(() => JSON.stringify(socket.frames).includes("twelve"));
    await chat.crash();
    release();
    return { chat, words };
  }

  it("L6: the chat's recovery continues it after a crash", async () => {
    const { chat, words } = await interruptedOpening();
    await until(async () => (await chat.texts()).join().endsWith(words));
    expect(await chat.texts()).toHaveLength(1);
    expect(chat.hooks().filter((hook) => hook.startsWith("recovery"))).toHaveLength(1);
  });

  it.each([false, true])(
    "L5: it does not come back after its conversation was cleared by clearMessages(), or by a client (%s)",
    async (byClient) => {
      const { chat } = await interruptedOpening();
      if (byClient) (await client(chat.name)).send({ type: "cf_agent_chat_clear" });
      else await chat.verbs().clearMessages();
      openings.delete(chat.name);
      await until(async () => (await chat.texts()).length === 0);
      // It would be before a later turn in the chat's queue.
      expect(await chat.verbs().chat("next")).toMatchObject({ status: "completed" });
      expect(await chat.texts()).toEqual(["user: next", "assistant: You said: next"]);
    },
  );
});
