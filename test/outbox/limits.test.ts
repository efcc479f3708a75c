/** The bounds of the outbox: entries that wait, and dead letters. Each is reached here. */

import { describe, expect, it, vi } from "vitest";
import {
  type Destination,
  InvalidOptionError,
  Outbox,
  OutboxFullError,
  UndeliverableError,
} from "../../src/outbox/index.ts";
import { readSettings } from "../../src/outbox/options.ts";
import { until } from "../support/given.ts";
import { forever } from "../support/ledger.ts";
import {
  type Box,
  crashBox,
  givenListening,
  inside,
  putAll,
  workflowNamed,
} from "../support/outbox.ts";

const PLAIN = workflowNamed("plain");
const never = () => {
  throw new UndeliverableError("never");
};

describe("maxWaiting", () => {
  it("O1: put() throws an OutboxFullError with the numbers, and the transaction is rolled back", async () => {
    const { box } = givenListening({ settings: { maxWaiting: 3 }, deliver: forever });
    await putAll(box, ["a", "b"], PLAIN);
    await inside(box, async ({ outbox }, ctx) => {
      const both = () =>
        ctx.storage.transactionSync(() => {
          for (const id of ["c", "d"]) outbox.put(PLAIN, 1, { id });
        });
      expect(both).toThrow(OutboxFullError);
      expect(await outbox.inspect("c")).toBeNull();
      outbox.put(PLAIN, 1, { id: "c" });
      // The same again is the same entry.
      expect(outbox.put(PLAIN, 1, { id: "a" })).toBe("a");
      expect(() => outbox.put(PLAIN, 1)).toThrow(
        expect.objectContaining({
          name: "OutboxFullError",
          waiting: 3,
          limit: 3,
          message: expect.stringMatching(/3 entries wait, and maxWaiting is 3/),
        }),
      );
      expect((await outbox.stats()).waiting).toBe(3);
    });
    await crashBox(box);
  });

  it("O1: put() accepts entries again after deliveries, also after a restart", async () => {
    const { promise: open, resolve: goOn } = Promise.withResolvers<void>();
    const { box, came } = givenListening({ settings: { maxWaiting: 2 }, deliver: () => open });
    await putAll(box, ["a", "b"], PLAIN);
    await crashBox(box);
    await expect(putAll(box, ["c"], PLAIN)).rejects.toThrow(/The outbox is full/);
    await inside(box, () => goOn());
    await until(() => inside(box, async ({ outbox }) => (await outbox.stats()).waiting === 0));
    await putAll(box, ["c", "d"], PLAIN);
    await until(() => came.includes("d#1"));
  });

  it("O1: the events of a submission's end are stored above the limit", async () => {
    const { box, came } = givenListening({ settings: { maxWaiting: 1 } });
    const other: Destination = workflowNamed("other");
    await inside(box, async ({ lifecycle, outbox }, ctx) => {
      await lifecycle.start();
      ctx.storage.transactionSync(() => {
        for (const id of ["a", "b", "c"]) outbox.enqueue(id, other, "1");
      });
      expect(() => outbox.put(PLAIN, 1)).toThrow(OutboxFullError);
      outbox.flush();
    });
    await until(() => ["a", "b", "c"].every((id) => came.includes(`${id}#1`)));
  });
});

describe("telemetry", () => {
  const COLLECTOR: Destination = { kind: "otlp", url: "https://collector.example" };
  const enqueue = (box: Box, ids: readonly string[]) =>
    inside(box, async ({ lifecycle, outbox }, ctx) => {
      await lifecycle.start();
      ctx.storage.transactionSync(() => {
        for (const id of ids) outbox.enqueue(id, COLLECTOR, `{"signal":"traces"}`);
      });
      outbox.flush();
    });

  it("O1: a collector that is down takes at most half of maxWaiting, and is reported once", async () => {
    const warned = vi.spyOn(console, "warn").mockReturnValue();
    const { box, came } = givenListening({
      settings: { maxWaiting: 10 },
      deliver: (_, { kind }) => {
        if (kind === "otlp") throw new Error("connection refused");
      },
    });
    await enqueue(
      box,
      Array.from({ length: 30 }, (_, nth) => `t${nth}`),
    );
    expect((await inside(box, ({ outbox }) => outbox.stats())).waiting).toBe(5);
    const dropped = warned.mock.calls.filter(([text]) => /Traces and metrics/.test(String(text)));
    expect(dropped).toHaveLength(1);
    expect(dropped[0]?.[0]).toMatch(/5 entries wait.*half of maxWaiting, 10/);
    const work = ["a", "b", "c", "d", "e"];
    await putAll(box, work, PLAIN);
    await until(() => work.every((id) => came.includes(`${id}#1`)));
    await crashBox(box);
  });

  it("the traces and metrics of a submission cost four rows, besides the wake that they share", async () => {
    const { box, came } = givenListening();
    const rowsOf = async (ids: readonly string[]) => {
      const before = came.length;
      await inside(box, ({ meter }) => meter.reset());
      await enqueue(box, ids);
      await until(() => came.length === before + ids.length);
      await until(() => inside(box, async ({ outbox }) => (await outbox.stats()).waiting === 0));
      return (await inside(box, ({ meter }) => meter.read())).rowsWritten;
    };
    await rowsOf(["first"]);
    const wake = (await rowsOf(["alone"])) - 2;
    expect((await rowsOf(["traces", "metrics"])) - wake).toBe(4);
    expect(wake).toBeLessThanOrEqual(2);
  });
});

