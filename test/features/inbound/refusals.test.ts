/** Counts of refused requests: what they cost, and how many are kept. */

import { describe, expect, it } from "vitest";
import { inboundFacts } from "../../../src/features/inbound/facts.ts";
import type { RefusedRequests } from "../../../src/features/inbound/protocol.ts";
import { givenInbound, type InboundStub, inside } from "../../support/inbound.ts";

const HOUR = 3_600_000;

const refuse = (stub: InboundStub, refused: Partial<RefusedRequests> = {}) =>
  inside(stub, ({ inbound }) =>
    inbound.countRefused({ source: "github", reason: "signature", count: 2, ...refused }),
  );

const rowsOf = (stub: InboundStub) =>
  inside(stub, (_, { storage: { sql } }) =>
    sql.exec("SELECT source, reason, count FROM perdure_refusals ORDER BY hour").toArray(),
  );

const factsOf = (stub: InboundStub, later = 0) =>
  inside(stub, (_, { storage }) => inboundFacts(storage.sql, Date.now() + later).refused);

describe("refused requests", () => {
  it("I8: one hour, source and reason are one row", async () => {
    const stub = givenInbound();
    for (let i = 0; i < 50; i++) await refuse(stub);
    await refuse(stub, { reason: "clock", count: 1 });
    expect(await rowsOf(stub)).toHaveLength(2);
    expect(await factsOf(stub)).toMatchObject([
      { source: "github", reason: "clock", count: 1 },
      { source: "github", reason: "signature", count: 100 },
    ]);
  });

  it("I8: rows of the last 24 hours are kept, and at most 1,000", async () => {
    let aheadMs = 0;
    const stub = givenInbound({ aheadMs: () => aheadMs });
    for (let hour = 0; hour < 60; hour++) {
      aheadMs = hour * HOUR;
      await refuse(stub);
    }
    expect(await rowsOf(stub)).toHaveLength(24);
    expect(await factsOf(stub, aheadMs)).toMatchObject([{ count: 48 }]);
    await inside(stub, async ({ inbound }) => {
      for (let i = 0; i < 1_100; i++) {
        await inbound.countRefused({ source: `s${i}`, reason: "clock", count: 1 });
      }
    });
    expect(await rowsOf(stub)).toHaveLength(1_000);
  });

  it.each([
    ["source", { source: "" }],
    ["reason", { reason: "forged" }],
    ["count", { count: 0 }],
    ["other", { other: 1 }],
  ])("I3: an invalid %s is refused", async (field, refused) => {
    const stub = givenInbound();
    const error = await inside(stub, ({ inbound }) =>
      inbound
        .countRefused({ source: "a", reason: "clock", count: 1, ...refused } as never)
        .then(String, String),
    );
    expect(error).toContain("InvalidArrivalError");
    expect(error).toContain(field);
  });
});
