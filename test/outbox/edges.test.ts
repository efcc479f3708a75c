/**
 * O1-O5 where two things meet in an outbox: what random sequences and crashes
 * at every write have found, and what they cannot come to, each on its own.
 */

import { describe, expect, it } from "vitest";
import { UndeliverableError } from "../../src/outbox/index.ts";
import { until } from "../support/given.ts";
import { forever, sleep } from "../support/ledger.ts";
import {
  crashBox,
  givenListening,
  inside,
  orphansIn,
  putAll,
  WEBHOOK,
  wakeBox,
  wakesOf,
  workflowNamed,
} from "../support/outbox.ts";

const PLAIN = workflowNamed("plain");
const ORDERED = workflowNamed("ordered", { ordered: true });
const LARGE = "x".repeat(600_000);

const never = () => {
  throw new UndeliverableError("never");
};

describe("Counting attempts", () => {
  it("O3: an entry that waits for its retry keeps its attempts when the object is evicted", async () => {
    const { box, came } = givenListening({
      settings: { policy: { maxAttempts: 2, backoff: { base: 1, cap: 1 } } },
      clock: { now: Date.now, random: () => 0 },
      deliver: ({ attempt }) => {
        if (attempt === 1) throw new Error("not now");
      },
    });
    let isEvicted = false;
    await inside(box, ({ meter }, ctx) => {
      meter.onWritten = (_, what) => {
        if (!what.includes("last_error = ?")) return;
        setTimeout(() => {
          isEvicted = true;
          ctx.abort("evicted");
        }, 0);
      };
    });
    await putAll(box, ["e"]);
    await until(() => isEvicted);
    await wakeBox(box);
    await until(() => came.length > 1);
    expect(came).toEqual(["e#1", "e#2"]);
  });

  it("O3: an entry for a disabled endpoint becomes a dead letter with no attempts", async () => {
    const { box } = givenListening();
    await inside(box, async ({ lifecycle, outbox }) => {
      await lifecycle.start();
      await outbox.disableEndpoint(WEBHOOK.url);
    });
    await putAll(box, ["e"], WEBHOOK);
    const letters = () => inside(box, ({ outbox }) => outbox.listDeadLetters());
    await until(async () => (await letters()).items.length > 0);
    expect((await letters()).items).toMatchObject([{ id: "e", attempts: 0 }]);
  });
});

it("O3: disabling an endpoint ends its Retry-After, and its entries become dead letters at once", async () => {
  const { box, came } = givenListening({
    deliver: () => {
      const responseHeaders = { "retry-after": "3600" };
      throw Object.assign(new Error("later"), { statusCode: 429, responseHeaders });
    },
  });
  await putAll(box, ["a"], WEBHOOK);
  await until(() => came.length === 1);
  await putAll(box, ["b"], WEBHOOK);
  await inside(box, ({ outbox }) => outbox.disableEndpoint(WEBHOOK.url));
  const dead = () => inside(box, async ({ outbox }) => (await outbox.inspect("b"))?.state);
  await until(async () => (await dead()) === "dead");
  expect(came).toEqual(["a#1"]);
});

describe("Notifications of dead letters", () => {
  it("O3: an entry that dies again during its first notification is notified again", async () => {
    const notified: number[] = [];
    const { promise: hold, resolve: goOn } = Promise.withResolvers<void>();
    const { box } = givenListening({
      deliver: never,
      onDeadLetter: async ({ attempts }) => {
        notified.push(attempts);
        if (attempts === 1) await hold;
      },
    });
    await putAll(box, ["e"]);
    await until(() => notified.length === 1);
    await inside(box, ({ outbox }) => outbox.redrive("e"));
    await until(() =>
      inside(box, async ({ outbox }) => (await outbox.inspect("e"))?.attempt === 2),
    );
    await inside(box, () => goOn());
    await until(() => notified.length > 1);
    expect(notified).toEqual([1, 2]);
  });

  it("O3: the alarm repeats a notification that a crash interrupted, and is then removed", async () => {
    let notified = 0;
    const { box } = givenListening({
      deliver: never,
      onDeadLetter: () => (++notified === 1 ? forever() : undefined),
    });
    await putAll(box, ["e"]);
    await until(() => notified === 1);
    await crashBox(box);
    expect(await wakeBox(box)).toBe(true);
    await until(() => notified === 2);
    await until(() => inside(box, async (_, ctx) => (await wakesOf(ctx)).alarm === null));
    expect(await inside(box, (_, ctx) => wakesOf(ctx))).toEqual({ job: null, alarm: null });
  });
});

