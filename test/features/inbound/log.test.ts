/** What the log shows, what it keeps, and what it costs. */

import { describe, expect, it } from "vitest";
import { Inbound } from "../../../src/features/inbound/inbound.ts";
import { MAX_SCANNED, PRUNE_EVERY } from "../../../src/features/inbound/store.ts";
import type { ListInboundOptions } from "../../../src/features/inbound/types.ts";
import {
  accept,
  arrival,
  call,
  crash,
  givenInbound,
  type InboundStub,
  inside,
  inspect,
} from "../../support/inbound.ts";
import type { InboundScript } from "../../support/objects/inbound-object.ts";

const note = (id: string, rest: Parameters<typeof arrival>[1] = {}, text = "one") =>
  call(arrival(id, rest), "note", [text]);

const list = (stub: InboundStub, options?: ListInboundOptions) =>
  inside(stub, ({ inbound }) => inbound.list(options));

const idsOf = async (stub: InboundStub, options?: ListInboundOptions) =>
  (await list(stub, options)).items.map(({ id }) => id);

/** Accepts arrivals in one go. */
function fill(stub: InboundStub, count: number, rest: Parameters<typeof arrival>[1] = {}) {
  return inside(stub, async ({ inbound }) => {
    const ids = Array.from({ length: count }, () => crypto.randomUUID());
    for (const id of ids) await inbound.accept({ arrival: arrival(id, rest) });
    return ids;
  });
}

type Row = { seq: number; body: string | null; body_bytes: number; kept_bytes: number };

const rowsOf = (stub: InboundStub) =>
  inside(stub, (_, { storage: { sql } }) =>
    sql.exec<Row>("SELECT * FROM perdure_inbound ORDER BY seq").toArray(),
  );

describe("list()", () => {
  it("lists the newest first, by source, verdict, type and time, without bodies and results", async () => {
    let aheadMs = 0;
    const stub = givenInbound({ aheadMs: () => aheadMs });
    const start = Date.now();
    await accept(stub, note("a", { type: "issues" }));
    aheadMs = 3_600_000;
    await accept(stub, { arrival: arrival("b", { source: "stripe" }) });
    await accept(stub, call(arrival("c"), "refuse", ["Error", "no"]));
    expect(await idsOf(stub)).toEqual(["c", "b", "a"]);
    expect(await idsOf(stub, { source: "github" })).toEqual(["c", "a"]);
    expect(await idsOf(stub, { verdict: ["accepted", "filtered"] })).toEqual(["b", "a"]);
    expect(await idsOf(stub, { verdict: "refused" })).toEqual(["c"]);
    expect(await idsOf(stub, { type: "issues" })).toEqual(["a"]);
    expect(await idsOf(stub, { since: start + 1_800_000 })).toEqual(["c", "b"]);
    expect(await idsOf(stub, { until: start + 1_800_000 })).toEqual(["a"]);
    expect(await idsOf(stub, { since: start, until: start })).toEqual([]);
    const { items: arrivals } = await list(stub, { type: "issues" });
    expect(Object.keys(arrivals[0] ?? {}).toSorted()).toEqual(
      [
        ...["bytes", "calls", "duplicates", "hash", "id", "receivedAt"],
        ...["source", "storedAt", "type", "verdict"],
      ].toSorted(),
    );
    expect(arrivals[0]?.calls).toEqual([{ kind: "method", ordinal: 0, verb: "note" }]);
  });

  it("returns pages, which stay the same when arrivals come", async () => {
    const stub = givenInbound();
    const ids = (await fill(stub, 7)).toReversed();
    const first = await list(stub, { limit: 3 });
    await fill(stub, 2);
    const second = await list(stub, { limit: 3, cursor: first.cursor ?? "" });
    const third = await list(stub, { limit: 3, cursor: second.cursor ?? "" });
    const seen = [first, second, third].map((page) => page.items.map(({ id }) => id));
    expect(seen).toEqual([ids.slice(0, 3), ids.slice(3, 6), ids.slice(6)]);
    expect(third.cursor).toBeUndefined();
  });

  it("returns shorter pages of arrivals whose results are large", async () => {
    const stub = givenInbound({ onNote: () => "x".repeat(16_000) });
    await inside(stub, async ({ inbound }) => {
      for (let n = 0; n < 35; n++) {
        const { body: _, ...known } = arrival(`d${n}`);
        for (let ordinal = 0; ordinal < 16; ordinal++) {
          await inbound.accept(call(known, "note", ["n"], ordinal));
        }
      }
    });
    const first = await list(stub);
    expect(first.items.length).toBeLessThan(35);
    const second = await list(stub, { cursor: first.cursor ?? "" });
    expect(first.items.length + second.items.length).toBe(35);
  });

  const invalid: [string, unknown][] = [
    ["limit", { limit: 0 }],
    ["limit", { limit: 1_001 }],
    ["cursor", { cursor: "x" }],
    ["verdict", { verdict: "duplicate" }],
    ["verdict", { verdict: [] }],
    ["source", { source: undefined }],
    ["type", { type: undefined }],
    ["since", { since: "soon" }],
    ["states", { states: "accepted" }],
    ["options of", null],
  ];

  it.each(invalid)("refuses an invalid %s (%#)", async (name, options) => {
    const refused = await inside(givenInbound(), ({ inbound }) =>
      inbound.list(options as never).catch((error: Error) => `${error.name}: ${error.message}`),
    );
    expect(refused).toContain("InvalidFilterError: ");
    expect(refused).toContain(name);
  });

  it("inspect() returns null for an unknown arrival, and refuses what can be no id", async () => {
    const stub = givenInbound();
    expect(await inspect(stub, "unknown")).toBeNull();
    const refused = await inside(stub, ({ inbound }) =>
      inbound.inspect(7 as never, {} as never).catch((error: Error) => error.name),
    );
    expect(refused).toBe("InvalidFilterError");
  });
});

