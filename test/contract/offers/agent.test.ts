/** What `Agent` offers keeps working on DurableAgent. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, expect, it, vi } from "vitest";
import { clientOf } from "../../support/client.ts";
import { message, until } from "../../support/given.ts";
import { serveMcp } from "../hosts/mcp-server.ts";

afterEach(() => vi.restoreAllMocks());

const given = () => env.OfferAgent.getByName(`offer-${crypto.randomUUID()}`);
type Offer = ReturnType<typeof given>;

async function says(agent: Offer, text: string, thread = "main") {
  const { submissionId } = await agent.submitMessages([message(text)], { thread });
  return agent.waitForSubmission(submissionId);
}

async function crash(agent: Offer): Promise<void> {
  const stub = agent as unknown as DurableObjectStub;
  await runInDurableObject(stub, (_, ctx) => ctx.abort("crash")).catch(() => {});
}

/** A turn that calls this tool. */
async function calls(agent: Offer, tool: { name: string; input: object }, thread?: string) {
  const script = { id: crypto.randomUUID(), tool, text: "called" };
  expect(await says(agent, JSON.stringify(script), thread)).toMatchObject({ output: "called" });
}

/** The messages of the agent's own conversation. */
async function asked(agent: Offer): Promise<string> {
  return JSON.stringify(await agent.threadMessages("main"));
}

it("a client is sent the state, before and after a durable turn", async () => {
  const agent = given();
  const { text } = await clientOf(agent);
  await text('"count":0');
  expect(await says(agent, "Hello")).toMatchObject({ status: "completed" });
  await agent.increase();
  await text('"count":1');
});

it("a callable waits for a durable turn and returns its output to the client", async () => {
  const { send, text } = await clientOf(given());
  send({ type: "rpc", id: "call-1", method: "ask", args: ["Hello"] });
  expect(await text('"id":"call-1"')).toContain("You said: Hello");
});

it("onRequest() and onMessage() are the app's own", async () => {
  const agent = given();
  expect(await (await agent.fetch("http://test/")).text()).toContain("request to offer-");
  const { send, text } = await clientOf(agent);
  send("ping");
  expect(await text("echo: ping")).toBe("echo: ping");
});

it("schedule(), queue() and tasks run methods that submit messages", async () => {
  const agent = given();
  await agent.plan();
  await until(async () => {
    const texts = await asked(agent);
    return ["scheduled", "queued", "task"].every((text) => texts.includes(`You said: ${text}`));
  });
});

it("a fiber waits for a durable turn", async () => {
  expect(await given().fiber()).toBe("You said: in a fiber");
});

it("a verb called in the app's onStart() submits once, also after a restart", async () => {
  const name = `offer-${crypto.randomUUID()}`;
  const agent = () => env.OfferAgent.getByName(name);
  // The first call starts the agent: native RPC to a method of the app does not.
  await agent().listSubmissions();
  await until(async () => (await asked(agent())).includes("You said: from onStart"));
  await crash(agent());
  await until(() =>
    agent()
      .listSubmissions()
      .catch(() => undefined),
  );
  expect(await agent().read()).toContain("onStart");
  expect((await agent().listSubmissions()).length).toBe(1);
});

it("a tool of a turn waits for a submission of another thread", async () => {
  const agent = given();
  const text = JSON.stringify({ tool: { name: "submitAnother", input: {} }, text: "after" });
  expect(await says(agent, text)).toMatchObject({ status: "completed", output: "after" });
  expect(JSON.stringify(await agent.threadMessages("inner"))).toContain("You said: inner");
});

it("a turn calls a tool of an MCP server, also in the first turn after a restart, when the server is slow", async () => {
  const server = serveMcp();
  const agent = given();
  const { state, tools } = await agent.connectMcp();
  expect(state).toBe("ready");
  const [name = "no tool"] = tools;
  await calls(agent, { name, input: { city: "Oslo" } });
  expect(await asked(agent)).toContain("Sunny in Oslo");
  server.latencyMs = 700;
  for (const thread of ["main", "aside"]) {
    await crash(agent);
    const again = env.OfferAgent.getByName(agent.name ?? "");
    await calls(again, { name, input: { city: "Rome" } }, thread);
    expect(JSON.stringify(await again.threadMessages(thread))).toContain("Sunny in Rome");
  }
});

it("a turn delegates to another agent by agentTool()", async () => {
  const agent = given();
  await calls(agent, { name: "delegate", input: { query: "Look it up" } });
  expect(await asked(agent)).toContain("You said: Look it up");
});

it("a sub-agent of the same class runs turns of its own", async () => {
  const agent = given();
  expect(await agent.askChild("Hello")).toBe("You said: Hello");
  expect(await asked(agent)).not.toContain("Hello");
});

it("a workflow of the SDK calls the agent, and tells it of its progress and its end", async () => {
  const agent = given();
  await agent.startWorkflow("Hello");
  const told = 'workflow {"answer":"You said: Hello"}';
  await until(async () => (await agent.read()).includes(told));
  expect((await agent.read()).join()).toContain('progress {"step":"ask"');
});

it("destroy() deletes the agent, and its name starts anew", async () => {
  const name = `offer-${crypto.randomUUID()}`;
  const agent = () => env.OfferAgent.getByName(name);
  await says(agent(), "Remember this");
  await Promise.resolve(agent().destroy()).catch(() => {});
  const found = await until(() =>
    agent()
      .threadMessages("main")
      .then(JSON.stringify, () => undefined),
  );
  expect(found).not.toContain("Remember this");
  expect(await says(agent(), "Hello")).toMatchObject({ status: "completed" });
});
