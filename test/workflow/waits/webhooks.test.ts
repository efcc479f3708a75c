/** Waits for arrivals at the agent, without a workflow: matched, found by lookback, bounded. */

import { describe, expect, it, vi } from "vitest";
import { z } from "zod";
import type { Json } from "../../../src/core/json.ts";
import type { Problem } from "../../../src/core/problems.ts";
import type { WaitedArrival } from "../../../src/features/inbound/protocol.ts";
import { oneOfEachTopic } from "../../../src/features/inbound/waits/topics.ts";
import type { WaitRequest } from "../../../src/workflow/waits/protocol.ts";
import type { WebhookRequest } from "../../../src/workflow/webhook.ts";
import { until } from "../../support/given.ts";
import { endEvents } from "../../support/objects/waits-object.ts";
import {
  ask,
  type Capability,
  crash,
  givenWaits,
  inside,
  open,
  rowsOf,
  wake,
} from "../../support/waits.ts";

const MINUTE = 60_000;
let made = 0;

function arrival(body: Json, rest: Partial<WaitedArrival> = {}): WaitedArrival {
  const id = `evt_${++made}`;
  return { source: "stripe", id, type: "paid", body, receivedAt: Date.now(), ...rest };
}

/** A wait of a step for arrivals. */
function wanted(
  request: WebhookRequest,
  rest: { instance?: string; key?: string; run?: string; refuses?: string } = {},
): WaitRequest<Json> {
  const { instance = `instance-${++made}`, key = "", ...given } = rest;
  const idempotencyKey = `key-of-${instance}-${key}`;
  return ask({ kind: "webhook", instance, idempotencyKey, request: request as Json, ...given });
}

const accept = (stub: Capability, one: WaitedArrival, then?: () => void) =>
  inside(stub, (object) => object.accept(one, then));

