/** What can be put, what becomes of it, and how it travels (O1, O4). */

import { describe, expect, it } from "vitest";
import {
  method,
  type OutboxSettings,
  queue,
  webhook,
  workflowEvent,
} from "../../src/outbox/index.ts";
import { readSettings } from "../../src/outbox/options.ts";
import { givenLedger, until } from "../support/given.ts";
import {
  again,
  arrived,
  forever,
  givenLedgerWith,
  idsAt,
  type Ledger,
  send,
  sleep,
  somewhere,
  within,
} from "../support/ledger.ts";
import { chance, couriers, delivered, refusals, time } from "../support/objects/ledger-object.ts";

/** Runs in the object once its rooms have started. */
function started<T>(stub: Ledger, work: Parameters<typeof within<T>>[1]): Promise<T> {
  return within(stub, async (object, ctx) => {
    await object.lifecycle.start();
    return work(object, ctx);
  });
}

/** How many rows each of the outbox's tables has. */
function rowsIn({ storage }: DurableObjectState): Record<string, number> {
  const tables = ["outbox", "values", "outbox_ended", "endpoints"];
  const exists = (table: string) =>
    storage.sql.exec("SELECT 1 FROM sqlite_master WHERE name = ?", table).toArray().length > 0;
  const count = (table: string) =>
    exists(`perdure_${table}`)
      ? storage.sql.exec<{ n: number }>(`SELECT COUNT(*) AS n FROM perdure_${table}`).one().n
      : 0;
  return Object.fromEntries(tables.map((table) => [table, count(table)]));
}
const NO_ROWS = { outbox: 0, values: 0, outbox_ended: 0, endpoints: 0 };

describe("put() within a transaction", () => {
  it("O1: an event is rolled back with its transaction", async () => {
    const stub = givenLedger();
    const to = somewhere();
    await started(stub, ({ outbox }, { storage }) => {
      expect(() =>
        storage.transactionSync(() => {
          outbox.put(to, "never true");
          throw new Error("roll back");
        }),
      ).toThrow("roll back");
    });
    await sleep(50);
    expect(idsAt(to)).toEqual([]);
    await started(stub, async (_, ctx) => {
      expect(rowsIn(ctx)).toEqual(NO_ROWS);
      expect(await ctx.storage.getAlarm()).toBeNull();
    });
  });

  it("O1: an event that is put after a rolled back one has a wake", async () => {
    const stub = givenLedger();
    const to = somewhere();
    couriers.set(to.instance, forever);
    await started(stub, async ({ outbox }, { storage }) => {
      try {
        storage.transactionSync(() => {
          outbox.put(to, 1);
          throw new Error("roll back");
        });
      } catch {
        // As meant.
      }
      outbox.put(to, 2);
      await sleep(10);
      expect(await storage.getAlarm()).toBeGreaterThan(Date.now());
    });
  });

  it("O1: put() works before the object has started, whether its transaction commits or not", async () => {
    const stub = givenLedger();
    const to = somewhere();
    await within(stub, ({ outbox }, { storage }) => {
      expect(() =>
        storage.transactionSync(() => {
          outbox.put(to, "never true");
          throw new Error("roll back");
        }),
      ).toThrow("roll back");
      storage.transactionSync(() => outbox.put(to, "true", { id: "e" }));
    });
    expect(await arrived(to)).toEqual(["e"]);
  });
});

