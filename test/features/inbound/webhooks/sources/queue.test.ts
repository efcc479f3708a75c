import {
  createExecutionContext,
  createMessageBatch,
  getQueueResult,
  type MessageBatchMessage,
} from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import * as z from "zod";
import { handlers } from "../../../../../src/features/inbound/offer.ts";
import {
  type QueueHandler,
  queue,
} from "../../../../../src/features/inbound/webhooks/sources/queue.ts";
import { FakeAgent, NO_ROOM } from "./fake-agent.ts";

let agent: FakeAgent;
let logged: string[];
beforeEach(() => {
  agent = new FakeAgent();
  logged = [];
  vi.spyOn(console, "error").mockImplementation((line: string) => void logged.push(line));
});
afterEach(() => vi.restoreAllMocks());

const message = (id: string, body: unknown = { id }, attempts = 1): MessageBatchMessage => ({
  id,
  body,
  attempts,
  timestamp: new Date(0),
});

/** The result of the platform does not have the delays, so they are noted here. */
async function consume(handler: QueueHandler, messages: MessageBatchMessage[], name = "orders") {
  const batch = createMessageBatch(name, messages);
  const ctx = createExecutionContext();
  const delays: Record<string, number | undefined> = {};
  for (const each of batch.messages) {
    const retry = each.retry.bind(each);
    vi.spyOn(each, "retry").mockImplementation((options) => {
      delays[each.id] = options?.delaySeconds;
      retry(options);
    });
  }
  await handler(batch, env, ctx);
  const { explicitAcks, retryMessages } = await getQueueResult(batch, ctx);
  return { acks: explicitAcks, retried: retryMessages.map(({ msgId }) => msgId).sort(), delays };
}

const submitting = () =>
  queue({
    agent: () => agent,
    handle: ({ body }, stub) => stub.submitMessages([body]),
  });

