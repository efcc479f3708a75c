/** Each kind of destination in the real runtime: what arrives, what is tried again, and what never can arrive. */

import { env, exports } from "cloudflare:workers";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Adapter, Delivery } from "../../../src/outbox/destinations/adapter.ts";
import type { AgentDestination } from "../../../src/outbox/destinations/agent.ts";
import { type Destination, Destinations } from "../../../src/outbox/destinations/index.ts";
import { KINDS } from "../../../src/outbox/destinations/kinds.generated.ts";
import type { MethodDestination } from "../../../src/outbox/destinations/method.ts";
import type { QueueDestination } from "../../../src/outbox/destinations/queue.ts";
import type { WorkflowDestination } from "../../../src/outbox/destinations/workflow-event.ts";
import { UndeliverableError } from "../../../src/outbox/errors.ts";
import { contextOf, FIRST } from "../../support/attempts.ts";
import { refusal, until } from "../../support/given.ts";
import { received, released } from "../recipients.ts";

const MIB = 1_048_576;
const unaborted = new AbortController().signal;

function givenDelivery(event: string = "done"): Delivery<string> {
  return { id: `delivery-${crypto.randomUUID()}`, attempt: 1, event };
}

function destinationsOf(bindings: object, host: object = {}): Destinations {
  return new Destinations(contextOf(bindings, { host }));
}

const problemOf = (to: unknown) => destinationsOf(env).problemOf(to);

/** A delivery of this many bytes as JSON. */
function givenLarge(bytes: number): Delivery<string> {
  const empty = givenDelivery("");
  return { ...empty, event: "x".repeat(bytes - JSON.stringify(empty).length) };
}

function deliver<To extends Destination>(
  adapter: Adapter<To>,
  to: To,
  delivery: Delivery = givenDelivery(),
  signal: AbortSignal = unaborted,
): Promise<void> {
  return adapter.deliver(to, delivery, signal, FIRST);
}

/** It failed, and not for good: another attempt may succeed. */
function expectRetried(error: Error, message: RegExp): void {
  expect(error.name).not.toBe("UndeliverableError");
  expect(error.message).toMatch(message);
}

function expectForGood(error: Error, message: RegExp): void {
  expect(error).toBeInstanceOf(UndeliverableError);
  expect(error.message).toMatch(message);
}

/** Whatever `env` holds under this name, as a rollback would leave it. */
const without = (name: string) => ({ ...env, [name]: undefined });