describe("Invalid arguments are refused, with nothing stored", () => {
  const CASES: [to: unknown, message: RegExp][] = [
    [
      "https://example.com",
      /Invalid destination "https:\/\/example.com": expected what a function such as webhook\(\) or queue\(\) returns\. The kinds are agent, method, queue, webhook, workflow, workflow-start, /,
    ],
    [
      { kind: "mail" },
      /Invalid destination.kind "mail": expected one of agent, method, queue, webhook, workflow, workflow-start/,
    ],
    [{ kind: Object.create(null) }, /Invalid destination.kind {}: expected one of agent/],
    [webhook("https://example.com", undefined as never), /Missing option "secrets" in destination/],
    [method("onNothing"), /Invalid destination.method "onNothing": .*LedgerObject/],
    [queue("NO_QUEUE"), /"NO_QUEUE"/],
    [webhook("http://example.com", { secret: "S" }), /url/],
    [webhook("https://10.0.0.1/", { secret: "S" }), /expected a public host/],
    [
      webhook("https://example.com", { secret: "NO_SECRET" }),
      /secrets\[0\] NO_SECRET: expected the name of a secret of this Worker.*wrangler secret put/,
    ],
    [
      { ...somewhere(), polcy: {} },
      /Unknown option "polcy" in destination\. Valid options: kind, workflow/,
    ],
    [
      { ...somewhere(), policy: { attempts: 3 } },
      /^Unknown option "attempts" in destination\.policy/,
    ],
    [
      { ...somewhere(), policy: { maxAttempts: 0 } },
      /Invalid destination.policy.maxAttempts 0: expected a whole/,
    ],
    [
      { ...somewhere(), policy: { maxAge: "soon" } },
      /Invalid destination.policy.maxAge "soon": expected a positive/,
    ],
    [
      { ...somewhere(), policy: { backoff: { base: -1 } } },
      /Invalid destination.policy.backoff.base -1/,
    ],
    [
      { ...somewhere(), policy: { ordered: "yes" } },
      /Invalid destination.policy.ordered "yes": expected true/,
    ],
  ];

  it.each(CASES)("O1: put() refuses the destination %o", async (to, message) => {
    await started(givenLedger(), ({ outbox }, ctx) => {
      expect(() => outbox.put(to as never, 1)).toThrow(message);
      expect(rowsIn(ctx)).toEqual(NO_ROWS);
    });
  });

  const circle: Record<string, unknown> = {};
  circle.self = circle;
  const EVENTS: [event: unknown, message: RegExp][] = [
    [undefined, /Invalid event undefined: expected JSON/],
    [() => 1, /Invalid event .*: expected JSON/],
    [1n, /Invalid event: JSON cannot hold it/],
    [circle, /Invalid event: JSON cannot hold it/],
    [
      "x".repeat(16 * 1_048_576),
      /Invalid event of 16777218 bytes: expected at most 16777216 bytes.*R2/,
    ],
  ];

  it.each(EVENTS)("O1: put() refuses the event %o", async (event, message) => {
    await started(givenLedger(), ({ outbox }, ctx) => {
      expect(() => outbox.put(somewhere(), event)).toThrow(message);
      expect(rowsIn(ctx)).toEqual(NO_ROWS);
    });
  });

  it("O1: put() refuses the id of an event for another destination", async () => {
    const stub = givenLedger();
    const [first, second] = [somewhere(), somewhere()];
    refusals.set(first.instance, { times: 1, isGone: true });
    await started(stub, async ({ outbox }) => {
      expect(outbox.put(first, 1, { id: "order" })).toBe("order");
      expect(outbox.put(first, 1, { id: "order" })).toBe("order");
      const put = () => outbox.put(second, 1, { id: "order" });
      expect(put).toThrow(
        /Invalid id "order": an event for another destination has this id.*"order\/2"/,
      );
      await until(async () => (await outbox.inspect("order"))?.state === "dead");
      expect(put).toThrow(/for another destination/);
      expect(await outbox.stats()).toEqual({ waiting: 0, deadLetters: 1 });
    });
  });

  it.each([{ ID: "a" }, "a"])("O1: put() refuses the options %o", async (options) => {
    await started(givenLedger(), ({ outbox }) => {
      expect(() => outbox.put(somewhere(), 1, options as object)).toThrow(/put\(\)/);
    });
  });

  it.each(["", 7, "x".repeat(257)])("O1: put() refuses the id %o", async (id) => {
    await started(givenLedger(), ({ outbox }) => {
      expect(() => outbox.put(somewhere(), 1, { id: id as string })).toThrow(
        /expected a string of 1 to 256 characters/,
      );
    });
  });

  it.each([
    [{ concurrency: 0 }, /Invalid concurrency 0: expected a whole number from 1 to 64/],
    [{ keepDelivered: { maxAge: "never" } }, /Invalid keepDelivered.maxAge "never"/],
    [{ keepDelivered: { days: 3 } }, /Unknown option "days" in keepDelivered/],
    [
      { allowPrivateAddresses: "false" },
      /Invalid allowPrivateAddresses "false": expected true or false/,
    ],
    [{ onDeadLetter: 3 }, /Invalid onDeadLetter 3: expected a function/],
    [{ retries: 3 }, /Unknown option "retries" in outbox/],
    [{ policy: { maxAttempts: 1.5 } }, /Invalid policy.maxAttempts 1.5/],
  ])("O1: the constructor refuses the settings %o", (settings, message) => {
    expect(() => readSettings(settings as OutboxSettings)).toThrow(message);
  });
});

describe("Policies", () => {
  it("O3: an ordered entry that fails blocks those behind it, and no other destination", async () => {
    const stub = givenLedger();
    const to = { ...somewhere(), policy: { ordered: true } } as const;
    const other = somewhere();
    refusals.set(to.instance, { times: 3 });
    chance.random = () => 0.01;
    await send(stub, [...["a", "b", "c"].map((id) => ({ id, to })), { id: "d", to: other }]);
    await arrived(other);
    await until(() => idsAt(to).length === 3);
    expect(idsAt(to)).toEqual(["a", "b", "c"]);
  });

  it("O3: an ordered entry blocks no other once it is a dead letter", async () => {
    const stub = givenLedger();
    const to = { ...somewhere(), policy: { ordered: true, maxAttempts: 2 } } as const;
    refusals.set(to.instance, { times: 2 });
    chance.random = () => 0;
    await send(
      stub,
      ["a", "b"].map((id) => ({ id, to })),
    );
    expect(await arrived(to)).toEqual(["b"]);
  });

  it("O2: an attempt over its time limit is repeated with the same id", async () => {
    const stub = givenLedger();
    const to = { ...somewhere(), policy: { timeout: 1_000 } } as const;
    chance.random = () => 0;
    let attempts = 0;
    couriers.set(to.instance, () => (++attempts === 1 ? forever() : Promise.resolve()));
    await send(stub, [{ id: "e", to }]);
    expect(await arrived(to)).toEqual(["e"]);
    expect(attempts).toBe(2);
  });
});