describe("An id that is put again after its delivery was kept", () => {
  const givenKept = async (first: unknown, maxAge: number) => {
    const { box, came } = givenListening({ settings: { keepDelivered: { maxAge } } });
    await putAll(box, ["e"], PLAIN, first);
    await until(() => came.length === 1);
    return { box, came };
  };

  it("O4: its new event stays readable when the earlier one is deleted", async () => {
    const queue = { kind: "queue", queue: "Q" } as const;
    const { box } = givenListening({
      settings: { keepDelivered: { maxAge: 1 } },
      // A delivery of the new event would soon delete it, too.
      deliver: (_, { kind }) => {
        if (kind !== "queue") throw new Error("not now");
      },
    });
    await putAll(box, ["e"], queue, LARGE);
    const state = () => inside(box, async ({ outbox }) => (await outbox.inspect("e"))?.state);
    await until(async () => (await state()) === "delivered");
    await putAll(box, ["e"], PLAIN, LARGE);
    await sleep(10);
    // The next start forgets what is too old.
    await crashBox(box);
    await inside(box, async ({ lifecycle, outbox }, ctx) => {
      await lifecycle.start();
      expect(orphansIn(ctx)).toEqual([]);
      expect(await outbox.read("e")).toBe(LARGE);
    });
  });

  it("O4: a smaller event leaves no parts of the earlier one behind", async () => {
    const { box, came } = await givenKept(LARGE, 60_000);
    await until(() =>
      inside(box, async ({ outbox }) => (await outbox.inspect("e"))?.state === "delivered"),
    );
    await putAll(box, ["e"], PLAIN, "small");
    await until(() => came.length === 2);
    await until(() =>
      inside(box, async ({ outbox }) => (await outbox.inspect("e"))?.state === "delivered"),
    );
    await inside(box, async ({ outbox }, ctx) => {
      expect(orphansIn(ctx)).toEqual([]);
      expect(await outbox.read("e")).toBe("small");
    });
  });
});

it("O2: the first entry of an object is not taken for an interrupted one", async () => {
  let now = Date.now();
  const { box, came } = givenListening({
    settings: { policy: { maxAttempts: 1 } },
    clock: { now: () => now++, random: () => 0 },
  });
  // It is put before the object has started, as over RPC.
  await inside(box, ({ outbox }) => void outbox.put(workflowNamed("plain"), 1, { id: "a" }));
  await until(() => came.length > 0);
  expect(came).toEqual(["a#1"]);
});

describe("A clock that is set back", () => {
  const HOUR_MS = 3_600_000;

  it("O2: an event is delivered at once, in its first attempt, when the clock is set back", async () => {
    let now = Date.now();
    const { box, came } = givenListening({
      settings: { policy: { maxAttempts: 1 } },
      clock: { now: () => now, random: () => 0 },
    });
    await putAll(box, ["a"]);
    now -= HOUR_MS;
    await putAll(box, ["b"]);
    await until(() => came.length > 1);
    expect(came).toEqual(["a#1", "b#1"]);
  });

  it("O2: ordered entries keep their order when the clock is set back between two starts", async () => {
    let now = Date.now();
    let isOpen = false;
    const { box, came } = givenListening({
      clock: { now: () => now, random: () => 0.5 },
      deliver: () => {
        if (!isOpen) throw new Error("not now");
      },
    });
    await putAll(box, ["a"], ORDERED);
    await until(() =>
      inside(box, async ({ outbox }) => (await outbox.inspect("a"))?.attempt === 2),
    );
    await crashBox(box);
    now -= HOUR_MS;
    isOpen = true;
    await putAll(box, ["b"], ORDERED);
    await sleep(50);
    now += 2 * HOUR_MS;
    await wakeBox(box);
    await until(() => came.length === 3);
    expect(came.map((one) => one.slice(0, 1))).toEqual(["a", "a", "b"]);
  });
});