describe("an arrival that matches", () => {
  it("W3: ends all waits that it is for, and no other, and each workflow gets one event with its proof", async () => {
    const stub = givenWaits();
    const request = { from: "stripe", types: ["paid", "settled"], match: { order: 7 } };
    const a = await open(stub, wanted(request, { instance: "a" }));
    const b = await open(stub, wanted(request, { instance: "b" }));
    const others = [
      { ...request, from: "github" },
      { ...request, types: ["created"] },
      { ...request, match: { order: "7" } },
      { ...request, match: { order: 7, gone: null } },
    ];
    for (const other of others) await open(stub, wanted(other));
    const came = arrival({ order: 7 });
    expect((await accept(stub, came)).sort()).toEqual([a.waitId, b.waitId].sort());
    await until(() => endEvents.get("b"));
    const result = {
      source: came.source,
      id: came.id,
      type: came.type,
      body: came.body,
      receivedAt: came.receivedAt,
    };
    expect(endEvents.get("a")).toMatchObject([
      { proof: a.proof, data: { waitId: a.waitId, status: "completed", result } },
    ]);
    const rows = await rowsOf(stub);
    expect(rows.filter(({ status }) => status === "open")).toHaveLength(others.length);
    expect(await inside(stub, ({ arrivals }) => arrivals.waits()[came.id]?.length)).toBe(2);
  });

  it("W1: a duplicate ends nothing, and an arrival never ends two waits of one instance in a row", async () => {
    const stub = givenWaits();
    const request = { from: "stripe" };
    const came = arrival({});
    await open(stub, wanted(request, { instance: "loop", key: "1" }));
    expect(await accept(stub, came)).toHaveLength(1);
    await open(stub, wanted(request, { instance: "loop", key: "2" }));
    expect(await accept(stub, came)).toEqual([]);
    // The agent refused it, and its sender sends it again: it is matched again.
    expect(await inside(stub, ({ webhooks }) => webhooks.match(came))).toEqual([]);
    expect(await accept(stub, arrival({}))).toHaveLength(1);
  });

  it("W4: an arrival that the JSON Schema refuses leaves the wait open", async () => {
    const stub = givenWaits();
    const schema = z.toJSONSchema(z.object({ amount: z.number().max(100) })) as Json;
    await open(stub, wanted({ from: "stripe", schema }));
    expect(await accept(stub, arrival({ amount: 101 }))).toEqual([]);
    expect(await accept(stub, arrival({}))).toEqual([]);
    expect(await accept(stub, arrival({ amount: 100 }))).toHaveLength(1);
  });

  it("W1: that came while the run had ended answers its wait, when the run continues", async () => {
    const stub = givenWaits();
    const of = { workflow: "W", instance: "continued" };
    const idempotencyKey = "perdure-webhook:W:continued:paid";
    const asked = { ...wanted({ from: "stripe" }, { instance: "continued" }), idempotencyKey };
    const { waitId } = await open(stub, asked);
    await inside(stub, ({ waits }) => waits.endRun(of));
    expect(await rowsOf(stub)).toMatchObject([{ status: "cancelled" }]);
    const came = arrival({ order: 7 });
    expect(await accept(stub, came)).toEqual([]);
    const check = () => inside(stub, ({ waits }) => waits.check({ waitId }));
    expect(await check()).toMatchObject({ status: "completed", result: { id: came.id } });
    // The end of another run, and a second check, change nothing.
    await inside(stub, ({ waits }) => waits.endRun(of));
    expect(await check()).toMatchObject({ status: "completed", result: { id: came.id } });
  });

  it("W1: that comes after a restart of the object answers a wait that was taken back", async () => {
    const stub = givenWaits();
    const idempotencyKey = "perdure-webhook:W:back:paid";
    const request = { from: "stripe", match: { order: 7 } };
    const { waitId } = await open(stub, {
      ...wanted(request, { instance: "back" }),
      idempotencyKey,
    });
    await inside(stub, ({ waits }) => waits.endRun({ workflow: "W", instance: "back" }));
    await crash(stub);
    expect(await accept(stub, arrival({ order: 8 }))).toEqual([]);
    expect(await inside(stub, ({ waits }) => waits.check({ waitId }))).toBeNull();
    expect(await accept(stub, arrival({ order: 7 }))).toEqual([waitId]);
  });

  it("W5: is not the answer of a wait that a restarted run does not ask for within ten minutes", async () => {
    const time = { aheadMs: 0 };
    const stub = givenWaits({ aheadMs: () => time.aheadMs });
    const idempotencyKey = "perdure-webhook:W:left:paid";
    await open(stub, { ...wanted({ from: "stripe" }, { instance: "left" }), idempotencyKey });
    const of = { workflow: "W", instance: "left" };
    await inside(stub, ({ waits }) => waits.restartRun(of, async () => {}));
    time.aheadMs = 10 * MINUTE;
    await wake(stub);
    expect(await rowsOf(stub)).toMatchObject([{ status: "cancelled" }]);
    expect(await accept(stub, arrival({}))).toEqual([]);
  });

  it("O1: is undone with the transaction that accepts it: no end and no event", async () => {
    const stub = givenWaits();
    const { waitId } = await open(stub, wanted({ from: "stripe" }, { instance: "undone" }));
    const undone = await inside(stub, async (object) => {
      const failing = object.accept(arrival({}), () => {
        throw new Error("no room");
      });
      return failing.catch((error: Error) => error.message);
    });
    expect(undone).toBe("no room");
    expect(await rowsOf(stub)).toMatchObject([
      { wait_id: waitId, status: "open", settled_at: null },
    ]);
    expect(await accept(stub, arrival({ second: true }))).toEqual([waitId]);
    await until(() => endEvents.get("undone"));
    expect(endEvents.get("undone")).toMatchObject([
      { data: { result: { body: { second: true } } } },
    ]);
  });

  it("that no step can take ends the wait with the reason", async () => {
    const stub = givenWaits();
    const { waitId } = await open(stub, wanted({ from: "stripe" }));
    const big = arrival("x".repeat(1_500_000));
    await inside(stub, ({ webhooks }) => webhooks.match(big));
    const end = await inside(stub, ({ waits }) => waits.check({ waitId }));
    expect(end).toMatchObject({ status: "failed", result: { error: /a step takes 1500000/ } });
  });
});