describe("A large event", () => {
  const large = `${"é𝄞".repeat(300_000)}end`;

  it("O4: an event larger than a row arrives whole where the destination takes it whole", async () => {
    const stub = givenLedger();
    const received: unknown[] = [];
    await started(stub, async (object, ctx) => {
      Object.assign(object, {
        onLarge: async ({ event }: { event: unknown }) => received.push(event),
      });
      object.outbox.put(method("onLarge"), { large });
      expect(rowsIn(ctx)).toMatchObject({ outbox: 1, values: 4 });
    });
    await until(() => received.length > 0);
    expect(received).toEqual([{ large }]);
    await until(() => within(stub, (_, ctx) => rowsIn(ctx).outbox === 0));
    await within(stub, (_, ctx) => expect(rowsIn(ctx)).toEqual(NO_ROWS));
  });

  it("O4: it is sent to a workflow as a reference, and can be read for seven days", async () => {
    const stub = givenLedger();
    const to = somewhere();
    await send(stub, [{ id: "large", to, payload: { large } }]);
    await arrived(to);
    const bytes = new TextEncoder().encode(JSON.stringify({ large })).byteLength;
    expect(delivered.get(to.instance)).toEqual([
      { id: "large", payload: { id: "large", attempt: 1, reference: { bytes } } },
    ]);
    await until(() => within(stub, (_, ctx) => rowsIn(ctx).outbox_ended === 1));
    await within(stub, async ({ outbox }, ctx) => {
      expect(rowsIn(ctx)).toMatchObject({ outbox: 0, values: 4, outbox_ended: 1 });
      expect(await outbox.read("large")).toEqual({ large });
      ctx.abort("crash");
    }).catch(() => {});
    time.aheadMs = 7 * 86_400_000 + 1_000;
    await started(again(stub), async ({ outbox }, ctx) => {
      expect(await outbox.read("large")).toBeNull();
      expect(rowsIn(ctx)).toEqual(NO_ROWS);
    });
  });
});

describe("Delivered entries", () => {
  it("O2: keepDelivered keeps them by age and count", async () => {
    const stub = givenLedgerWith({ keepDelivered: { maxAge: "1 hour", maxCount: 100 } });
    const to = somewhere();
    const ids = Array.from({ length: 130 }, (_, index) => `e${index}`);
    await send(
      stub,
      ids.map((id) => ({ id, to })),
    );
    await until(() => within(stub, (_, ctx) => rowsIn(ctx).outbox === 0));
    await within(stub, async ({ outbox }, ctx) => {
      const { outbox_ended: kept } = rowsIn(ctx);
      expect(kept).toBeGreaterThanOrEqual(100);
      expect(kept).toBeLessThan(130);
      expect(await outbox.inspect("e129")).toEqual({
        state: "delivered",
        attempt: 1,
        deliveredAt: expect.any(Number),
      });
      expect(await outbox.inspect("e0")).toBeNull();
      ctx.abort("crash");
    }).catch(() => {});
    time.aheadMs = 3_601_000;
    await started(again(stub), (_, ctx) => expect(rowsIn(ctx)).toEqual(NO_ROWS));
  });

  it("O2: they are deleted by default", async () => {
    const stub = givenLedger();
    const to = somewhere();
    const looked = Promise.withResolvers<void>();
    couriers.set(to.instance, () => looked.promise);
    await send(stub, [{ id: "e", to }]);
    await within(stub, async ({ outbox }) => {
      expect(await outbox.inspect("e")).toEqual({
        state: "waiting",
        attempt: 1,
        dueAt: expect.any(Number),
      });
      expect(await outbox.stats()).toEqual({
        waiting: 1,
        oldestAt: expect.any(Number),
        deadLetters: 0,
      });
      looked.resolve();
    });
    await arrived(to);
    await until(async () => (await within(stub, ({ outbox }) => outbox.inspect("e"))) === null);
  });
});

it("O1: destinations are plain data", () => {
  const plain = [
    workflowEvent({ workflow: "W", instance: "i", eventType: "t" }),
    webhook("https://example.com/", { secret: ["NEW", "OLD"], policy: { maxAttempts: 3 } }),
    queue("Q", { policy: { timeout: "5 seconds" } }),
    method("onDone"),
  ];
  expect(JSON.parse(JSON.stringify(plain))).toEqual(plain);
});