describe("retention", () => {
  const settings = (retention: InboundScript["retention"]) => ({ retention: { ...retention } });

  it("I6: keeps the newest arrivals, and at most 64 more", async () => {
    const stub = givenInbound(settings({ maxCount: 100 }));
    const ids = await fill(stub, 400);
    const rows = await rowsOf(stub);
    expect(rows.length).toBeGreaterThanOrEqual(100);
    expect(rows.length).toBeLessThan(100 + PRUNE_EVERY);
    expect(await idsOf(stub, { limit: 1_000 })).toEqual(ids.toReversed().slice(0, rows.length));
    await crash(stub);
    await fill(stub, 1);
    expect(await rowsOf(stub)).toHaveLength(100);
  });

  it("I6: deletes old arrivals when later ones come, also after a start", async () => {
    let aheadMs = 0;
    const stub = givenInbound({ ...settings({ maxAge: "1 day" }), aheadMs: () => aheadMs });
    await fill(stub, 10);
    aheadMs = 2 * 86_400_000;
    await crash(stub);
    const [id] = await fill(stub, 1);
    expect(await idsOf(stub)).toEqual([id]);
    const [row] = await rowsOf(stub);
    expect(row).toMatchObject({ seq: 11, kept_bytes: row?.body_bytes });
  });

  it("I6: a clock that is set back does not hide arrivals from a list by time", async () => {
    let aheadMs = 3_600_000;
    const stub = givenInbound({ aheadMs: () => aheadMs });
    const since = Date.now() + 1_800_000;
    await fill(stub, 1);
    aheadMs = 0;
    await crash(stub);
    await fill(stub, 1);
    expect(await idsOf(stub, { since })).toHaveLength(2);
  });

  it("I6: above maxBytes the oldest arrivals lose their bodies, and stay in the log", async () => {
    const stub = givenInbound(settings({ maxBytes: 10_000 }));
    const body = "x".repeat(998);
    const ids = await fill(stub, 25, { body });
    const rows = await rowsOf(stub);
    expect(rows).toHaveLength(25);
    expect(rows.map(({ body }) => body !== null)).toEqual(rows.map(({ seq }) => seq > 15));
    expect(rows.at(-1)).toMatchObject({ kept_bytes: 10_000 });
    await crash(stub);
    const [large] = await fill(stub, 1, { body: "y".repeat(8_998) });
    const kept = (await rowsOf(stub)).filter(({ body }) => body !== null);
    expect(kept.map(({ body_bytes }) => body_bytes)).toEqual([1_000, 9_000]);
    expect(await inspect(stub, large ?? "")).toHaveProperty("body");
    expect(await inspect(stub, ids[0] ?? "")).not.toHaveProperty("body");
    // A repetition is still known.
    const again = await accept(stub, { arrival: arrival(ids[0] ?? "", { body }) });
    expect(again).toEqual({ verdict: "filtered" });
    expect(await rowsOf(stub)).toHaveLength(26);
  });

  it("I6: a body that is larger than maxBytes, or than a row takes, is not kept", async () => {
    const small = givenInbound(settings({ maxBytes: 100 }));
    const [first] = await fill(small, 1, { body: "fits" });
    const [second] = await fill(small, 1, { body: "x".repeat(200) });
    expect(await inspect(small, first ?? "")).toHaveProperty("body");
    expect(await inspect(small, second ?? "")).not.toHaveProperty("body");
    const stub = givenInbound();
    const [largest] = await fill(stub, 1, { body: "x".repeat(1_499_998) });
    const [tooLarge] = await fill(stub, 1, { body: "x".repeat(1_499_999) });
    expect(await inspect(stub, largest ?? "")).toHaveProperty("body");
    expect(await inspect(stub, tooLarge ?? "")).not.toHaveProperty("body");
  });

  it("I6: the sum of the bodies is right after deletions, restarts and refused calls", async () => {
    const retention = { maxCount: 100, maxBytes: 30_000 };
    const stub = givenInbound(settings(retention));
    for (let round = 0; round < 8; round++) {
      await fill(stub, 40, { body: "x".repeat(round * 90) });
      await accept(stub, call(arrival(`r${round}`), "refuse", ["Error", "no"]));
      if (round % 3 === 0) await crash(stub);
    }
    const rows = await rowsOf(stub);
    const sum = rows.reduce((all, { body }) => all + (body?.length ?? 0), 0);
    expect(rows.at(-1)?.kept_bytes).toBe(sum);
    expect(sum).toBeLessThanOrEqual(30_000);
    expect(sum).toBeGreaterThan(28_000);
  });

  it("I6: limits that were lowered are reached while arrivals come", async () => {
    const name = "as many as come";
    const script = { retention: { maxCount: Number.POSITIVE_INFINITY } };
    const stub = givenInbound(script);
    await fill(stub, 600);
    script.retention.maxCount = 100;
    await crash(stub);
    await fill(stub, 200);
    expect((await rowsOf(stub)).length, name).toBeLessThan(100 + PRUNE_EVERY);
  });

  it.each([
    ["retention", { retention: 7 }],
    ["retention.maxAge", { retention: { maxAge: "soon" } }],
    ["retention.maxCount", { retention: { maxCount: 0 } }],
    ["retention.maxBytes", { retention: { maxBytes: -1 } }],
    ["maxInFlight", { maxInFlight: 0 }],
    ["other", { other: 1 }],
    ["onProblem", { onProblem: "log" }],
  ])("refuses an invalid %s at the construction", (option, settings) => {
    const options = { agent: {}, ...settings } as ConstructorParameters<typeof Inbound>[0];
    expect(() => new Inbound(options)).toThrow(expect.objectContaining({ option }));
  });
});