describe("a Workflow", () => {
  const adapter = KINDS.workflow.connect({ env });
  const { WAITING_WORKFLOW: binding } = env;

  const toInstance = (instance: string): WorkflowDestination => ({
    kind: "workflow",
    workflow: "WAITING_WORKFLOW",
    instance,
    eventType: "ended",
  });

  async function givenInstance(
    plan: "wait" | "return" | "throw",
    status: InstanceStatus["status"],
  ): Promise<WorkflowInstance> {
    const instance = await binding.create({ params: plan });
    await reaches(instance, status);
    return instance;
  }

  const reaches = (instance: WorkflowInstance, status: InstanceStatus["status"]) =>
    until(async () => (await instance.status()).status === status);

  it("O2: a waiting instance receives the delivery", async () => {
    const instance = await binding.create({ params: "wait" });
    const delivery = givenDelivery();
    await deliver(adapter, toInstance(instance.id), delivery);
    await reaches(instance, "complete");
    expect((await instance.status()).output).toEqual(delivery);
  });

  it("O4: a delivery of the largest size arrives whole", async () => {
    const instance = await binding.create({ params: "wait" });
    const delivery = givenLarge(adapter.maxBytes);
    await deliver(adapter, toInstance(instance.id), delivery);
    await reaches(instance, "complete");
    expect((await instance.status()).output).toEqual(delivery);
  });

  it("O3: an event for a missing instance is a permanent failure", async () => {
    const error = await refusal(deliver(adapter, toInstance("unknown")));
    expectForGood(error, /Instance "unknown" of Workflow WAITING_WORKFLOW does not exist/);
  });

  it.each([
    ["return", "complete"],
    ["throw", "errored"],
  ] as const)(
    "O3: an event for an instance that ended by %s is a permanent failure",
    async (plan, end) => {
      const { id } = await givenInstance(plan, end);
      const error = await refusal(deliver(adapter, toInstance(id)));
      expectForGood(error, new RegExp(`"${id}" of Workflow WAITING_WORKFLOW is ${end}`));
    },
  );

  it("O3: an event for a terminated instance is a permanent failure", async () => {
    const instance = await givenInstance("wait", "running");
    await instance.terminate();
    const error = await refusal(deliver(adapter, toInstance(instance.id)));
    expectForGood(error, new RegExp(`"${instance.id}" of Workflow WAITING_WORKFLOW is terminated`));
  });

  it.each([
    ["return", "complete"],
    ["throw", "errored"],
    ["wait", "terminated"],
  ] as const)(
    "O3: an event for a step of an instance that did %s is sent without asking for its status: it %s",
    async (plan, end) => {
      const instance = await givenInstance(plan, plan === "wait" ? "running" : end);
      if (end === "terminated") await instance.terminate();
      const forStep = {
        ...toInstance(instance.id),
        eventType: "perdure-prompt-s",
        proof: "p",
      };
      // The platform takes it, and drops it.
      await deliver(adapter, forStep);
      // The same event from the app itself: no step asked for it.
      expectForGood(await refusal(deliver(adapter, { ...forStep, eventType: "ended" })), /WAITING/);
    },
  );

  it("O3: an event for a step of an instance that does not exist is not needed", async () => {
    const forStep = { ...toInstance("unknown"), eventType: "perdure-prompt-s", proof: "p" };
    const error = await refusal(deliver(adapter, forStep));
    expect(error.name).toBe("NotNeededError");
    expect(error.message).toBe('Instance "unknown" of Workflow WAITING_WORKFLOW does not exist');
    expectForGood(await refusal(deliver(adapter, { ...forStep, eventType: "ended" })), /WAITING/);
  });

  it("W5: a terminated or missing instance is gone, and one that completes or fails has ended", async () => {
    const endOf = async ({ id }: Pick<WorkflowInstance, "id">) => adapter.endOf?.(toInstance(id));
    const waiting = await givenInstance("wait", "running");
    expect(await endOf(waiting)).toBeNull();
    await waiting.terminate();
    expect(await endOf(waiting)).toBe("gone");
    expect(await endOf(await givenInstance("return", "complete"))).toBe("ended");
    expect(await endOf(await givenInstance("throw", "errored"))).toBe("ended");
    expect(await endOf({ id: "unknown" })).toBe("gone");
  });

  it("O3: a payload that the platform refuses is a permanent failure", async () => {
    const instance = await givenInstance("wait", "running");
    const error = await refusal(deliver(adapter, toInstance(instance.id), givenLarge(33 * MIB)));
    expectForGood(error, /takes no event as large as delivery/);
    await instance.terminate();
  });

  it("O2: an attempt sends nothing after its time limit", async () => {
    const instance = await givenInstance("wait", "running");
    const signal = AbortSignal.abort(new Error("too late"));
    const error = await refusal(deliver(adapter, toInstance(instance.id), undefined, signal));
    expectRetried(error, /too late/);
    const delivery = givenDelivery();
    await deliver(adapter, toInstance(instance.id), delivery);
    await reaches(instance, "complete");
    expect((await instance.status()).output).toEqual(delivery);
  });

  it("O3: a binding that is missing at delivery is retried", async () => {
    const rolledBack = KINDS.workflow.connect({ env: without("WAITING_WORKFLOW") });
    const error = await refusal(deliver(rolledBack, toInstance("any")));
    expectRetried(error, /No Workflow binding "WAITING_WORKFLOW".*"workflows".*Wrangler/);
  });

  it.each([
    ["(instance.not_found) Instance does not exist", true],
    ["(instance.invalid_id) Instance ID is invalid", true],
    ["Payload is too large", true],
    ["Network connection lost", false],
    ["(workflow.not_found) Workflow does not exist", false],
  ])("O3: the platform's error decides about a retry: %s", async (message, isForGood) => {
    const get = () => Promise.reject(new Error(message));
    const broken = KINDS.workflow.connect({ env: { WAITING_WORKFLOW: { get, createBatch: get } } });
    const error = await refusal(deliver(broken, toInstance("any")));
    expect(error instanceof UndeliverableError).toBe(isForGood);
    expect(isForGood ? error.cause : error).toHaveProperty("message", message);
  });

  it("O3: an invalid destination is refused by put()", () => {
    const right = toInstance("i");
    expect(problemOf(right)).toBeUndefined();
    const problemWith = (part: object) => problemOf({ ...right, ...part });
    expect(problemWith({ workflow: "MISSING" })).toMatch(
      /Invalid destination.workflow "MISSING": expected .*"WAITING_WORKFLOW".*"workflows" in the Wrangler/,
    );
    for (const workflow of ["Receiver", "QUEUE", "toString", "__proto__"]) {
      expect(problemWith({ workflow })).toContain("expected the name of a Workflow binding");
    }
    for (const text of ["", "x".repeat(257), 7, null, undefined, 7n]) {
      expect(problemWith({ workflow: text })).toMatch(
        /^(Invalid destination.workflow|Missing option "workflow") .*: expected a string of 1 to 256/,
      );
      expect(problemWith({ instance: text })).toMatch(
        /^(Invalid destination.instance|Missing option "instance") .*: expected a string of 1 to 256/,
      );
    }
    for (const eventType of ["", "a b", "x".repeat(101), "a:b", undefined]) {
      expect(problemWith({ eventType })).toMatch(
        /^(Invalid destination.eventType|Missing option "eventType") .*: expected 1 to 100 of/,
      );
    }
  });
});

