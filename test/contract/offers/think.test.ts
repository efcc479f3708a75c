/** What Think offers keeps working on DurableThink, each in a turn of a submission where it can be. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, expect, it, vi } from "vitest";
import { modelCalls } from "../../../src/testing/index.ts";
import { clientOf } from "../../support/client.ts";
import { message, until } from "../../support/given.ts";
import { serveMcp } from "../hosts/mcp-server.ts";
import { done } from "../hosts/offer-think.ts";

const given = (name = `offer-${crypto.randomUUID()}`) => env.OfferThink.getByName(name);
type Offer = ReturnType<typeof given>;
const doneBy = ({ name }: Offer) => done.get(name ?? "") ?? [];

/** A turn that calls these tools. */
async function calls(agent: Offer, ...tools: { name: string; input: object }[]) {
  const asked = message({
    id: crypto.randomUUID(),
    ...(tools[0] && { tools }),
    text: "all called",
  });
  const { submissionId } = await agent.submitMessages([asked]);
  expect(await agent.waitForSubmission(submissionId)).toMatchObject({
    status: "completed",
    output: "all called",
  });
}

/** What the agent has said, and the calls of its tools. */
async function replies(agent: Offer): Promise<string> {
  const messages = await agent.threadMessages("main");
  return JSON.stringify(messages.filter(({ role }) => role === "assistant"));
}

async function callOf(agent: Offer, type: string) {
  const messages = await agent.threadMessages("main");
  const parts = messages.flatMap((one) => one.parts as { type: string; toolCallId: string }[]);
  return parts.find((part) => part.type === type);
}

afterEach(() => vi.restoreAllMocks());

it("a client chats over a WebSocket, and sees the replies to submissions", async () => {
  const agent = given();
  const client = await clientOf(agent);
  const request = client.ask([message("Hello")]);
  await client.done(request);
  expect(client.bodies(request).join()).toContain("You said: Hello");
  const { submissionId } = await agent.submitMessages([message("From the server")]);
  await agent.waitForSubmission(submissionId);
  await client.text("You said: From the server");
});

it("a client runs its own tool, and the chat continues with the result", async () => {
  const agent = given();
  const client = await clientOf(agent);
  const tool = { name: "where", input: {} };
  const asked = message({ id: crypto.randomUUID(), tool, text: "found you" });
  const schema = { name: "where", description: "Where the user is", parameters: {} };
  await client.done(client.ask([asked], { clientTools: [schema] }));
  const { toolCallId } = await until(() => callOf(agent, "tool-where"));
  client.send({
    type: "cf_agent_tool_result",
    toolCallId,
    toolName: "where",
    output: "Paris",
    autoContinue: true,
  });
  await until(async () => (await replies(agent)).includes("found you"));
  const { submissionId } = await agent.submitMessages([message("And now?")]);
  expect(await agent.waitForSubmission(submissionId)).toMatchObject({ status: "completed" });
});

it("an action of a turn runs once for its key", async () => {
  const agent = given();
  const refund = { name: "refund", input: { order: "7" } };
  await calls(agent, refund);
  await calls(agent, refund);
  expect(doneBy(agent).filter((what) => what === "refunded 7")).toHaveLength(1);
});

it("an action of a turn pauses until it is approved, also after a restart", async () => {
  const agent = given();
  await calls(agent, { name: "deploy", input: { ref: "v1" } });
  const pending = await agent.pendingApprovals();
  expect(pending).toHaveLength(1);
  await crash(agent);
  const again = given(agent.name);
  const [{ executionId } = { executionId: "" }] = await until(async () => {
    try {
      return (await again.pendingApprovals()) as { executionId: string }[];
    } catch {
      return undefined;
    }
  });
  expect(doneBy(agent)).not.toContain("deployed v1");
  await again.approveExecution(executionId);
  await again.approveExecution(executionId);
  expect(doneBy(agent).filter((what) => what === "deployed v1")).toHaveLength(1);
  await until(async () => (await replies(again)).includes('"deployed"'));
});

