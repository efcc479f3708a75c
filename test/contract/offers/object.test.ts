/** What a plain Durable Object offers keeps working beside durable(). */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, expect, it, vi } from "vitest";
import { clientOf } from "../../support/client.ts";
import { message, until } from "../../support/given.ts";
import { serveMcp } from "../hosts/mcp-server.ts";

afterEach(() => vi.restoreAllMocks());

const given = () => env.OfferObject.getByName(`offer-${crypto.randomUUID()}`);

it("a verb is the first call ever of a cold object", async () => {
  const object = given();
  const { submissionId } = await object.submitMessages([message("Hello")]);
  expect(await object.waitForSubmission(submissionId)).toMatchObject({
    output: "You said: Hello",
  });
});

it("S1: a cold object that is only called by methods of its own over RPC arms its schedules", async () => {
  const object = env.ObjectHost.getByName(`only-rpc-${crypto.randomUUID()}`);
  await object.hear();
  const alarm = () => runInDurableObject(object, (_, { storage }) => storage.getAlarm());
  await until(async () => (await alarm()) !== null);
});

it("onStart() and onRequest() are the app's own", async () => {
  const object = given();
  expect(await (await object.fetch("http://test/")).text()).toContain("request to offer-");
  expect(await object.read()).toEqual(["onStart"]);
});

it("Queue, Scheduler and Tasks run methods that submit messages", async () => {
  const object = given();
  await object.plan();
  await until(async () => {
    const texts = JSON.stringify(await object.threadMessages("main"));
    return ["queued", "scheduled", "task"].every((text) => texts.includes(`You said: ${text}`));
  });
});

it("onAlarm() is the app's own, and is called when Perdure's work is due", async () => {
  const object = given();
  await object.submitMessages([message("Hello")], { notBefore: new Date(Date.now() + 500) });
  await until(async () => (await object.read()).includes("onAlarm"));
});

it("a turn calls a tool of an MCP server, also in the first turn after a restart, when the server is slow", async () => {
  const server = serveMcp();
  const object = given();
  const [name = "no tool"] = await object.connectMcp();
  for (const city of ["Oslo", "Rome"]) {
    const stub = env.OfferObject.getByName(object.name ?? "");
    const script = { id: crypto.randomUUID(), tool: { name, input: { city } }, text: "ok" };
    const { submissionId } = await stub.submitMessages([message(script)]);
    expect(await stub.waitForSubmission(submissionId)).toMatchObject({ output: "ok" });
    expect(JSON.stringify(await stub.threadMessages("main"))).toContain(`Sunny in ${city}`);
    server.latencyMs = 700;
    await runInDurableObject(stub as unknown as DurableObjectStub, (_, ctx) =>
      ctx.abort("crash"),
    ).catch(() => {});
  }
});

it("Streams of the app keep their own chunks", async () => {
  const read = JSON.parse(await given().stream("one", "two")) as { chunk: string }[];
  expect(read.map(({ chunk }) => chunk)).toEqual(["one", "two"]);
});

it("a method of the class with the name of a verb wins", async () => {
  expect(await given().submissionStats()).toBe("own");
});

it("two classes keep their own options", async () => {
  const other = env.OtherObject.getByName(`other-${crypto.randomUUID()}`);
  const { submissionId } = await other.submitMessages([message("Hello")]);
  expect(await other.waitForSubmission(submissionId)).toMatchObject({ output: "other" });
  expect(await other.submissionStats()).not.toBe("own");
});

it("durable() is refused on an object without a Lifecycle, and when called twice", async () => {
  const object = given();
  expect(await object.refusedWithoutLifecycle()).toContain("Lifecycle.install(this)");
  expect(await object.refused({ model: "some/model" })).toContain("was not called yet");
});

it("a client is sent the state, answers to its messages, and a turn's status", async () => {
  const object = given();
  const { send, text } = await clientOf(object);
  await text('"count":0');
  send("ping");
  await text("echo: ping");
  const { submissionId } = await object.submitMessages([message("Hello")]);
  await text(submissionId);
  expect(await object.waitForSubmission(submissionId)).toMatchObject({ status: "completed" });
});

it("2,000 submissions at once are all accepted, each once", async () => {
  const object = given();
  const tomorrow = new Date(Date.now() + 86_400_000);
  const asked = Array.from({ length: 2_000 }, (_, i) =>
    object.submitMessages([message("Hello")], { idempotencyKey: `${i}`, notBefore: tomorrow }),
  );
  const accepted = await Promise.all(asked);
  expect(new Set(accepted.map(({ submissionId }) => submissionId)).size).toBe(2_000);
});
