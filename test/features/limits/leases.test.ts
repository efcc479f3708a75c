/** What was lent to an object: never used beyond what was lent, nor after its end, and given back once. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Amounts, Lent, Return } from "../../../src/features/limits/keeper/protocol.ts";
import { Leases, type Taken } from "../../../src/features/limits/leases.ts";

const MINUTE = { ms: 60_000 };
const RULES = {
  requests: { amount: 100, window: MINUTE },
  tokens: { amount: 100_000, window: MINUTE },
  nanodollars: { amount: 1e9, window: { calendar: "day", zone: "UTC" } },
  slots: 3,
} as const;

const lent = (amounts: Amounts, more: Partial<Lent> = {}): Lent => ({
  outcome: "lent",
  lent: amounts,
  inMs: 0,
  forMs: 10_000,
  lease: 1,
  ...more,
});
const asked = (at = 0, ticket = "agent/1") => ({ at, ticket });
const given = () => new Leases("", RULES);
const taken = (leases: Leases, amounts: Amounts, now: number) => leases.take(amounts, now) as Taken;
const ONE = { requests: 1, tokens: 100 };

describe("leases", () => {
  it("have nothing at first", () => {
    const leases = given();
    expect(leases.take(ONE, 0)).toBeUndefined();
    expect(leases.returns(0)).toEqual([]);
    expect(leases.isEmpty).toBe(true);
  });

  it("are taken until nothing is left, all amounts or none", () => {
    const leases = given();
    leases.lend(lent({ requests: 3, tokens: 250 }), asked(), 5);
    expect(leases.take(ONE, 5)).toBeDefined();
    expect(leases.take(ONE, 5)).toBeDefined();
    expect(leases.take(ONE, 5)).toBeUndefined();
    expect(leases.take({ requests: 1, tokens: 50 }, 5)).toBeDefined();
  });

  it("begin counted from the answer, and end counted from before the ask", () => {
    const leases = given();
    leases.lend(lent(ONE, { inMs: 1_000 }), asked(0), 400);
    expect(leases.take(ONE, 1_399)).toBeUndefined();
    const ahead = leases.take(ONE, 400, true) as Taken;
    expect(leases.startOf(ahead)).toBe(1_400);
    expect(leases.endOf(ahead)).toBe(11_000);
    leases.settle(ahead, {}, 400);
    expect(leases.take(ONE, 11_000)).toBeUndefined();
    expect(leases.take(ONE, 10_999)).toBeDefined();
  });

  it("drop a lease an hour after its end, also when a reservation was never settled", () => {
    const leases = given();
    leases.lend(lent({ ...ONE, slots: 1 }), asked(), 0);
    const crashed = taken(leases, { ...ONE, slots: 1 }, 0);
    expect(leases.isInUse(9_999)).toBe(true);
    expect(leases.isInUse(30_000)).toBe(false);
    leases.returns(3_600_000);
    expect(leases.isEmpty).toBe(false);
    leases.returns(3_700_000);
    expect(leases.isEmpty).toBe(true);
    leases.settle(crashed, ONE, 3_700_000);
    expect(leases.returns(3_700_000)).toEqual([]);
  });

  it("use what ends first, and together what none has alone", () => {
    const leases = given();
    leases.lend(lent(ONE, { forMs: 20_000, lease: 2 }), asked(), 0);
    leases.lend(lent(ONE, { forMs: 10_000, lease: 1 }), asked(), 0);
    const both = taken(leases, { requests: 1, tokens: 150 }, 0);
    leases.settle(both, { requests: 1, tokens: 120 }, 7);
    expect(leases.returns(10)).toEqual([
      expect.objectContaining({ lease: 2, lent: ONE, used: { tokens: 20 } }),
      expect.objectContaining({ lease: 1, lent: ONE, used: ONE, usedAgoMs: 3 }),
    ]);
  });

  it("report use beyond the reservation, and the rest once", () => {
    const leases = given();
    leases.lend(lent({ requests: 2, tokens: 300 }), asked(), 0);
    const one = taken(leases, ONE, 0);
    leases.settle(one, { requests: 1, tokens: 170 }, 0);
    const [first, ...others] = leases.returns(0);
    expect(others).toEqual([]);
    expect(first).toMatchObject({
      lent: { requests: 2, tokens: 300 },
      used: { requests: 1, tokens: 170 },
    });
    expect(leases.returns(0)).toEqual([]);
    expect(leases.isEmpty).toBe(true);
  });

  it("report what is reserved when it is settled, also after the end", () => {
    const leases = given();
    leases.lend(lent({ requests: 2, tokens: 300 }), asked(), 0);
    const one = taken(leases, ONE, 0);
    expect(leases.returns(1)).toMatchObject([{ lent: { requests: 1, tokens: 200 }, used: {} }]);
    leases.settle(one, { requests: 1, tokens: 40 }, 60_000);
    expect(leases.returns(60_000)).toMatchObject([
      { lent: ONE, used: { requests: 1, tokens: 40 }, usedAgoMs: 0 },
    ]);
  });

  it("report the use of work that ran without a lease", () => {
    const leases = given();
    const free = leases.overdraw(0);
    leases.settle(free, ONE, 5);
    expect(leases.returns(5)).toMatchObject([{ lease: 0, lent: {}, used: ONE }]);
  });

  it("expect to use ahead what was used recently, and nothing after one turn an hour ago", () => {
    const leases = given();
    expect(leases.ahead(30_000, 0)).toEqual({});
    for (let now = 0; now < 120_000; now += 1_000) {
      leases.lend(lent(ONE, { lease: now }), asked(now), now);
      leases.settle(taken(leases, ONE, now), ONE, now);
    }
    const { requests = 0, tokens = 0 } = leases.ahead(30_000, 120_000);
    expect(requests).toBeGreaterThan(20);
    expect(requests).toBeLessThanOrEqual(31);
    expect(tokens).toBeLessThanOrEqual(3_100);
    expect(leases.ahead(30_000, 3_720_000)).toEqual({});
  });
});

describe("slots", () => {
  it("are free again when their work ends, without an ask", () => {
    const leases = given();
    leases.lend(lent({ slots: 1 }), asked(), 0);
    const one = taken(leases, { slots: 1 }, 1);
    expect(leases.take({ slots: 1 }, 1)).toBeUndefined();
    leases.settle(one, {}, 2);
    expect(leases.take({ slots: 1 }, 3)).toBeDefined();
    expect(leases.freeTicket("agent/1")).toBe("agent/1/2");
  });

  it("are not taken again after a call while other agents wait, or without news for a third of their time", () => {
    const called = { slots: 1 };
    const leases = given();
    leases.lend({ ...lent({ slots: 1 }), isWanted: true }, asked(), 0);
    const admitted = taken(leases, { slots: 1 }, 1);
    leases.settle(admitted, {}, 2);
    leases.settle(taken(leases, { slots: 1 }, 3), called, 4);
    expect(leases.take({ slots: 1 }, 5)).toBeUndefined();
    expect(leases.returns(5)).toMatchObject([{ ticket: "agent/1" }]);
    leases.lend(lent({ slots: 1 }), asked(), 5);
    leases.settle(taken(leases, { slots: 1 }, 6), called, 7);
    leases.settle(taken(leases, { slots: 1 }, 9_000), called, 9_001);
    expect(leases.take({ slots: 1 }, 10_006)).toBeUndefined();
  });

  it("are renewed while they are taken, at a third of their time", () => {
    const leases = given();
    leases.lend(lent({ slots: 1 }), asked(), 0);
    const one = taken(leases, { slots: 1 }, 1);
    const { slot } = one;
    if (!slot) throw new Error("no slot was taken");
    expect(slot).toMatchObject({ ticket: "agent/1", renewAt: 10_000, isTaken: true });
    leases.renewed(slot, lent({ slots: 1 }), 10_000);
    expect(slot.renewAt).toBe(20_000);
    expect(leases.endOf(one)).toBe(40_000);
    leases.settle(one, {}, 20_000);
    expect(slot.isTaken).toBe(false);
    expect(leases.returns(20_000)).toMatchObject([{ ticket: "agent/1", lent: { slots: 1 } }]);
    expect(leases.returns(20_000)).toEqual([]);
  });
});

const amounts = fc.record({
  requests: fc.nat({ max: 3 }),
  tokens: fc.nat({ max: 1_000 }),
  nanodollars: fc.nat({ max: 1_000 }),
});
const command = fc.oneof(
  fc.record({
    do: fc.constant("lend" as const),
    amounts,
    inMs: fc.nat(2_000),
    forMs: fc.nat(20_000),
  }),
  fc.record({ do: fc.constant("take" as const), amounts, isAhead: fc.boolean() }),
  fc.record({ do: fc.constant("settle" as const), index: fc.nat(5), used: amounts }),
  fc.record({ do: fc.constant("returns" as const) }),
  fc.record({ do: fc.constant("wait" as const), ms: fc.nat(8_000) }),
);

const NAMES = ["requests", "tokens", "nanodollars"] as const;
type Totals = Record<(typeof NAMES)[number], number>;
const zero = (): Totals => ({ requests: 0, tokens: 0, nanodollars: 0 });
function add(totals: Totals, more: Amounts) {
  for (const name of NAMES) totals[name] += more[name] ?? 0;
}

it("never use more than was lent, never after the end, and report everything once", () => {
  const run = (commands: (typeof command extends fc.Arbitrary<infer C> ? C : never)[]) => {
    const leases = new Leases("", RULES);
    const lentOf = new Map<number, Totals & { from: number; to: number }>();
    const reservedOf = new Map<number, Totals>();
    const returnedOf = new Map<number, Totals>();
    const reported = zero();
    const used = zero();
    const open: Taken[] = [];
    let now = 0;
    const report = (returns: readonly Return[]) => {
      for (const { lease, lent: over, used: amounts } of returns) {
        const returned = returnedOf.get(lease) ?? zero();
        add(returned, over);
        returnedOf.set(lease, returned);
        add(reported, amounts);
        for (const amount of [...Object.values(over), ...Object.values(amounts)])
          expect(amount).toBeGreaterThan(0);
      }
    };
    const settle = (one: Taken, amounts: Totals) => {
      const reserves = one.parts.length > 0;
      leases.settle(one, reserves ? amounts : {}, now);
      if (reserves) add(used, amounts);
      for (const { lease, amounts: part } of one.parts) {
        const reserved = reservedOf.get(lease.id) ?? zero();
        for (const name of NAMES) reserved[name] -= part[name];
        reservedOf.set(lease.id, reserved);
      }
    };
    for (const [id, one] of commands.entries()) {
      if (one.do === "wait") now += one.ms;
      if (one.do === "returns") report(leases.returns(now));
      if (one.do === "settle") {
        const [taken] = open.splice(one.index, 1);
        if (taken) settle(taken, one.used);
      }
      if (one.do === "lend") {
        const { inMs, forMs } = one;
        leases.lend(lent(one.amounts, { inMs, forMs, lease: id }), asked(now), now);
        lentOf.set(id, { ...zero(), ...one.amounts, from: now + inMs, to: now + inMs + forMs });
      }
      if (one.do === "take") {
        const taken = leases.take(one.amounts, now, one.isAhead);
        if (!taken) continue;
        open.push(taken);
        const total = zero();
        for (const { lease, amounts: part } of taken.parts) {
          add(total, part);
          const whole = lentOf.get(lease.id);
          if (!whole) throw new Error("a lease that was not lent");
          expect(now).toBeLessThan(whole.to);
          if (!one.isAhead) expect(now).toBeGreaterThanOrEqual(whole.from);
          const reserved = reservedOf.get(lease.id) ?? zero();
          add(reserved, part);
          reservedOf.set(lease.id, reserved);
          const returned = returnedOf.get(lease.id) ?? zero();
          for (const name of NAMES)
            expect(reserved[name] + returned[name]).toBeLessThanOrEqual(whole[name]);
        }
        expect(total).toEqual({ ...zero(), ...one.amounts });
      }
    }
    for (const one of open) settle(one, zero());
    report(leases.returns(now));
    expect(leases.isEmpty).toBe(true);
    expect(reported).toEqual(used);
    for (const [id, { from: _, to: __, ...whole }] of lentOf)
      expect(returnedOf.get(id) ?? zero()).toEqual(whole);
  };
  fc.assert(fc.property(fc.array(command, { maxLength: 60 }), run), { numRuns: 500 });
});