describe("a Queue", () => {
  const adapter = KINDS.queue.connect({ env });
  const to: QueueDestination = { kind: "queue", queue: "QUEUE" };

  it("O2: its consumer receives the delivery", async () => {
    const delivery = givenDelivery();
    await deliver(adapter, to, delivery);
    expect(await until(() => received.get(delivery.id))).toEqual([delivery]);
  });

  it("O4: a delivery of the largest size arrives whole", async () => {
    const delivery = givenLarge(adapter.maxBytes);
    await deliver(adapter, to, delivery);
    expect(await until(() => received.get(delivery.id))).toEqual([delivery]);
  });

  it("O3: a message over the limit is a permanent failure", async () => {
    const delivery = givenLarge(128_001);
    const error = await refusal(deliver(adapter, to, delivery));
    expectForGood(error, /Queue QUEUE takes no message as large as delivery delivery-/);
  });

  it.each([
    ["message length of 128001 bytes exceeds limit of 128000 (10204)", true],
    ["Queue send failed: Payload Too Large", true],
    ["Queue send failed: Too Many Requests (10250)", false],
    ["Queue storage limit exceeded (10251)", false],
  ])("O3: the platform's error decides about a retry: %s", async (message, isForGood) => {
    const send = () => Promise.reject(new Error(message));
    const error = await refusal(
      deliver(KINDS.queue.connect({ env: { QUEUE: { send, sendBatch: send } } }), to),
    );
    expect(error instanceof UndeliverableError).toBe(isForGood);
  });

  it("O3: a binding that is missing at delivery is retried", async () => {
    const error = await refusal(deliver(KINDS.queue.connect({ env: without("QUEUE") }), to));
    expectRetried(error, /No Queue producer binding "QUEUE".*"queues.producers".*Wrangler/);
  });

  it("O3: an invalid destination is refused by put()", () => {
    expect(problemOf(to)).toBeUndefined();
    expect(problemOf({ ...to, queue: "Q" })).toMatch(
      /^Invalid destination.queue "Q": expected .*"QUEUE"/,
    );
    expect(problemOf({ ...to, queue: "" })).toMatch(/1 to 256 characters/);
    expect(destinationsOf({}).problemOf(to)).toMatch(/This Worker has none\. Add it to/);
    const many = Object.fromEntries(Array.from({ length: 25 }, (_, n) => [`Q${n}`, env.QUEUE]));
    expect(destinationsOf(many).problemOf(to)).toMatch(/"Q0", .*"Q19" and others\./);
  });

  it("O3: a binding to another Worker, which answers to every name, is not taken for a Queue", () => {
    const service: unknown = Reflect.get(exports, "default");
    expect(destinationsOf({ QUEUE: service }).problemOf(to)).toMatch(/This Worker has none/);
  });
});

