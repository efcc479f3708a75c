/** O1-O5 in an outbox: what a last reading found, each on its own. */

import { expect, it } from "vitest";
import { UndeliverableError } from "../../src/outbox/index.ts";
import { until } from "../support/given.ts";
import { sleep } from "../support/ledger.ts";
import {
  type Box,
  givenListening,
  inside,
  putAll,
  WEBHOOK,
  wakesOf,
  workflowNamed,
} from "../support/outbox.ts";

const PLAIN = workflowNamed("plain");

const stateOf = (box: Box, id: string) =>
  inside(box, async ({ outbox }) => (await outbox.inspect(id))?.state);

it("O2: an entry for a held endpoint is delivered when its Retry-After has passed", async () => {
  const busy = { statusCode: 429, responseHeaders: { "retry-after": "2" } };
  const { box, came } = givenListening({
    settings: { policy: { maxAttempts: 1 } },
    deliver: ({ id }) => {
      if (id === "a") throw Object.assign(new Error("later"), busy);
    },
  });
  await putAll(box, ["a"], WEBHOOK);
  await until(async () => (await stateOf(box, "a")) === "dead");
  // The wake has nothing to wait for, and goes.
  await until(async () => (await inside(box, (_, ctx) => wakesOf(ctx))).job === null);
  await putAll(box, ["b"], WEBHOOK);
  await until(() => came.includes("b#1"));
});

it("O3: a dead letter whose notification could not be stored keeps the wake", async () => {
  let notified = 0;
  const { box } = givenListening({
    deliver: ({ id }) => {
      if (id === "a") throw new UndeliverableError("never");
    },
    onDeadLetter: () => {
      notified++;
    },
  });
  await inside(box, ({ meter }) => {
    meter.onWrite = (_, what) => {
      if (!what.includes("SET is_notified = 1")) return;
      meter.onWrite = undefined;
      throw new Error("disk full");
    };
  });
  await putAll(box, ["a"]);
  await until(() => notified === 1);
  await putAll(box, ["b"]);
  await sleep(100);
  expect((await inside(box, (_, ctx) => wakesOf(ctx))).job).not.toBeNull();
});

it("O3: an entry that was rolled back and put again keeps its backoff", async () => {
  const { box, came } = givenListening({
    clock: { now: Date.now, random: () => 0.9 },
    settings: { policy: { backoff: { base: "1 hour" } } },
    deliver: ({ id }) => {
      if (id === "a") throw new Error("not now");
    },
  });
  await putAll(box, ["x"]);
  await until(async () => (await stateOf(box, "x")) === undefined);
  await inside(box, ({ outbox }, { storage }) => {
    const rolledBack = () =>
      storage.transactionSync(() => {
        outbox.put(PLAIN, 1, { id: "a" });
        throw new Error("roll back");
      });
    expect(rolledBack).toThrow("roll back");
    outbox.put(PLAIN, 1, { id: "a" });
  });
  await sleep(200);
  expect(came).toEqual(["x#1", "a#1"]);
});

it("O4: read() returns the event of the waiting entry or the latest dead letter", async () => {
  const { box } = givenListening({
    settings: { keepDelivered: {} },
    deliver: (sent) => {
      if ("event" in sent && sent.event === "two") throw new UndeliverableError("never");
    },
  });
  await putAll(box, ["a"], PLAIN, "one");
  await until(async () => (await stateOf(box, "a")) === "delivered");
  await putAll(box, ["a"], PLAIN, "two");
  await until(async () => (await stateOf(box, "a")) === "dead");
  expect(await inside(box, ({ outbox }) => outbox.read("a"))).toBe("two");
});

it("O4: an event that was sent as a reference is kept by its age, whatever maxCount is", async () => {
  const { box } = givenListening({ settings: { keepDelivered: { maxCount: 10 } } });
  const large = { text: "x".repeat(1_100_000) };
  const queue = { kind: "queue", queue: "EVENTS" } as const;
  await putAll(box, ["large"], queue, large);
  await until(async () => (await stateOf(box, "large")) === "delivered");
  const ids = Array.from({ length: 130 }, (_, index) => `e${index}`);
  await putAll(box, ids);
  await until(async () => (await stateOf(box, "e129")) === "delivered");
  await sleep(50);
  expect(await stateOf(box, "e0")).toBeUndefined();
  expect(await inside(box, ({ outbox }) => outbox.read("large"))).toEqual(large);
});
