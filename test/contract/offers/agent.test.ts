/** What `Agent` offers keeps working on DurableAgent. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { message, until } from "../../support/given.ts";

const given = () => env.OfferAgent.getByName(`offer-${crypto.randomUUID()}`);
type Offer = ReturnType<typeof given>;

async function connected(agent: Offer) {
  const response = await agent.fetch("http://test/", { headers: { upgrade: "websocket" } });
  const socket = response.webSocket;
  if (!socket) throw new Error(`No WebSocket: status ${response.status}`);
  const frames: string[] = [];
  socket.addEventListener("message", ({ data }) => {
    frames.push(String(data));
  });
  socket.accept();
  const frame = (part: string) => until(() => frames.find((each) => each.includes(part)));
  return { socket, frame };
}

async function says(agent: Offer, text: string) {
  const { submissionId } = await agent.submitMessages([message(text)]);
  return agent.waitForSubmission(submissionId);
}

/** All user messages of the agent's own conversation. */
async function asked(agent: Offer): Promise<string> {
  return JSON.stringify(await agent.threadMessages("main"));
}

it("a client is sent the state, before and after a durable turn", async () => {
  const agent = given();
  const { frame } = await connected(agent);
  await frame('"count":0');
  expect(await says(agent, "Hello")).toMatchObject({ status: "completed" });
  await agent.increase();
  await frame('"count":1');
});

it("a callable waits for a durable turn and returns its output to the client", async () => {
  const { socket, frame } = await connected(given());
  socket.send(JSON.stringify({ type: "rpc", id: "call-1", method: "ask", args: ["Hello"] }));
  expect(await frame('"id":"call-1"')).toContain("You said: Hello");
});

it("onRequest() and onMessage() are the app's own", async () => {
  const agent = given();
  expect(await (await agent.fetch("http://test/")).text()).toContain("request to offer-");
  const { socket, frame } = await connected(agent);
  socket.send("ping");
  expect(await frame("echo: ping")).toBe("echo: ping");
});

it("schedule() and queue() run methods that submit messages", async () => {
  const agent = given();
  await agent.plan();
  const ran = () => agent.read();
  await until(async () => (await ran()).includes("scheduled") && (await ran()).includes("queued"));
  await until(async () => {
    const texts = await asked(agent);
    return texts.includes("You said: scheduled") && texts.includes("You said: queued");
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
  const root = agent() as unknown as DurableObjectStub;
  await runInDurableObject(root, (_, ctx) => ctx.abort("crash")).catch(() => {});
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
