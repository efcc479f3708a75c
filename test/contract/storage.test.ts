/** What an app may do beside Perdure with the storage of its object: docs/hosts.md says it. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import type { OtherObject } from "./hosts/offer-object.ts";

const HOUR = 3_600_000;

const given = (name: string = crypto.randomUUID()) =>
  env.OtherObject.getByName(name) as unknown as DurableObjectStub<OtherObject>;
const message = (text: string) => ({
  id: crypto.randomUUID(),
  role: "user" as const,
  parts: [{ type: "text" as const, text }],
});

it("an alarm that the app sets itself is replaced by the next job of the Lifecycle", async () => {
  const stub = given();
  await runInDurableObject(stub, async ({ durable }, { storage }) => {
    const own = Date.now() + HOUR / 2;
    await storage.setAlarm(own);
    await durable.submitMessages([message("later")], { notBefore: Date.now() + HOUR });
    expect(await storage.getAlarm()).not.toBe(own);
  });
});

it("after deleteAll() calls fail until the object is restarted, and then work", async () => {
  const name = crypto.randomUUID();
  const stub = given(name);
  const first = await stub.submitMessages([message("first")]);
  await stub.waitForSubmission(first.submissionId);
  await runInDurableObject(stub, async ({ durable }, { storage }) => {
    await storage.deleteAll();
    await expect(durable.listSubmissions()).rejects.toThrow(/no such table/);
  });
  await runInDurableObject(stub, (_object, ctx) => ctx.abort("deleted")).catch(() => {});
  const restarted = given(name);
  const { submissionId } = await restarted.submitMessages([message("second")]);
  expect((await restarted.waitForSubmission(submissionId))?.status).toBe("completed");
  expect(await restarted.inspectSubmission(first.submissionId)).toBeNull();
});