describe("an arrival that came before the wait", () => {
  const lookbackMs = 5 * MINUTE;

  it("W2: is found, the oldest first, and each once in a loop of one workflow", async () => {
    const stub = givenWaits();
    const [first, second] = [arrival({ n: 1 }), arrival({ n: 2 })];
    for (const one of [first, arrival({ n: 0 }, { type: "created" }), second])
      await accept(stub, one);
    const request = { types: ["paid"], lookbackMs };
    const got = async (instance: string, key: string) => {
      const { end } = await open(stub, wanted(request, { instance, key }));
      return (end as { result: { id: string } } | undefined)?.result.id;
    };
    expect(await got("l1", "1")).toBe(first.id);
    expect(await got("l2", "1")).toBe(first.id);
    expect(await got("l1", "2")).toBe(second.id);
    expect(await got("l1", "3")).toBeUndefined();
    // The same step is answered by its row.
    expect(await got("l1", "1")).toBe(first.id);
    const third = arrival({ n: 3 });
    expect(await accept(stub, third)).toHaveLength(1);
    const log = await inside(stub, ({ arrivals }) => arrivals.waits());
    expect([first, second, third].map(({ id }) => log[id]?.length)).toEqual([2, 1, 1]);
    expect(endEvents.get("l2")).toBeUndefined();
  });

  it("is not found before the lookback, without one, and where the schema refuses it", async () => {
    const stub = givenWaits();
    const schema = z.toJSONSchema(z.object({ n: z.number() })) as Json;
    await accept(stub, arrival({ n: 1 }, { receivedAt: Date.now() - lookbackMs - MINUTE }));
    await accept(stub, arrival({ n: "2" }));
    expect((await open(stub, wanted({ from: "stripe", schema, lookbackMs }))).end).toBeUndefined();
    expect((await open(stub, wanted({ from: "stripe" }))).end).toBeUndefined();
  });

  it("W2: is not found behind the newest 1,000 of its lookback, and this is reported once for each wait", async () => {
    const problems: Problem[] = [];
    const stub = givenWaits({ onProblem: (problem) => void problems.push(problem) });
    const fill = (count: number) =>
      inside(stub, async ({ arrivals }) => {
        for (let n = 0; n < count; n++) arrivals.add(arrival({}, { type: "created" }));
      });
    const oldest = arrival({ n: 1 });
    await accept(stub, oldest);
    await fill(999);
    const request = { from: "stripe", types: ["paid"], lookbackMs };
    const whole = await open(stub, wanted(request));
    expect(whole.end).toMatchObject({ result: { id: oldest.id } });
    await accept(stub, arrival({}, { source: "github" }));
    expect(problems).toEqual([]);
    await fill(1);
    const missed = wanted(request, { instance: "missed" });
    const { waitId, end } = await open(stub, missed);
    expect(end).toBeUndefined();
    expect((await open(stub, missed)).waitId).toBe(waitId);
    await until(() => problems.length > 0);
    expect(problems).toEqual([
      {
        type: "wait:lookback",
        level: "warn",
        message: expect.stringMatching(/newest 1000 arrivals.*lookback.*from/),
        ids: {
          ...{ waitId, workflow: "W", instance: "missed", step: "step" },
          ...{ source: "stripe", lookbackMs, limit: 1_000 },
        },
      },
    ]);
    // A wait that has found one may have missed an older one.
    const later = arrival({ n: 2 });
    await accept(stub, later);
    const found = await open(stub, wanted(request));
    expect(found.end).toMatchObject({ result: { id: later.id } });
    await until(() => problems.length > 1);
    expect(problems.map(({ ids }) => ids.waitId)).toEqual([waitId, found.waitId]);
  });

  it("W2: while the step refused an earlier one is found, even without a lookback", async () => {
    const stub = givenWaits();
    const request = { from: "stripe", lookbackMs: 0 };
    const first = await open(stub, wanted(request, { instance: "r" }));
    await accept(stub, arrival({ n: 1 }));
    const second = arrival({ n: 2 });
    const third = arrival({ n: 3 });
    expect(await accept(stub, second)).toEqual([]);
    expect(await accept(stub, third)).toEqual([]);
    const again = await open(stub, wanted(request, { instance: "r", refuses: first.waitId }));
    expect(again.end).toMatchObject({ status: "completed", result: { id: second.id } });
    const last = await open(stub, wanted(request, { instance: "r", refuses: again.waitId }));
    expect(last.end).toMatchObject({ status: "completed", result: { id: third.id } });
    const none = await open(stub, wanted(request, { instance: "r", refuses: last.waitId }));
    expect(none.end).toBeUndefined();
    expect((await rowsOf(stub)).map(({ status }) => status)).toEqual([
      "failed",
      "failed",
      "failed",
      "open",
    ]);
  });
});