describe("queue()", () => {
  it("acknowledges what the agent has accepted, and duplicates", async () => {
    const result = await consume(submitting(), [message("a"), message("b"), message("a")]);
    expect(result.acks.sort()).toEqual(["a", "a", "b"]);
    expect(result.retried).toEqual([]);
    expect([...agent.accepted]).toEqual(["a", "b"]);
  });

  it("sends the message as an arrival of the source `queue`, with its id, size and hash", async () => {
    await consume(submitting(), [message("a", { b: 1 })]);
    const { receivedAt, ...arrival } = agent.requests[0]?.arrival ?? { receivedAt: 0 };
    expect(arrival).toEqual({
      source: "queue",
      id: "a",
      type: "",
      body: { b: 1 },
      bytes: 7,
      hash: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
    expect(Math.abs(receivedAt - Date.now())).toBeLessThan(60_000);
  });

  it("acknowledges a message that no agent wants, and one whose handler calls nothing", async () => {
    const unwanted = queue({ agent: () => null, handle: () => {} });
    expect((await consume(unwanted, [message("a")])).acks).toEqual(["a"]);
    const filtering = queue({ agent: () => agent, handle: () => {} });
    expect((await consume(filtering, [message("b")])).acks).toEqual(["b"]);
    expect(agent.requests).toHaveLength(1);
  });

  it("retries only the messages that failed", async () => {
    agent.refusals.set("b", NO_ROOM);
    agent.refusals.set("c", new Error("Network connection lost."));
    const result = await consume(
      submitting(),
      ["a", "b", "c", "d"].map((id) => message(id)),
    );
    expect(result.acks.sort()).toEqual(["a", "d"]);
    expect(result.delays).toEqual({ b: 30, c: 10 });
  });

  it("retries a message whose handler or choice of an agent throws, and logs no body", async () => {
    const failing = queue({
      agent: ({ id }) => {
        if (id === "a") throw new Error("no such agent");
        return agent;
      },
      handle: () => {
        throw new TypeError("the handler fails");
      },
    });
    const result = await consume(failing, [message("a", "SECRET"), message("b", "SECRET")]);
    expect(result.retried).toEqual(["a", "b"]);
    expect(agent.requests[0]?.refusal).toBe("TypeError: the handler fails");
    expect(logged.join()).toContain("the handler fails");
    expect(logged.join()).not.toContain("SECRET");
  });

  it("doubles the delay with each attempt, up to 15 minutes", async () => {
    agent.refusals.set("a", new Error("unreachable"));
    const delays = [];
    for (const attempts of [1, 2, 3, 20, 5_000]) {
      const result = await consume(submitting(), [message("a", 1, attempts)]);
      delays.push(result.delays.a);
    }
    expect(delays).toEqual([10, 20, 40, 900, 900]);
  });

  it("limits the delay that an agent asks for to the 12 hours of the platform", async () => {
    agent.refusals.set("a", { ...NO_ROOM, retryAfter: 1e9 } as typeof NO_ROOM);
    const { delays } = await consume(submitting(), [message("a")]);
    expect(delays.a).toBe(43_200);
  });

  it("retries a body that JSON cannot hold, and says where", async () => {
    const cycle: { self?: unknown } = {};
    cycle.self = cycle;
    const bodies = [{ at: new Date(0) }, new Uint8Array(3), { n: 1n }, Number.NaN, cycle];
    const messages = bodies.map((body, index) => message(`m${index}`, body));
    const result = await consume(submitting(), [...messages, message("good")]);
    expect(result.acks).toEqual(["good"]);
    expect(result.retried).toHaveLength(bodies.length);
    expect(logged.join("\n")).toContain("Invalid body of message m0: .at is a Date, which JSON");
    expect(agent.requests).toHaveLength(1);
  });

  it("retries a body that does not match the schema, and offers the output of one that does", async () => {
    const seen: number[] = [];
    const typed = queue({
      schema: z.object({ count: z.number().transform((count) => count * 2) }),
      agent: () => agent,
      handle: ({ body }, stub) => {
        seen.push(body.count);
        return stub.submitMessages([]);
      },
    });
    const result = await consume(typed, [message("a", { count: 2 }), message("b", { count: "x" })]);
    expect(result.acks).toEqual(["a"]);
    expect(result.retried).toEqual(["b"]);
    expect(seen).toEqual([4]);
    expect(agent.requests[0]?.arrival.body).toEqual({ count: 2 });
    expect(logged.join()).toContain("does not match its schema at count");
  });

  it("offers at most `concurrency` messages at the same time", async () => {
    const consumer = queue({
      concurrency: 3,
      agent: () => agent,
      handle: (_, stub) => stub.submitMessages([]),
    });
    const result = await consume(
      consumer,
      Array.from({ length: 20 }, (_, n) => message(`m${n}`)),
    );
    expect(result.acks).toHaveLength(20);
    expect(agent.mostRunning).toBe(3);
  });

  it("retries a message whose handler hangs, and offers the other messages of the batch", async () => {
    const consumer = queue({
      concurrency: 2,
      messageTimeout: 1_000,
      agent: () => agent,
      handle: ({ id }, stub) =>
        id.startsWith("hangs") ? new Promise<never>(() => {}) : stub.submitMessages([]),
    });
    const ids = ["hangs1", "hangs2", "a", "hangs3", "b"];
    const result = await consume(
      consumer,
      ids.map((id) => message(id)),
    );
    expect(result.acks.sort()).toEqual(["a", "b"]);
    expect(result.delays).toEqual({ hangs1: 10, hangs2: 10, hangs3: 10 });
    expect(logged).toHaveLength(3);
    expect(logged[0]).toContain("TimeoutError: No answer within 1000 ms");
  });

  it("retries the messages that have no answer when the time of the batch is over", async () => {
    agent.next.push(new Promise<never>(() => {}));
    const consumer = queue({
      concurrency: 1,
      timeout: 200,
      agent: () => agent,
      handle: (_, stub) => stub.submitMessages([]),
    });
    const result = await consume(consumer, [message("stalled"), message("late")]);
    expect(result.acks).toEqual([]);
    expect(result.retried).toEqual(["late", "stalled"]);
    expect(agent.requests).toHaveLength(1);
  });

  it("passes batches of other queues to the next handler, and fails without one", async () => {
    const other = vi.fn<QueueHandler>(async (batch) => batch.ackAll());
    const options = {
      queue: "orders",
      agent: () => agent,
      handle: (_: unknown, stub: FakeAgent) => stub.submitMessages([]),
    };
    await consume(queue(options, other), [message("a")], "invoices");
    expect(other).toHaveBeenCalledOnce();
    expect(agent.requests).toEqual([]);
    await consume(queue(options, other), [message("a")], "orders");
    expect(agent.requests[0]?.arrival.source).toBe("queue:orders");
    const batch = createMessageBatch("invoices", [message("a")]);
    await expect(queue(options)(batch, env, createExecutionContext())).rejects.toThrow(
      'Invalid queue "invoices": queue() consumes "orders" only.',
    );
  });

  it("registers its handler for replays, under its name", async () => {
    queue({
      name: "replayed",
      schema: z.object({ n: z.number() }),
      agent: () => agent,
      handle: ({ body, id }, stub) => stub.submitMessages([id, body.n]),
    });
    const submitMessages = vi.fn();
    const arrival = { source: "replayed", id: "x", type: "", bytes: 1, hash: "", receivedAt: 1 };
    await handlers.get("replayed")?.handle({ ...arrival, body: { n: 7 } }, { submitMessages });
    expect(submitMessages).toHaveBeenCalledWith(["x", 7]);
  });

  it("refuses invalid options when it is made", () => {
    const valid = { agent: () => agent, handle: () => {} };
    const refused = (options: object) => () => queue({ ...valid, ...options } as typeof valid);
    expect(refused({ retires: 1 })).toThrow('Unknown option "retires" in the options of queue()');
    expect(refused({ handle: 5 })).toThrow("Invalid handle 5: expected a function");
    expect(refused({ concurrency: 0 })).toThrow("Invalid concurrency 0: expected a whole number");
    expect(refused({ concurrency: 101 })).toThrow("from 1 to 100");
    expect(refused({ timeout: "15 minutes" })).toThrow("Invalid timeout");
    expect(refused({ messageTimeout: "15 minutes" })).toThrow("Invalid messageTimeout");
    expect(refused({ messageTimeout: 0 })).toThrow("Invalid messageTimeout 0");
    expect(refused({ retryDelay: "1 hour" })).toThrow("Invalid retryDelay");
    expect(refused({ name: "a b" })).toThrow('Invalid name "a b"');
    expect(refused({ queue: "" })).toThrow('Invalid queue ""');
    expect(() => queue(valid, {} as never)).toThrow("Invalid next {}: expected a function");
  });
});
