/** Each feature of AIChatAgent works as it does without Perdure. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, expect, it, vi } from "vitest";
import { modelCalls } from "../../../src/testing/index.ts";
import { charges } from "../../contract/hosts/app.ts";
import { ChatHost } from "../../contract/hosts/chat-host.ts";
import { MCP_URL, serveMcp } from "../../contract/hosts/mcp-server.ts";
import { message, until } from "../../support/given.ts";
import { hold } from "../../support/held-model.ts";
import { client, givenChat } from "./given-chat.ts";

afterEach(() => vi.restoreAllMocks());

const unique = () => ({ id: crypto.randomUUID() });

it("a client chats over a WebSocket, and sees the replies to submissions", async () => {
  const chat = givenChat("ChatApp");
  const socket = await client(chat.name);
  const request = socket.ask([message("Hello", "first")]);
  await socket.done(request);
  expect(socket.bodies(request).join()).toContain("You said: Hello");
  const { submissionId } = await chat.verbs().submitMessages([message("From the server")]);
  await chat.ended(submissionId);
  await until(() => JSON.stringify(socket.frames).includes("You said: From the server"));
  expect(chat.hooks()).toContain("response: completed assistant");
  socket.close();
});

it("L5: a client that clears the chat ends what runs and what is pending", async () => {
  const chat = givenChat("ChatApp");
  const socket = await client(chat.name);
  const asked = message({ ...unique(), delayMs: 600_000 });
  const running = await chat.verbs().submitMessages([asked]);
  await chat.running(running.submissionId);
  const pending = await chat.verbs().submitMessages([message("pending")]);
  socket.send({ type: "cf_agent_chat_clear" });
  expect(await chat.ended(running.submissionId)).toMatchObject({ status: "aborted" });
  expect(await chat.ended(pending.submissionId)).toMatchObject({ status: "skipped" });
  const next = await chat.verbs().submitMessages([message("next")]);
  expect(await chat.ended(next.submissionId)).toMatchObject({ status: "completed" });
  socket.close();
});

it("L5: nothing of a running turn comes back after a client has cleared the chat", async () => {
  const chat = givenChat("ChatApp");
  const socket = await client(chat.name);
  const asked = message({ ...unique(), first: "partial", delayMs: 600_000 });
  const { submissionId } = await chat.verbs().submitMessages([asked]);
  await until(() => JSON.stringify(socket.frames).includes("partial"));
  socket.send({ type: "cf_agent_chat_clear" });
  expect(await chat.ended(submissionId)).toMatchObject({ status: "aborted" });
  const next = await chat.verbs().submitMessages([message("next")]);
  await chat.ended(next.submissionId);
  expect(await chat.texts()).toEqual(["user: next", "assistant: You said: next"]);
  socket.close();
});

it("L5: nothing of a running turn comes back after clearMessages()", async () => {
  const chat = givenChat("ChatApp");
  const socket = await client(chat.name);
  const asked = message({ ...unique(), first: "partial", delayMs: 600_000 });
  const { submissionId } = await chat.verbs().submitMessages([asked]);
  await until(() => JSON.stringify(socket.frames).includes("partial"));
  await chat.verbs().clearMessages();
  expect(await chat.ended(submissionId)).toMatchObject({ status: "aborted" });
  expect(await chat.texts()).toEqual([]);
  await until(() => socket.frames.some(({ type }) => type === "cf_agent_chat_clear"));
  socket.close();
});

it("a client that cancels a turn ends its submission as aborted", async () => {
  const chat = givenChat("ChatApp");
  const socket = await client(chat.name);
  const asked = message({ ...unique(), first: "partial", delayMs: 600_000 });
  const { submissionId } = await chat.verbs().submitMessages([asked]);
  const frame = await until(() =>
    socket.frames.find(({ body }) => String(body).includes("partial")),
  );
  socket.send({ type: "cf_agent_chat_request_cancel", id: frame.id });
  expect(await chat.ended(submissionId)).toMatchObject({ status: "aborted" });
  socket.close();
});

it("L6: a message of a client that waits behind a submission does not disturb its recovery", async () => {
  const chat = givenChat("ChatApp");
  const socket = await client(chat.name);
  const account = crypto.randomUUID();
  const tool = { name: "charge", input: { account } };
  const { script, release } = hold({ tool, text: "paid" }, { passes: 1 });
  const asked = message(script);
  const { submissionId } = await chat.verbs().submitMessages([asked]);
  await until(() => charges.get(account) === 1);
  socket.ask([asked, message("Hello")]);
  await until(async () => (await chat.texts()).includes("user: Hello"));
  await chat.crash();
  release();
  expect(await chat.ended(submissionId)).toMatchObject({ status: "completed" });
  expect(charges.get(account)).toBe(1);
});

it("a turn of a client is recovered after a submission that has failed", async () => {
  const chat = givenChat("ChatApp");
  const failing = message({ ...unique(), fail: "The model refuses", status: 400 });
  const { submissionId } = await chat.verbs().submitMessages([failing]);
  expect(await chat.ended(submissionId)).toMatchObject({ status: "error" });
  const socket = await client(chat.name);
  const { script, release } = hold({ text: "recovered" });
  const stored = await chat.verbs().threadMessages("main");
  socket.ask([...stored, message(script)]);
  await until(() => (modelCalls.get(JSON.stringify(script)) ?? 0) > 0);
  await chat.crash();
  release();
  await until(async () => (await chat.texts()).includes("assistant: recovered"));
});

it("a client runs its tool, and the chat continues with the result", async () => {
  const chat = givenChat("ChatApp");
  const socket = await client(chat.name);
  const script = { ...unique(), tool: { name: "where", input: { unit: "city" } }, text: "found" };
  await socket.done(socket.ask([message(script, "asked")]));
  const { toolCallId } = await callOf(chat, "tool-where");
  socket.send({
    type: "cf_agent_tool_result",
    toolCallId,
    toolName: "where",
    output: "Paris",
    autoContinue: true,
  });
  await until(async () => (await chat.texts()).includes("assistant: found"));
  socket.close();
});

it("a tool waits for the client's approval", async () => {
  const chat = givenChat("ChatApp");
  const socket = await client(chat.name);
  const account = crypto.randomUUID();
  const script = { ...unique(), tool: { name: "pay", input: { account } }, text: "paid" };
  await socket.done(socket.ask([message(script, "asked")]));
  const call = await callOf(chat, "tool-pay");
  expect(charges.get(account)).toBeUndefined();
  socket.send({
    type: "cf_agent_tool_approval",
    toolCallId: call.toolCallId,
    approved: true,
    autoContinue: true,
  });
  await until(() => charges.get(account) === 1);
  socket.close();
});

it("a tool of a submission waits for the client's approval after the submission's end", async () => {
  const chat = givenChat("ChatApp");
  const socket = await client(chat.name);
  const account = crypto.randomUUID();
  const script = { ...unique(), tool: { name: "pay", input: { account } }, text: "paid" };
  const { submissionId } = await chat.verbs().submitMessages([message(script)]);
  expect(await chat.ended(submissionId)).toMatchObject({ status: "completed" });
  const { toolCallId } = await callOf(chat, "tool-pay");
  const approval = { type: "cf_agent_tool_approval", approved: true, autoContinue: true };
  socket.send({ ...approval, toolCallId });
  await until(() => charges.get(account) === 1);
  socket.close();
});

it("state, schedules, the queue, fibers, sub-agents and MCP are those of the SDK", async () => {
  const chat = givenChat("ChatApp");
  expect(await chat.verbs().ofTheSdk()).toEqual({
    visits: 1,
    fiber: "done",
    child: [],
    tools: [],
  });
  await until(() => {
    const noted = chat.hooks();
    return noted.includes("scheduled") && noted.includes("queued");
  });
});

it("a turn calls a tool of an MCP server, also in the first turn after a restart, when the server is slow", async () => {
  const server = serveMcp();
  const chat = givenChat("ChatApp");
  const [name = "no tool"] = await chat.verbs().connectMcp();
  for (const city of ["Oslo", "Rome"]) {
    const script = { ...unique(), tool: { name, input: { city } }, text: "ok" };
    const { submissionId } = await chat.verbs().submitMessages([message(script)]);
    expect(await chat.ended(submissionId)).toMatchObject({ output: "ok" });
    expect(JSON.stringify(await chat.verbs().threadMessages("main"))).toContain(`Sunny in ${city}`);
    server.latencyMs = 700;
    await chat.crash();
  }
});

it("a turn of another thread waits for a slow MCP server after a restart", async () => {
  const server = serveMcp();
  const chat = () => env.ChatHost.getByName(name);
  const name = `side-${crypto.randomUUID()}`;
  const inside = <T>(work: (object: ChatHost) => T) =>
    runInDurableObject(chat() as unknown as DurableObjectStub<ChatHost>, work);
  const tool = await inside(async (object) => {
    await object.addMcpServer("weather", MCP_URL);
    return Object.keys(object.mcp.getAITools())[0] ?? "no tool";
  });
  vi.spyOn(ChatHost.prototype, "getTools").mockImplementation(function (this: ChatHost) {
    return this.mcp.getAITools() as never;
  });
  server.latencyMs = 700;
  await runInDurableObject(chat() as unknown as DurableObjectStub, (_, ctx) =>
    ctx.abort("crash"),
  ).catch(() => {});
  const script = { ...unique(), tool: { name: tool, input: { city: "Lima" } }, text: "ok" };
  const { submissionId } = await chat().submitMessages([message(script)], { thread: "aside" });
  await until(async () => (await chat().inspectSubmission(submissionId))?.status === "completed");
  expect(JSON.stringify(await chat().threadMessages("aside"))).toContain("Sunny in Lima");
});

it("a client calls callable methods, and gets the state", async () => {
  const chat = givenChat("ChatApp");
  const socket = await client(chat.name);
  socket.send({ type: "rpc", id: "1", method: "greet", args: ["Ann"] });
  const answer = await until(() => socket.frames.find(({ type, id }) => type === "rpc" && id));
  expect(answer).toMatchObject({ success: true, result: "Hello Ann" });
  expect(socket.frames.some(({ type }) => type === "cf_agent_state")).toBe(true);
  socket.close();
});

async function callOf(chat: ReturnType<typeof givenChat>, type: string) {
  return until(async () => {
    const last = JSON.parse(await chat.verbs().last()) as {
      parts: { type: string; toolCallId: string }[];
    };
    return last.parts.find((part) => part.type === type);
  });
}