describe("No needless repetition", () => {
  it("O2: a success after the time limit does not cause another attempt", async () => {
    const { promise: late, resolve: goOn } = Promise.withResolvers<void>();
    const { promise: second, resolve: take } = Promise.withResolvers<void>();
    const { box, came } = givenListening({
      clock: { now: Date.now, random: () => 0 },
      deliver: ({ attempt }) => (attempt === 1 ? late : second),
    });
    const hasty = workflowNamed("hasty", { timeout: 500, backoff: { base: 1, cap: 1 } });
    await putAll(box, ["e"], hasty);
    await until(() => came.length === 2);
    await inside(box, () => goOn());
    await sleep(10);
    // What counts is the attempt in flight.
    const state = () => inside(box, ({ outbox }) => outbox.inspect("e"));
    const found = await state();
    expect(found?.state).toBe("waiting");
    // A busy machine may have begun a third one.
    expect(found?.attempt).toBeGreaterThanOrEqual(2);
    await inside(box, () => take());
    await until(async () => (await state()) === null);
    expect(came.slice(0, 2)).toEqual(["e#1", "e#2"]);
  });

  it("O2: a receiver that flushes the outbox at once gets the event once", async () => {
    const { box, came } = givenListening();
    // The scripted destinations wait for the storage first; a method of the object itself does not.
    await inside(box, (object) => {
      let calls = 0;
      Reflect.set(object, "onEvent", ({ id, attempt }: { id: string; attempt: number }) => {
        came.push(`${id}#${attempt}`);
        if (++calls < 5) object.outbox.flush();
      });
    });
    await putAll(box, ["a", "b"], { kind: "method", method: "onEvent" });
    await until(() => came.length > 1);
    await sleep(20);
    expect(came).toEqual(["a#1", "b#1"]);
  });
});

describe("A redriven dead letter", () => {
  it("O3: it is delivered before the entries that were put after it", async () => {
    const { promise: hold, resolve: goOn } = Promise.withResolvers<void>();
    const { box, came } = givenListening({
      deliver: ({ id, attempt }) => {
        if (id === "a" && attempt === 1) never();
        if (id === "b") return hold;
      },
    });
    await putAll(box, ["a", "b", "c", "d"], ORDERED);
    await until(() => came.includes("b#1"));
    await inside(box, ({ outbox }) => outbox.redrive("a"));
    await inside(box, () => goOn());
    await until(() => came.length === 5);
    expect(came).toEqual(["a#1", "b#1", "a#2", "c#1", "d#1"]);
  });
});

it("O3: a full last page of dead letters has no cursor", async () => {
  const { box } = givenListening({ deliver: never });
  await putAll(box, ["a", "b", "c", "d"]);
  const page = (cursor?: string) =>
    inside(box, ({ outbox }) => outbox.listDeadLetters({ limit: 2, ...(cursor && { cursor }) }));
  await until(() => inside(box, async ({ outbox }) => (await outbox.countDeadLetters()) === 4));
  const first = await page();
  expect(first.cursor).toBeDefined();
  expect((await page(first.cursor)).cursor).toBeUndefined();
});

it("O3: an outcome that cannot be stored is retried after a pause", async () => {
  const other = workflowNamed("other");
  const { box, came } = givenListening({ deliver: () => sleep(5) });
  await inside(box, ({ meter }) => {
    meter.onWrite = (_, what) => {
      if (what.startsWith("DELETE FROM perdure_outbox")) throw new Error("disk full");
    };
  });
  // Two destinations, so that the end of one is a reason to look for more.
  await putAll(box, ["a"]);
  await putAll(box, ["b"], other);
  await sleep(300);
  expect(came.length).toBeLessThan(4);
  await inside(box, ({ meter }) => {
    meter.onWrite = undefined;
  });
  const job = await inside(box, async (_, ctx) => (await wakesOf(ctx)).job);
  expect((job ?? Number.POSITIVE_INFINITY) - Date.now()).toBeLessThan(31_000);
});
