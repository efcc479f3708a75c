/** Messages of a queue, cron triggers and e-mails, accepted by a real agent. */

import {
  createExecutionContext,
  createMessageBatch,
  createScheduledController,
  getQueueResult,
} from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { email } from "../../../src/features/inbound/webhooks/email/index.ts";
import { queue } from "../../../src/features/inbound/webhooks/sources/queue.ts";
import { scheduled } from "../../../src/features/inbound/webhooks/sources/scheduled.ts";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { emailOf, send } from "../../features/inbound/webhooks/email/message.ts";
import { givenThink, message } from "../../support/given.ts";
import { thinkOptions } from "../../support/think-agent.ts";

const LATER = "2100-01-01T00:00:00Z";

describe("sources of deliveries of an agent", () => {
  it("submit the message of a queue once, and retry one for which there is no room", async () => {
    const name = `queue-${crypto.randomUUID()}`;
    thinkOptions.set(name, { maxPending: 1 });
    const agent = givenThink(name);
    const handler = queue<{ text: string }, typeof agent>({
      concurrency: 1,
      agent: () => agent,
      handle: ({ body }, stub) => stub.submitMessages([message(body.text)], { notBefore: LATER }),
    });
    const batch = createMessageBatch(
      "orders",
      ["a", "a", "b"].map((id) => ({ id, timestamp: 0, attempts: 1, body: { text: id } })),
    );
    const ctx = createExecutionContext();
    await handler(batch, env, ctx);
    const { explicitAcks, retryMessages } = await getQueueResult(batch, ctx);
    expect(explicitAcks).toEqual(["a", "a"]);
    expect(retryMessages.map(({ msgId }) => msgId)).toEqual(["b"]);
    expect(await agent.listSubmissions()).toMatchObject([{ idempotencyKey: "queue:a" }]);
    const { items: deliveries } = await capabilitiesOf(agent).inbound.list();
    expect(deliveries.map(({ id, verdict }) => [id, verdict])).toEqual([
      ["b", "refused"],
      ["a", "accepted"],
    ]);
  });

  it("submit an occurrence of a cron trigger once", async () => {
    const agent = givenThink();
    const handler = scheduled({
      agent: () => agent,
      handle: ({ body }, stub) => stub.submitMessages([message(body.cron)], { notBefore: LATER }),
    });
    for (let n = 0; n < 2; n++) {
      const controller = createScheduledController({ cron: "0 9 * * *", scheduledTime: 9 });
      await handler(controller, env, createExecutionContext());
    }
    expect(await agent.listSubmissions()).toHaveLength(1);
  });

  it("submit an e-mail in its thread, once", async () => {
    const agent = givenThink();
    const handler = email<typeof agent>({
      agent: () => agent,
      handle: ({ body }, stub) =>
        stub.submitMessages([message(body.text)], { thread: body.thread, notBefore: LATER }),
    });
    for (let n = 0; n < 2; n++) {
      const { message: received } = send(emailOf());
      await handler(received, env, createExecutionContext());
    }
    const submissions = await agent.listSubmissions();
    expect(submissions).toMatchObject([{ thread: "q1@example.org", status: "pending" }]);
    const { items: deliveries } = await capabilitiesOf(agent).inbound.list();
    expect(deliveries).toMatchObject([{ source: "email", verdict: "accepted", duplicates: 1 }]);
    const stored = await capabilitiesOf(agent).inbound.inspect("email", deliveries[0]?.id ?? "");
    expect(stored?.body).toMatchObject({ from: "ann@example.org", subject: "A question" });
  });
});
