/** The outbox as apps use it: alone on a plain agent, and as part of DurableThink. */

import { introspectWorkflowInstance, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { getAgentByName } from "agents";
import { describe, expect, it } from "vitest";
import {
  agent,
  type DeadLetter,
  method,
  queue,
  webhook,
  workflowEvent,
} from "../src/outbox/index.ts";
import { crash, givenThink, message, refusal, until } from "./support/given.ts";
import { toldAgents } from "./support/outbox-agent.ts";
import { receivedBy, receiverUrl, someReceiver } from "./support/receivers/client.ts";
import { received } from "./support/recipients.ts";
import { deadLetters, thinkOptions } from "./support/think-agent.ts";

describe("O1 O2 a plain agent puts events in a transaction of its own, and tells", () => {
  it("every kind of destination, once each", async () => {
    const name = `orders-${crypto.randomUUID()}`;
    const stub = await getAgentByName(env.OutboxAgent, name);
    const hook = someReceiver();
    await using instance = await introspectWorkflowInstance(env.WAITING_WORKFLOW, name);
    await env.WAITING_WORKFLOW.create({ id: name, params: "wait" });
    const ids = await stub.order("o1", [
      method("onOrder"),
      agent({ agent: "ReceiverAgent", name: "shop", method: "take" }),
      agent({ agent: "Receiver", name: "store", method: "take" }),
      queue("QUEUE"),
      webhook(receiverUrl(`/ok/${hook}`), { secret: "HOOK_SECRET" }),
      workflowEvent({ workflow: "WAITING_WORKFLOW", instance: name, eventType: "told" }),
    ]);
    const [toMethod = "", toAgent = "", toObject = "", toQueue = "", toHook, toWorkflow] = ids;
    await until(() => [toAgent, toObject, toQueue].every((id) => received.has(id)));
    const delivery = (id = "") => ({ id, attempt: 1, event: "ordered o1" });
    expect(toldAgents.get(toMethod)).toEqual({
      ...delivery(toMethod),
      event: `ordered o1, says ${name}`,
    });
    expect(received.get(toAgent)).toEqual([{ ...delivery(toAgent), event: "told shop" }]);
    expect(received.get(toObject)).toEqual([delivery(toObject)]);
    expect(received.get(toQueue)).toEqual([delivery(toQueue)]);
    const [request] = await until(async () => {
      const requests = await receivedBy(hook);
      return requests.length > 0 && requests;
    });
    expect(request).toMatchObject({ body: '"ordered o1"', headers: { "webhook-id": toHook } });
    await instance.waitForStatus("complete");
    expect(await instance.getOutput()).toEqual(delivery(toWorkflow));
    await until(() =>
      runInDurableObject(stub, async ({ outbox }) => (await outbox.stats()).waiting === 0),
    );
    await until(
      async () => (await runInDurableObject(stub, (_, ctx) => ctx.storage.getAlarm())) === null,
    );
  });

  it("nobody of what is rolled back, or cannot be put", async () => {
    const stub = await getAgentByName(env.OutboxAgent, `orders-${crypto.randomUUID()}`);
    await stub.order("o1", []);
    const twice = await refusal(stub.order("o1", [method("onOrder")]));
    expect(twice.message).toContain("UNIQUE");
    const wrong = await refusal(stub.order("o2", [queue("QUEUES")]));
    expect(wrong.message).toMatch(/"QUEUES" as queue; expected.*"QUEUE"/);
    expect(await stub.orders()).toEqual(["o1"]);
    await runInDurableObject(stub, async ({ outbox }) => {
      expect(await outbox.stats()).toEqual({ waiting: 0, deadLetters: 0 });
    });
  });

  it("after a crash", async () => {
    const name = `orders-${crypto.randomUUID()}`;
    const stub = await getAgentByName(env.OutboxAgent, name);
    const id = await runInDurableObject(stub, async (object, ctx) => {
      const [first = ""] = object.order("o1", [
        agent({ agent: "ReceiverAgent", name: "shop", method: "take" }),
      ]);
      await ctx.storage.sync();
      return first;
    });
    await crash();
    await getAgentByName(env.OutboxAgent, name);
    await until(() => received.has(id));
  });
});

describe("O3 DurableThink shows the deliveries that were given up", () => {
  it("to the hook, in lists, and redrives them", async () => {
    const stub = givenThink();
    const name = stub.name ?? "";
    const notify = [method("onEnd", { policy: { maxAttempts: 1 } })];
    await stub.submitMessages([message("hello")], { submissionId: "s", notify });
    const letter = await until(() => deadLetters.get(name));
    expect(letter).toMatchObject({
      destination: { kind: "method", method: "onEnd" },
      event: { type: "submission.completed", data: { submissionId: "s", status: "completed" } },
      attempts: 1,
      lastError: expect.stringContaining("not today"),
    } satisfies Partial<Record<keyof DeadLetter, unknown>>);
    expect(await stub.countDeadLetters()).toBe(1);
    const page = await stub.listDeadLetters();
    expect(page.deadLetters.map(({ id }) => id)).toEqual([letter.id]);
    expect(await stub.readDelivery(letter.id)).toEqual(letter.event);
    expect(await stub.redriveDeadLetter(letter.id)).toBe(true);
    await until(async () => (await stub.countDeadLetters()) === 1);
    expect(await stub.redriveDeadLetters({ since: new Date(0) })).toBe(1);
    await until(async () => (await stub.countDeadLetters()) === 1);
    expect(await stub.deleteDeadLetter(letter.id)).toBe(true);
    expect(await stub.countDeadLetters()).toBe(0);
  });

  it("and the endpoints of its webhooks, set up by its options", async () => {
    const name = `think-${crypto.randomUUID()}`;
    thinkOptions.set(name, { outbox: { allowPrivateAddresses: true } });
    const stub = givenThink(name);
    const me = someReceiver();
    const hook = webhook(receiverUrl(`/flaky/${me}/1?status=410`), { secret: "HOOK_SECRET" });
    await stub.submitMessages([message("hello")], { notify: [hook] });
    await until(async () => (await stub.countDeadLetters()) === 1);
    expect(await stub.listEndpoints()).toMatchObject([{ url: hook.url, state: "disabled" }]);
    expect(await stub.enableEndpoint(hook.url)).toBe(1);
    await until(async () => (await receivedBy(me)).length === 2);
    await stub.disableEndpoint(hook.url, "by hand");
    expect(await stub.listEndpoints()).toMatchObject([{ state: "disabled", reason: "by hand" }]);
  });

  it("but refuses a destination that there is not, with nothing stored", async () => {
    const stub = givenThink();
    const wrong = await refusal(
      stub.submitMessages([message("hello")], { notify: [method("onNothing")] }),
    );
    expect(wrong).toMatchObject({
      name: "InvalidSubmissionError",
      message: expect.stringMatching(/notify\[0\] has "onNothing" as method/),
    });
    expect(await stub.listSubmissions()).toEqual([]);
  });
});
