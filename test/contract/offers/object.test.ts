/** What a plain Durable Object offers keeps working beside durable(). */

import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { message, until } from "../../support/given.ts";

const given = () => env.OfferObject.getByName(`offer-${crypto.randomUUID()}`);

it("a verb is the first call ever of a cold object", async () => {
  const object = given();
  const { submissionId } = await object.submitMessages([message("Hello")]);
  expect(await object.waitForSubmission(submissionId)).toMatchObject({
    output: "You said: Hello",
  });
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

it("a method of the class with the name of a verb wins", async () => {
  expect(await given().healthReport()).toBe("own");
});

it("two classes keep their own options", async () => {
  const other = env.OtherObject.getByName(`other-${crypto.randomUUID()}`);
  const { submissionId } = await other.submitMessages([message("Hello")]);
  expect(await other.waitForSubmission(submissionId)).toMatchObject({ output: "other" });
  expect(await other.healthReport()).not.toBe("own");
});

it("durable() is refused on an object without a Lifecycle, and when called twice", async () => {
  const object = given();
  expect(await object.refusedWithoutLifecycle()).toContain("Lifecycle.install(this)");
  expect(await object.refused({ model: "some/model" })).toContain("was not called yet");
});

it("a client is sent the state, answers to its messages, and a turn's status", async () => {
  const object = given();
  const { webSocket } = await object.fetch("http://test/", { headers: { upgrade: "websocket" } });
  if (!webSocket) throw new Error("The upgrade was declined");
  const frames: string[] = [];
  webSocket.addEventListener("message", ({ data }) => {
    frames.push(String(data));
  });
  webSocket.accept();
  const frame = (part: string) => until(() => frames.find((each) => each.includes(part)));
  await frame('"count":0');
  webSocket.send("ping");
  await frame("echo: ping");
  const { submissionId } = await object.submitMessages([message("Hello")]);
  await frame(submissionId);
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