it("a skill is in the instructions, and a turn activates it", async () => {
  const agent = given();
  await calls(agent, { name: "activate_skill", input: { name: "refunds" } });
  expect(doneBy(agent)).toContain("skills in the instructions");
  expect(await replies(agent)).toContain("Ask for the number of the order first");
});

it("a turn writes a file of the workspace", async () => {
  const agent = given();
  const input = { path: "/workspace/notes.md", content: "Paid." };
  await calls(agent, { name: "write", input });
  expect(await agent.readFile(input.path)).toBe("Paid.");
});

it("a turn calls a tool of an MCP server, also in the first turn after a restart, when the server is slow", async () => {
  const server = serveMcp();
  const agent = given();
  expect(await agent.connectMcp()).toBe("ready");
  await calls(agent);
  const tools = doneBy(agent).find((what) => what.startsWith("tools:"));
  const name = tools?.split(" ").find((tool) => tool.endsWith("forecast")) ?? "no such tool";
  await calls(agent, { name, input: { city: "Oslo" } });
  expect(await replies(agent)).toContain("Sunny in Oslo");
  server.latencyMs = 700;
  await runInDurableObject(agent as unknown as DurableObjectStub, (_, ctx) =>
    ctx.abort("crash"),
  ).catch(() => {});
  const again = given(agent.name ?? "");
  await calls(again, { name, input: { city: "Rome" } });
  expect(await replies(again)).toContain("Sunny in Rome");
});

it("chat() runs a turn of a sub-agent", async () => {
  const { events, messages } = await given().chatWithChild("Hello");
  expect(events[0]).toBe("start");
  expect(events.join()).toContain("You said: Hello");
  expect(events.at(-1)).toBe("done");
  expect(messages).toContain("You said: Hello");
});

it("a turn delegates to another agent by agentTool()", async () => {
  const agent = given();
  await calls(agent, { name: "delegate", input: { query: "Look it up" } });
  expect(await replies(agent)).toContain("You said: Look it up");
});

it("a client is sent the state, before and after a durable turn", async () => {
  const agent = given();
  const { text } = await clientOf(agent);
  await text('"count":0');
  await calls(agent);
  await agent.increase();
  await text('"count":1');
});

it("a callable waits for a durable turn and returns its output to the client", async () => {
  const { send, text } = await clientOf(given());
  send({ type: "rpc", id: "call-1", method: "ask", args: ["Hello"] });
  expect(await text('"id":"call-1"')).toContain("You said: Hello");
});

it("schedule(), queue(), tasks and fibers submit messages", async () => {
  const agent = given();
  expect(await agent.plan()).toBe("You said: in a fiber");
  await until(async () => {
    const texts = await replies(agent);
    return ["scheduled", "queued", "task"].every((text) => texts.includes(`You said: ${text}`));
  });
});

it.each(["client", "submission"])(
  "a turn of a %s is recovered by the app's hook",
  async (asker) => {
    const agent = given();
    const script = { id: crypto.randomUUID(), first: "Partly.", delayMs: 500, text: "recovered" };
    if (asker === "client") (await clientOf(agent)).ask([message(script)]);
    else await agent.submitMessages([message(script)]);
    await until(() => (modelCalls.get(JSON.stringify(script)) ?? 0) > 0);
    await new Promise((resolve) => setTimeout(resolve, 100));
    await crash(agent);
    const again = given(agent.name);
    await until(async () => (await replies(again).catch(() => "")).includes("recovered"));
    expect(doneBy(agent).join()).toContain("recovery: ");
  },
);

async function crash(agent: Offer): Promise<void> {
  const stub = agent as unknown as DurableObjectStub;
  await runInDurableObject(stub, (_, ctx) => ctx.abort("crash")).catch(() => {});
}
