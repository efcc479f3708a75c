/** The outbox as apps use it, alone on a plain agent. */

import { introspectWorkflowInstance, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { getAgentByName } from "agents";
import { describe, expect, it } from "vitest";
import { agent, method, queue, webhook, workflowEvent } from "../../src/outbox/index.ts";
import { crash, refusal, until } from "../support/given.ts";
import { receivedBy, receiverUrl, someReceiver } from "../support/receivers/client.ts";
import { agentsReceived } from "./outbox-agent.ts";
import { received } from "./recipients.ts";

describe("A plain agent with an outbox", () => {
  it("O1: it delivers to every kind of destination, once each", async () => {
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
      workflowEvent({ workflow: "WAITING_WORKFLOW", instance: name, eventType: "ended" }),
    ]);
    const [toMethod = "", toAgent = "", toObject = "", toQueue = "", toHook, toWorkflow] = ids;
    await until(() => [toAgent, toObject, toQueue].every((id) => received.has(id)));
    const delivery = (id = "") => ({ id, attempt: 1, event: "ordered o1" });
    expect(agentsReceived.get(toMethod)).toEqual({
      ...delivery(toMethod),
      event: `ordered o1, says ${name}`,
    });
    expect(received.get(toAgent)).toEqual([{ ...delivery(toAgent), event: "received by shop" }]);
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

  it("O1: it delivers nothing that is rolled back or refused", async () => {
    const stub = await getAgentByName(env.OutboxAgent, `orders-${crypto.randomUUID()}`);
    await stub.order("o1", []);
    const twice = await refusal(stub.order("o1", [method("onOrder")]));
    expect(twice.message).toContain("UNIQUE");
    const wrong = await refusal(stub.order("o2", [queue("QUEUES")]));
    expect(wrong.message).toMatch(/Invalid destination.queue "QUEUES": expected.*"QUEUE"/);
    expect(await stub.orders()).toEqual(["o1"]);
    await runInDurableObject(stub, async ({ outbox }) => {
      expect(await outbox.stats()).toEqual({ waiting: 0, deadLetters: 0 });
    });
  });

  it("O2: it delivers after a crash", async () => {
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

it("O3: attempts, dead letters and changes of endpoints are events of the agents' observability channel", async () => {
  const seen: { type: string; name: string; payload: object }[] = [];
  const note = (message: unknown) => void seen.push(message as (typeof seen)[number]);
  subscribe("agents:lifecycle", note);
  const name = `orders-${crypto.randomUUID()}`;
  const stub = await getAgentByName(env.OutboxAgent, name);
  const url = receiverUrl(`/status/410/${someReceiver()}`);
  const [id] = await stub.order("o1", [webhook(url, { secret: "HOOK_SECRET" })]);
  const ours = () => seen.filter((event) => event.name === name && event.type.startsWith("outbox"));
  await until(() => ours().length === 3);
  const [taken] = await stub.order("o2", [method("onOrder")]);
  await until(() => ours().length === 5);
  unsubscribe("agents:lifecycle", note);
  const error = expect.stringContaining("410");
  expect(ours()).toMatchObject([
    { type: "outbox:attempt", payload: { id, attempt: 1, kind: "webhook" } },
    { type: "outbox:endpoint", payload: { url, state: "disabled" } },
    { type: "outbox:dead", payload: { id, kind: "webhook", attempts: 1, error } },
    { type: "outbox:attempt", payload: { id: taken, attempt: 1, kind: "method" } },
    { type: "outbox:delivered", payload: { id: taken, attempt: 1, kind: "method" } },
  ]);
});