describe("a method of the agent itself", () => {
  class Host {
    readonly deliveries: unknown[] = [];
    notMethod = "text";
    isInside = false;

    inHostContext = async <T>(work: () => Promise<T>): Promise<T> => {
      this.isInside = true;
      return work().finally(() => {
        this.isInside = false;
      });
    };

    async onDone(delivery: Delivery) {
      await Promise.resolve();
      this.deliveries.push([delivery, this.isInside]);
    }
    onSync() {
      throw new Error("not today");
    }
    async refuse() {
      throw new UndeliverableError("not ever");
    }
    async refuseFromAnotherCopy() {
      throw Object.assign(new Error("not ever"), { name: "UndeliverableError", isGone: true });
    }
    async throwText() {
      throw "text";
    }
  }

  const to = (method: string): MethodDestination => ({ kind: "method", method });

  function givenHost() {
    const host = new Host();
    return { host, adapter: KINDS.method.connect({ host, inHostContext: host.inHostContext }) };
  }

  it("O2: it is called with the delivery in the agent's context, and awaited", async () => {
    const { host, adapter } = givenHost();
    const delivery = givenDelivery();
    await deliver(adapter, to("onDone"), delivery);
    expect(host.deliveries).toEqual([[delivery, true]]);
    expect(host.isInside).toBe(false);
  });

  it("O3: an error of the method is retried", async () => {
    const { adapter } = givenHost();
    expectRetried(await refusal(deliver(adapter, to("onSync"))), /^not today$/);
    expect(await refusal(deliver(adapter, to("throwText")))).toBe("text");
  });

  it("O3: an UndeliverableError, recognized by its name, is a permanent failure", async () => {
    const { adapter } = givenHost();
    expectForGood(await refusal(deliver(adapter, to("refuse"))), /^not ever$/);
    const error = await refusal(deliver(adapter, to("refuseFromAnotherCopy")));
    expectForGood(error, /^not ever$/);
    expect(error).toHaveProperty("isGone", true);
  });

  it("O3: a method that is missing at delivery is retried", async () => {
    const { adapter } = givenHost();
    const error = await refusal(deliver(adapter, to("onGone")));
    expectRetried(error, /Host has no method "onGone"\. Deploy a version that has it/);
  });

  it("O3: an invalid destination is refused by put()", () => {
    const destinations = destinationsOf({}, new Host());
    const problemOf = (one: unknown) => destinations.problemOf(one);
    expect(problemOf(to("onDone"))).toBeUndefined();
    for (const method of ["onGone", "notMethod", "constructor", "toString", "__proto__"]) {
      expect(problemOf(to(method))).toBe(
        `Invalid destination.method "${method}": expected the name of a method of Host. Add the method, or name another.`,
      );
    }
    expect(problemOf(to(""))).toMatch(/1 to 256 characters/);
  });
});