it("W2: after a refusal, the lookback begins where that of the refused wait began, also if the step looks back less now", async () => {
  const stub = givenWaits();
  const receivedAt = Date.now() - MINUTE;
  const came = [1, 2, 3].map((n) => arrival({ n }, { receivedAt }));
  for (const one of came) await accept(stub, one);
  const request = { from: "stripe", lookbackMs: 5 * MINUTE };
  const first = await open(stub, wanted(request, { instance: "less" }));
  expect(first.end).toMatchObject({ result: { id: came[0]?.id } });
  let refuses = first.waitId;
  for (const one of came.slice(1)) {
    const less = wanted({ ...request, lookbackMs: 0 }, { instance: "less", refuses });
    const again = await open(stub, less);
    expect(again.end).toMatchObject({ result: { id: one.id } });
    refuses = again.waitId;
  }
});

describe("W1: a later run", () => {
  it("W1: is answered by the arrival that has come, and takes over the open wait for the same", async () => {
    const stub = givenWaits();
    const request = { from: "stripe" };
    const first = await open(stub, wanted(request, { instance: "x" }));
    const later = await open(stub, wanted(request, { instance: "x", run: "run-2" }));
    expect(later.waitId).toBe(first.waitId);
    await accept(stub, arrival({}));
    const third = await open(stub, wanted(request, { instance: "x", run: "run-3" }));
    expect(third).toMatchObject({ waitId: first.waitId, end: { status: "completed" } });
  });

  it("W1: that waits for something else gets a wait of its own", async () => {
    const stub = givenWaits();
    const first = await open(stub, wanted({ from: "stripe" }, { instance: "y" }));
    const other = await open(stub, wanted({ from: "github" }, { instance: "y", run: "run-2" }));
    expect(other.waitId).not.toBe(first.waitId);
    expect(await accept(stub, arrival({}))).toEqual([]);
    expect((await rowsOf(stub)).map(({ status }) => status)).toEqual(["cancelled", "open"]);
  });
});

describe("a request to a URL", () => {
  const byUrl = (instance: string, rest: Partial<WebhookRequest> = {}) =>
    wanted({ url: true, ...rest }, { instance });
  const receive = async (stub: Capability, waitId: string, hash: string, body: Json = {}) => {
    const wait = await inside(stub, ({ waits }) => waits.find(waitId));
    const request = { topic: wait?.topic ?? "", hash, body, receivedAt: Date.now() };
    return inside(stub, ({ webhooks }) => webhooks.receive(request));
  };

  it("W3: ends the wait once; the same body is a duplicate, and another one comes too late", async () => {
    const stub = givenWaits();
    const schema = z.toJSONSchema(z.object({ n: z.number() })) as Json;
    const { waitId } = await open(stub, byUrl("u1", { schema }));
    const other = await open(stub, byUrl("u2"));
    expect(await receive(stub, waitId, "h0", { n: "1" })).toMatchObject({ outcome: "refused" });
    const both = await Promise.all(
      [1, 2].map(() => receive(stub, waitId, "h1", { n: 1 }).then(({ outcome }) => outcome)),
    );
    expect(both.toSorted()).toEqual(["accepted", "duplicate"]);
    expect(await receive(stub, waitId, "h2", { n: 2 })).toEqual({ outcome: "gone" });
    expect(await receive(stub, other.waitId, "h1")).toEqual({ outcome: "accepted" });
    await until(() => endEvents.get("u1"));
    expect(endEvents.get("u1")).toMatchObject([{ data: { result: { body: { n: 1 } } } }]);
  });

  it("is no arrival: none ends such a wait, and it adds no shape", async () => {
    const stub = givenWaits();
    await inside(stub, async ({ waits }) => {
      for (let n = 0; n < 150; n++) await waits.open(byUrl(`many-${n}`));
    });
    expect(await accept(stub, arrival({}))).toEqual([]);
    await crash(stub);
    const shapes = await inside(stub, async ({ waits, lifecycle, meter }) => {
      await lifecycle.start();
      meter.reset();
      const found = oneOfEachTopic(waits.store, "s", 23);
      return { found: found.length, rowsRead: meter.read().rowsRead };
    });
    expect(shapes.found).toBe(0);
    expect(shapes.rowsRead).toBeLessThan(10);
  });

  it("that no step can take is refused, and the wait stays open", async () => {
    const stub = givenWaits();
    const { waitId } = await open(stub, byUrl("u3"));
    const refused = await receive(stub, waitId, "h", "x".repeat(1_500_001));
    expect(refused).toMatchObject({
      outcome: "refused",
      problems: [expect.stringContaining("a step takes 1500000")],
    });
    expect(await rowsOf(stub)).toMatchObject([{ status: "open" }]);
  });
});

