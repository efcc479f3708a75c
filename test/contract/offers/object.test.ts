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