describe("keepDeadLetters", () => {
  it("O3: the newest maxCount dead letters are kept", async () => {
    const notified: string[] = [];
    const { box } = givenListening({
      settings: { keepDeadLetters: { maxCount: 3 } },
      deliver: never,
      onDeadLetter: ({ id }) => void notified.push(id),
    });
    const ids = Array.from({ length: 8 }, (_, nth) => `e${nth}`);
    await putAll(box, ids, PLAIN, "x".repeat(600_000));
    await until(() => notified.length === ids.length);
    const kept = () =>
      inside(box, async ({ outbox }) =>
        (await outbox.listDeadLetters()).items.map(({ id }) => id).toSorted(),
      );
    await until(async () => (await kept()).length === 3);
    await inside(box, (_, { storage }) => {
      const query = "SELECT COUNT(DISTINCT owner) AS n FROM perdure_values";
      expect(storage.sql.exec<{ n: number }>(query).one().n).toBe(3);
    });
    // Those that were redriven and deleted make room.
    const [first = "", second = ""] = await kept();
    await inside(box, ({ outbox }) => outbox.deleteDeadLetter(first));
    await putAll(box, ["f"], PLAIN);
    await until(() => notified.length === ids.length + 1);
    expect(await kept()).toContain(second);
    expect(await kept()).toHaveLength(3);
  });

  it("O3: dead letters older than maxAge are deleted at the next start", async () => {
    let now = Date.now();
    const { box } = givenListening({
      settings: { keepDeadLetters: { maxAge: "1 hour" } },
      clock: { now: () => now, random: () => 0.5 },
      deliver: never,
    });
    await putAll(box, ["old"], PLAIN);
    const count = () => inside(box, async ({ outbox }) => outbox.countDeadLetters());
    await until(async () => (await count()) === 1);
    await until(() =>
      inside(box, (_, { storage }) => {
        const query = "SELECT is_notified FROM perdure_outbox_ended";
        return storage.sql.exec<{ is_notified: number }>(query).one().is_notified === 1;
      }),
    );
    now += 3_600_001;
    await crashBox(box);
    expect(await count()).toBe(0);
  });

  it("O3: a dead letter without a notification is kept", async () => {
    const { box } = givenListening({
      settings: { keepDeadLetters: { maxCount: 1 } },
      deliver: never,
      onDeadLetter: forever,
    });
    await putAll(box, ["a", "b", "c"], PLAIN);
    await until(() => inside(box, async ({ outbox }) => (await outbox.countDeadLetters()) === 3));
    await crashBox(box);
    expect(await inside(box, ({ outbox }) => outbox.countDeadLetters())).toBe(3);
    await crashBox(box);
  });
});

it.each([
  [{ maxWaiting: 0 }, /Invalid maxWaiting 0: expected a whole number from 1/],
  [{ keepDeadLetters: { maxCount: -1 } }, /Invalid keepDeadLetters.maxCount -1/],
  [{ keepDeadLetters: { maxAge: "soon" as never } }, /Invalid keepDeadLetters.maxAge "soon"/],
  [{ keepDeadLetters: { days: 3 } as never }, /Unknown option "days" in keepDeadLetters/],
])("O3: invalid limits are refused: %j", (settings, problem) => {
  expect(() => readSettings(settings)).toThrow(problem);
});

it.each([[null], [undefined], [0], [true], ["x"], [[]], [new Date(0)]])(
  "refuses %j in place of the options of an Outbox",
  (options) => {
    expect(() => new Outbox(options as never)).toThrow(InvalidOptionError);
    expect(() => new Outbox(options as never)).toThrow(
      /^Invalid options of Outbox .*: expected an/,
    );
  },
);