describe("bounds", () => {
  it("10,000 open waits cost an arrival no more rows than one", async () => {
    const stub = givenWaits();
    const cost = () =>
      inside(stub, async (object) => {
        object.meter.reset();
        const ended = await object.accept(arrival({ order: "o-1" }));
        const { rowsRead, rowsWritten, statements } = object.meter.read();
        object.meter.reset();
        return { ended: ended.length, rowsRead, rowsWritten, statements };
      });
    await open(stub, wanted({ from: "stripe", match: { order: "o-1" } }));
    await accept(stub, arrival({ order: "o-0" }));
    const one = await cost();
    expect(one.ended).toBe(1);
    await inside(stub, async ({ waits }) => {
      for (let n = 1; n <= 10_000; n++) {
        await waits.open(wanted({ from: "stripe", match: { order: `o-${n}` } }));
      }
    });
    const many = await cost();
    expect(many.ended).toBe(1);
    expect(many.statements).toBeLessThanOrEqual(one.statements + 1);
    expect(many.rowsRead).toBeLessThanOrEqual(one.rowsRead + 5);
    expect(many.rowsWritten).toBeLessThanOrEqual(one.rowsWritten);
    console.log(
      `an arrival with one open wait ${JSON.stringify(one)}, with 10,000 ${JSON.stringify(many)}`,
    );
    await crash(stub);
    const restarted = await inside(stub, async (object) => {
      await object.lifecycle.start();
      object.meter.reset();
      const ended = await object.accept(arrival({ order: "o-2" }));
      return { ended: ended.length, rowsRead: object.meter.read().rowsRead };
    });
    expect(restarted.ended).toBe(1);
    expect(restarted.rowsRead).toBeLessThan(one.rowsRead + 30);
  }, 120_000);

  it("a wait of a 101st shape is refused, and one of a known shape is not", async () => {
    const stub = givenWaits();
    const shape = (n: number) => ({ from: "stripe", match: { [`field${n}`]: 1 } });
    for (let n = 0; n < 100; n++) await open(stub, wanted(shape(n), { instance: `s${n}` }));
    const refused = () =>
      inside(stub, ({ waits }) =>
        waits.open(wanted(shape(100))).catch((error: Error) => `${error.name}: ${error.message}`),
      );
    expect(await refused()).toMatch(/^InvalidWaitError: .*100 different combinations/);
    expect(await rowsOf(stub)).toHaveLength(100);
    await open(stub, wanted(shape(7)));
    await crash(stub);
    expect(await refused()).toMatch(/100 different combinations/);
    // With the last wait of a shape there is room for another one.
    await accept(stub, arrival({ field3: 1 }));
    await open(stub, wanted(shape(100)));
    expect(await accept(stub, arrival({ field100: 1, field99: 1 }))).toHaveLength(2);
  });

  it("the 1,001st wait for the same arrival is refused, and one arrival ends the thousand", async () => {
    const stub = givenWaits();
    const refused = await inside(stub, async ({ waits }) => {
      for (let n = 0; n < 1_000; n++) await waits.open(wanted({ from: "stripe" }));
      return waits.open(wanted({ from: "stripe" })).catch((error: Error) => error.message);
    });
    expect(refused).toMatch(/1000 open steps .* wait for the same arrival/);
    expect(await accept(stub, arrival({}))).toHaveLength(1_000);
    expect((await open(stub, wanted({ from: "stripe" }))).end).toBeUndefined();
  });

  it("a large body ends as many waits as there is room for, and says how many stay open", async () => {
    const logged = vi.spyOn(console, "error").mockImplementation(() => {});
    const stub = givenWaits();
    await inside(stub, async ({ waits }) => {
      for (let n = 0; n < 70; n++) await waits.open(wanted({ from: "stripe" }));
    });
    expect(await accept(stub, arrival("x".repeat(1_000_000)))).toHaveLength(63);
    expect(String(logged.mock.calls)).toContain("leaves 7 of");
    logged.mockRestore();
  });

  it("waits of other kinds write no more rows than before", async () => {
    const stub = givenWaits();
    const written = await inside(stub, async (object) => {
      await object.waits.open(ask());
      object.meter.reset();
      const { waitId } = await object.waits.open(ask());
      const opened = object.meter.rowsWrittenBy((query) => query.includes("perdure_jobs"));
      object.meter.reset();
      await object.waits.settle(waitId, { status: "completed", result: null });
      const closed = object.meter.rowsWrittenBy((query) => query.includes("perdure_jobs"));
      return { opened, closed };
    });
    expect(written).toEqual({ opened: 3, closed: 1 });
  });
});