describe("costs", () => {
  const counted = (stub: InboundStub, requests: readonly Parameters<typeof accept>[1][]) =>
    inside(stub, async ({ inbound, meter }) => {
      meter.reset();
      for (const request of requests) await inbound.accept(request);
      const isOurs = (query: string) => query.includes("perdure_inbound");
      return { statements: meter.statementsOf(isOurs), rows: meter.rowsWrittenBy(isOurs) };
    });

  it("I6: an arrival costs 2 statements and 2 rows, a duplicate and a later call 2 and 1", async () => {
    const stub = givenInbound();
    await accept(stub, note("first"));
    expect(await counted(stub, [note("d1")])).toEqual({ statements: 2, rows: 2 });
    expect(await counted(stub, [note("d1")])).toEqual({ statements: 2, rows: 1 });
    expect(await counted(stub, [call(arrival("d1"), "note", [1], 1)])).toEqual({
      statements: 2,
      rows: 1,
    });
    expect(await counted(stub, [call(arrival("d1"), "note", [1], 1)])).toEqual({
      statements: 1,
      rows: 0,
    });
    const ended = { arrival: arrival("d1"), ended: true } as const;
    expect(await counted(stub, [ended])).toEqual({ statements: 2, rows: 1 });
    expect(await counted(stub, [ended])).toEqual({ statements: 2, rows: 0 });
    expect(await counted(stub, [{ arrival: arrival("d2") }])).toEqual({ statements: 2, rows: 2 });
  });

  it("I6: nothing is read or written before the first arrival", async () => {
    const stub = givenInbound();
    const count = await inside(stub, async ({ lifecycle, meter }) => {
      await lifecycle.start();
      return meter.statementsOf((query) => /inbound/.test(query));
    });
    expect(count).toBe(0);
  });

  it("I6: no alarm is set", async () => {
    const stub = givenInbound();
    await fill(stub, 3);
    expect(await inside(stub, (_, { storage }) => storage.getAlarm())).toBeNull();
  });

  it("I6: lists and deletions of 10,000 arrivals read few rows", async () => {
    const stub = givenInbound({ retention: { maxCount: 10_000 } });
    await fill(stub, 1);
    await inside(stub, (_, { storage: { sql } }) => {
      sql.exec(`INSERT INTO perdure_inbound (source, id, type, verdict, bytes, hash, received_at, stored_at, body_bytes,
          kept_bytes, emptied, calls, body)
        WITH RECURSIVE n(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM n WHERE n < 12000)
        SELECT 'github', 'd' || n, iif(n % 1000, 'push', 'rare'), 'accepted', 1, 'h', n, 1800000000000 + n * 1000,
          length(printf('%.*c', 3000, 'x')) + 2, 3002 * n, 0, '[]', '"' || printf('%.*c', 3000, 'x') || '"' FROM n`);
    });
    await crash(stub);
    const reading = (options: ListInboundOptions) =>
      inside(stub, async ({ inbound, meter }) => {
        await inbound.list({ limit: 1 });
        meter.reset();
        const { items: arrivals } = await inbound.list(options);
        return { found: arrivals.length, rowsRead: meter.read().rowsRead };
      });
    const page = await reading({ limit: 100 });
    expect(page.found).toBe(100);
    expect(page.rowsRead).toBeLessThan(110);
    const at = (n: number) => 1_800_000_000_000 + n * 1_000;
    const range = await reading({ since: at(6_000), until: at(6_050) });
    expect(range.found).toBe(50);
    expect(range.rowsRead).toBeLessThan(100);
    const rare = await reading({ type: "rare" });
    expect(rare.found).toBe(10);
    expect(rare.rowsRead).toBeLessThan(MAX_SCANNED + 10);
    const pruned = await inside(stub, async ({ inbound, meter }) => {
      meter.reset();
      for (let n = 0; n < PRUNE_EVERY; n++) await inbound.accept({ arrival: arrival(`new${n}`) });
      return meter.read();
    });
    // 64 arrivals, and up to 256 deletions in each of two times.
    expect(pruned.rowsRead).toBeLessThan(1_500);
    expect(pruned.rowsWritten).toBeLessThanOrEqual(2 * PRUNE_EVERY + 2 * 2 * 256);
  });
});