describe("another agent or Durable Object", () => {
  const adapter = KINDS.agent.connect({ env });
  let made = 0;

  const to = (method: string, agent = "Receiver"): AgentDestination => ({
    kind: "agent",
    agent,
    name: `receiver-${++made}`,
    method,
  });

  it("O2: an object's method is called with the delivery", async () => {
    const delivery = givenDelivery();
    await deliver(adapter, to("take"), delivery);
    expect(received.get(delivery.id)).toEqual([delivery]);
  });

  it("O2: an agent's method is called on the agent of that name", async () => {
    const delivery = givenDelivery();
    const destination = to("take", "ReceiverAgent");
    await deliver(adapter, destination, delivery);
    expect(received.get(delivery.id)).toEqual([
      { ...delivery, event: `received by ${destination.name}` },
    ]);
  });

  it("O2: the result of the method is disposed of", async () => {
    const delivery = givenDelivery();
    await deliver(adapter, to("take"), delivery);
    await until(() => released.has(delivery.id));
  });

  it("O4: a delivery of the largest size arrives whole, also where RPC makes its text larger", async () => {
    const plain = givenLarge(adapter.maxBytes - 2);
    // One character of three bytes, and every other takes two bytes instead of one.
    const delivery = { ...plain, event: `${plain.event.slice(1)}\u4e2d` };
    expect(new TextEncoder().encode(JSON.stringify(delivery)).length).toBe(adapter.maxBytes);
    await deliver(adapter, to("take"), delivery);
    expect(received.get(delivery.id)?.[0]?.event === delivery.event).toBe(true);
    const numbers = { ...plain, event: Array.from({ length: adapter.maxBytes / 4 }, () => 0.5) };
    await deliver(adapter, to("handleWell"), numbers);
  });

  it("O3: an error of the remote method is retried", async () => {
    expectRetried(await refusal(deliver(adapter, to("fail"))), /^not today$/);
    expectRetried(await refusal(deliver(adapter, to("failAsIfTooLarge"))), /too large$/);
  });

  it("O3: an UndeliverableError is a permanent failure, although RPC loses its class", async () => {
    const error = await refusal(deliver(adapter, to("refuse")));
    expectForGood(error, /^not ever$/);
    expect(error).toHaveProperty("isGone", true);
  });

  it("O3: an UndeliverableError is a permanent failure under an older compatibility date, where RPC loses its name", async () => {
    const refuse = () => Promise.reject(new Error("UndeliverableError: not ever"));
    const stub = { refuse, __unsafe_ensureInitialized: async () => {} };
    const older = { getByName: () => stub, idFromName: () => "id", get: () => stub };
    const error = await refusal(
      deliver(KINDS.agent.connect({ env: { Receiver: older } }), to("refuse")),
    );
    expectForGood(error, /^not ever$/);
  });

  it("O3: a delivery to an object that is reset is retried, and reaches its next instance", async () => {
    const destination = to("reset");
    expectRetried(await refusal(deliver(adapter, destination)), /reset in the middle/);
    const delivery = { ...givenDelivery(), attempt: 2 };
    await deliver(adapter, { ...destination, method: "take" }, delivery);
    expect(received.get(delivery.id)).toEqual([delivery]);
  });

  it("O3: a missing remote method is retried", async () => {
    const destination = to("absent");
    const error = await refusal(deliver(adapter, destination));
    expectRetried(error, /There is no absent\(\) of Receiver "receiver-\d+"\. Deploy a version/);
    expect(error.cause).toBeInstanceOf(TypeError);
  });

  it("O3: an event that is too large for RPC is a permanent failure", async () => {
    const error = await refusal(deliver(adapter, to("take"), givenLarge(33 * MIB)));
    expectForGood(error, /take\(\) of Receiver "receiver-\d+" takes no event as large as/);
  });

  it("O3: a binding that is missing at delivery is retried", async () => {
    const error = await refusal(
      deliver(KINDS.agent.connect({ env: without("Receiver") }), to("take")),
    );
    expectRetried(error, /No Durable Object binding "Receiver".*"durable_objects.bindings"/);
  });

  it("O3: an invalid destination is refused by put()", () => {
    expect(problemOf(to("take"))).toBeUndefined();
    expect(problemOf(to("take", "Absent"))).toMatch(
      /Invalid destination.agent "Absent": .*"Receiver"/,
    );
    expect(problemOf(to("take", "QUEUE"))).toMatch(/name of a Durable Object binding/);
    expect(problemOf({ ...to("take"), name: "" })).toMatch(/Invalid destination.name "": expected/);
    for (const method of ["constructor", "toString", "fetch", "alarm", "dup", "then", "name"]) {
      expect(problemOf(to(method))).toMatch(
        /Invalid destination.method .*: expected a method of the agent's own, which RPC can call/,
      );
    }
  });
});

describe("the order of entries", () => {
  const destinations = destinationsOf({});
  const keyOf = (to: Destination) => destinations.keyOf(to);
  // Short, and of what could be a border between names, so that two of them often look alike.
  const name = fc.string({ unit: fc.constantFrom("a", " ", '"', ",", "[", "\\"), maxLength: 3 });
  const destination: fc.Arbitrary<Destination> = fc.oneof(
    fc.record({
      kind: fc.constant("workflow" as const),
      workflow: name,
      instance: name,
      eventType: fc.constant("told"),
    }),
    fc.record({ kind: fc.constant("queue" as const), queue: name }),
    fc.record({ kind: fc.constant("method" as const), method: name }),
    fc.record({
      kind: fc.constant("agent" as const),
      agent: name,
      name,
      method: fc.constant("take"),
    }),
  );

  it("O2: no two destinations share a key, whatever their names contain", () => {
    fc.assert(
      fc.property(destination, destination, (one, other) => {
        expect(keyOf(one) === keyOf(other)).toBe(JSON.stringify(one) === JSON.stringify(other));
      }),
      { numRuns: 5_000 },
    );
  });
});
