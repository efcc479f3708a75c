import { describe, expect, it } from "vitest";
import type { StoredKey } from "../../../../src/features/limits/keeper/account.ts";
import { Book } from "../../../../src/features/limits/keeper/book.ts";
import type {
  Amounts,
  Answer,
  Ask,
  Lent,
  Rules,
} from "../../../../src/features/limits/keeper/protocol.ts";

const RULES: Rules = { requests: { amount: 10, window: { ms: 60_000 } }, slots: 4 };
const MONEY: Rules = { nanodollars: { amount: 1_000, window: { calendar: "day", zone: "UTC" } } };
/** Noon. */
const NOON = Date.UTC(2026, 0, 5, 12);

function givenBook(rules = RULES) {
  const rows = new Map<string, StoredKey>();
  const clock = { time: NOON, now: () => clock.time, random: () => 0 };
  const store = {
    load: (key: string) => structuredClone(rows.get(key)),
    save: (key: string, state: StoredKey) => void rows.set(key, structuredClone(state)),
  };
  const given = {
    clock,
    rows,
    book: new Book("account", store, clock),
    restart: () => {
      given.book = new Book("account", store, clock);
    },
    ask: (ticket: string, need: Amounts, more: Partial<Ask> = {}) =>
      given.book.ask({ ticket, key: "k", rules, need, waitedMs: 0, ...more }),
    lend: (ticket: string, need: Amounts, more: Partial<Ask> = {}): Lent & Answer => {
      const answer = given.ask(ticket, need, more);
      if (answer.outcome !== "lent") throw new Error(JSON.stringify(answer));
      return answer;
    },
    giveBack: (ticket: string, { lease, lent }: Lent, used: Amounts, usedAgoMs = 0) =>
      given.book.giveBack([{ key: "k", rules, lease, ticket, lent, used, usedAgoMs }]),
  };
  return given;
}

describe("a keeper's book", () => {
  it("M1: lends no more when the window is full, and says when it is free", () => {
    const { ask, lend, clock } = givenBook();
    for (let n = 0; n < 10; n++) lend(`${n}`, { requests: 1 });
    const wait = ask("late", { requests: 1 });
    expect(wait).toMatchObject({ outcome: "wait", why: "full", dimension: "requests" });
    clock.time += 70_000 + 61_000;
    expect(lend("late", { requests: 1 }).inMs).toBe(0);
  });

  it("tells work that waits for slots when slots are free, not when a window of requests would be", () => {
    const { ask, lend } = givenBook({
      requests: { amount: 600, window: { ms: 60_000 } },
      slots: 4,
    });
    const need = { requests: 1, slots: 1 };
    for (let n = 0; n < 4; n++) lend(`${n}`, need);
    const waits = Array.from({ length: 16 }, (_, n) =>
      ask(`late-${n}`, need, { waitedMs: 16 - n }),
    );
    // Four rounds of the four slots, each of five seconds, before any slot was given back.
    for (const wait of waits) expect(wait).toMatchObject({ outcome: "wait", dimension: "slots" });
    const longest = Math.max(...waits.map((wait) => (wait.outcome === "wait" ? wait.waitMs : 0)));
    expect(longest).toBeLessThanOrEqual(20_000);
  });

  it("M1: counts what was used from the time of its use", () => {
    const { ask, lend, giveBack, clock } = givenBook();
    const lent = lend("a", { requests: 10 });
    clock.time += 5_000;
    giveBack("a", lent, { requests: 10 }, 5_000);
    clock.time += 54_000;
    // It is free in a second: lent from then on.
    expect(ask("b", { requests: 1 })).toMatchObject({ outcome: "lent", inMs: 1_000 });
  });

  it("lends again at once what was not used", () => {
    const { lend, giveBack } = givenBook();
    const lent = lend("a", { requests: 10 });
    giveBack("a", lent, { requests: 2 });
    expect(lend("b", { requests: 8 }).inMs).toBe(0);
  });

  it("lends ahead only while nobody waits, and never the last of a window", () => {
    const rules: Rules = { requests: { amount: 100, window: { ms: 60_000 } } };
    const { lend, ask } = givenBook(rules);
    expect(lend("a", { requests: 1 }, { ahead: { requests: 50 } }).lent).toEqual({ requests: 6 });
    lend("b", { requests: 90 });
    expect(lend("c", { requests: 1 }, { ahead: { requests: 50 } }).lent).toEqual({ requests: 1 });
    expect(ask("d", { requests: 50 })).toMatchObject({ outcome: "wait" });
    expect(lend("e", { requests: 1 }, { ahead: { requests: 1 } }).lent).toEqual({ requests: 1 });
  });

  it("refuses what can never fit", () => {
    const { ask } = givenBook();
    const answer = { outcome: "refused", why: "exceeds", dimension: "requests", allowed: 10 };
    expect(ask("a", { requests: 11 })).toEqual(answer);
    expect(ask("a", { slots: 5 })).toMatchObject({ why: "exceeds", dimension: "slots" });
  });

  it("frees slots that are given back, and those that are not renewed", () => {
    const { ask, lend, giveBack, clock } = givenBook();
    const first = lend("a", { slots: 2 });
    lend("b", { slots: 2 });
    expect(ask("c", { slots: 1 })).toMatchObject({ outcome: "wait", dimension: "slots" });
    giveBack("a", first, {});
    lend("c", { slots: 2 });
    clock.time += 20_000;
    lend("b", { slots: 2 }, { isRenewal: true });
    clock.time += 10_001;
    // That of c has ended.
    expect(ask("d", { slots: 3 })).toMatchObject({ outcome: "wait" });
    lend("d", { slots: 2 });
  });

  it("lends to work that has begun first, then by priority, then by the time waited", () => {
    const { ask, lend, giveBack, clock } = givenBook();
    const lent = lend("all", { slots: 4 });
    const waiting = [
      { ticket: "young", waitedMs: 0 },
      { ticket: "old", waitedMs: 50_000 },
      { ticket: "urgent", waitedMs: 0, priority: 5 },
      { ticket: "begun", waitedMs: 0, hasBegun: true },
    ];
    for (const one of waiting) ask(one.ticket, { slots: 4 }, one);
    clock.time += 3_000;
    giveBack("all", lent, {});
    expect(ask("young", { slots: 4 }, { waitedMs: 3_000 })).toMatchObject({ outcome: "wait" });
    expect(ask("old", { slots: 4 }, { waitedMs: 53_000 })).toMatchObject({ outcome: "wait" });
    const urgent = { waitedMs: 3_000, priority: 5 };
    expect(ask("urgent", { slots: 4 }, urgent)).toMatchObject({ outcome: "wait" });
    giveBack("begun", lend("begun", { slots: 4 }, { waitedMs: 3_000, hasBegun: true }), {});
    lend("urgent", { slots: 4 }, urgent);
  });

  it("forgets work that waits no more, and writes nothing for that", () => {
    const { book, ask, lend, rows } = givenBook();
    lend("all", { slots: 4 });
    ask("cancelled", { slots: 1 });
    const before = rows.get("k");
    const nothing = { lease: 0, lent: {}, used: {}, usedAgoMs: 0 };
    book.giveBack([{ key: "k", rules: RULES, ticket: "cancelled", ...nothing }]);
    expect(book.inspect(["k"])[0]?.waiting).toBe(0);
    expect(rows.get("k")).toBe(before);
  });

  it("lends nothing of a paused key, also after a restart, until it is resumed", () => {
    const given = givenBook();
    given.book.pause("k", "too much spam", RULES);
    given.restart();
    expect(given.ask("a", { requests: 1 })).toMatchObject({
      ...{ outcome: "wait", why: "paused", reason: "too much spam" },
    });
    expect(given.book.isIdle("k", given.rows.get("k") as StoredKey)).toBe(false);
    expect(given.book.resume("k", RULES)).toBe(true);
    expect(given.book.resume("k", RULES)).toBe(false);
    given.lend("a", { requests: 1 });
  });

  it("lends nothing until the time that a provider names", () => {
    const given = givenBook();
    given.book.observe({ key: "k", rules: RULES, refused: { retryAfterMs: 7_000 } });
    given.restart();
    const wait = given.ask("a", { requests: 1 });
    expect(wait).toMatchObject({ outcome: "wait", why: "closed" });
    expect(wait).toHaveProperty("waitMs", 7_000);
    given.clock.time += 7_000;
    given.lend("a", { requests: 1 });
  });

  it("closes all keys where a refusal is of all, also after a restart", () => {
    const given = givenBook();
    const rules: Rules = { requests: { amount: 10, window: { ms: 60_000 } } };
    given.book.observe({ key: "", rules, refused: { retryAfterMs: 7_000 } });
    given.restart();
    const wait = given.ask("a", { requests: 1 });
    expect(wait).toMatchObject({ outcome: "wait", why: "closed", waitMs: 7_000 });
    expect(given.book.inspect(["k"])).toMatchObject([{ closedForMs: 7_000 }]);
    given.clock.time += 7_000;
    given.lend("a", { requests: 1 });
  });

  it("lends less after refusals that name no limit, and more again with time", () => {
    const { book, clock, ask } = givenBook({ requests: { amount: 100, window: { ms: 60_000 } } });
    ask("a", { requests: 1 });
    const [rules] = [{ requests: { amount: 100, window: { ms: 60_000 } } }];
    const lowered = () => book.inspect(["k"])[0]?.lowered?.requests ?? 100;
    for (let n = 0; n < 10; n++) book.observe({ key: "k", rules, refused: {} });
    expect(lowered()).toBe(80);
    clock.time += 6_000;
    book.observe({ key: "k", rules, refused: {} });
    expect(lowered()).toBe(64);
    // Only headers say what a provider allows.
    expect(book.inspect(["k"])[0]).not.toHaveProperty("allowed");
    clock.time += 30 * 60_000;
    expect(lowered()).toBe(100);
  });

  it("lends what a provider allows, until it allows more", () => {
    const rules: Rules = { requests: { amount: 100, window: { ms: 60_000 } } };
    const { book, ask, lend } = givenBook(rules);
    book.observe({ key: "k", rules, allowed: { requests: 50 } });
    lend("a", { requests: 50 });
    expect(ask("b", { requests: 1 })).toMatchObject({ outcome: "wait" });
    book.observe({ key: "k", rules, allowed: { requests: 100 } });
    lend("b", { requests: 50 });
  });

  it("forgets after 10 minutes that a provider allows less, unless that is repeated", () => {
    const rules: Rules = { requests: { amount: 100, window: { ms: 60_000 } } };
    const given = givenBook(rules);
    const observe = () => given.book.observe({ key: "k", rules, allowed: { requests: 50 } });
    const allowed = () => given.book.inspect(["k"])[0]?.allowed?.requests;
    observe();
    given.clock.time += 6 * 60_000;
    observe();
    given.restart();
    given.clock.time += 6 * 60_000;
    expect(allowed()).toBe(50);
    given.clock.time += 4 * 60_000;
    expect(allowed()).toBeUndefined();
    expect(given.book.isIdle("k", given.rows.get("k") as StoredKey)).toBe(true);
  });

  it("goes on from its latest time when its clock is set back", () => {
    const { lend, ask, clock } = givenBook();
    lend("a", { requests: 10 });
    clock.time -= 3_600_000;
    expect(ask("b", { requests: 1 })).toMatchObject({ outcome: "wait" });
    clock.time += 140_000;
    lend("b", { requests: 1 });
  });

  it("keeps no lease for longer after a restart with a clock that was set back", () => {
    const given = givenBook();
    given.lend("a", { requests: 10, slots: 4 });
    given.clock.time -= 24 * 3_600_000;
    given.restart();
    expect(given.ask("b", { requests: 1, slots: 1 })).toMatchObject({ outcome: "wait" });
    given.clock.time += 1_800_000 + 77_000;
    given.lend("b", { requests: 1, slots: 1 });
  });

  it("names the time at which the oldest money leaves a window that slides", () => {
    const rules: Rules = { nanodollars: { amount: 100, window: { ms: 3_600_000 } } };
    const { book, clock, lend, giveBack } = givenBook(rules);
    const backAt = () => book.inspect(["k"])[0]?.windowEndsAt;
    const start = clock.time;
    giveBack("a", lend("a", { nanodollars: 60 }), { nanodollars: 60 });
    clock.time += 1_500_000;
    giveBack("b", lend("b", { nanodollars: 40 }), { nanodollars: 40 });
    const [first = 0] = [backAt()];
    // A use leaves at the end of its slice, 1/120 of the window.
    expect(first - start).toBeGreaterThanOrEqual(3_600_000);
    expect(first - start).toBeLessThanOrEqual(3_630_000);
    clock.time = first - 1;
    expect(book.inspect(["k"])[0]?.used).toEqual({ nanodollars: 100 });
    clock.time = first;
    expect(book.inspect(["k"])[0]?.used).toEqual({ nanodollars: 40 });
    expect(backAt()).toBeGreaterThanOrEqual(start + 1_500_000 + 3_600_000);
    clock.time += 3_600_000;
    expect(backAt()).toBeUndefined();
  });

  it("replaces older work with a singleton key, also in another agent", () => {
    const { ask, lend, giveBack, clock } = givenBook();
    const one = { slots: 1 };
    lend("old", one, { singleton: "replace", ageMs: 5_000 });
    lend("new", one, { singleton: "replace", ageMs: 1_000 });
    const replaced = { outcome: "refused", why: "replaced" };
    const renewal = { singleton: "replace", isRenewal: true } as const;
    expect(ask("old", one, { ...renewal, ageMs: 5_000 })).toEqual(replaced);
    expect(ask("late", one, { singleton: "replace", ageMs: 9_000 })).toEqual(replaced);
    giveBack("new", lend("new", one, { ...renewal, ageMs: 1_000 }), {});
    clock.time += 60_000;
    lend("newer", one, { singleton: "replace", ageMs: 0 });
  });

  it("lets no work wait behind work that it has replaced", () => {
    const { lend, ask, clock } = givenBook({ slots: 1 });
    lend("first", { slots: 1 });
    const waits = Array.from({ length: 10 }, (_, n) => {
      clock.time += 10;
      const answer = ask(`${n}`, { slots: 1 }, { singleton: "replace", ageMs: 0 });
      return answer.outcome === "wait" ? answer.waitMs : undefined;
    });
    expect(new Set(waits)).toEqual(new Set([waits[0]]));
  });

  it("refuses work with a singleton key while another piece holds it", () => {
    const { ask, lend, giveBack } = givenBook();
    const one = { slots: 1 };
    const lent = lend("first", one, { singleton: "skip" });
    expect(ask("second", one, { singleton: "skip" })).toEqual({
      ...{ outcome: "refused", why: "skipped" },
    });
    lend("first", one, { singleton: "skip", isRenewal: true });
    giveBack("first", lent, {});
    lend("third", one, { singleton: "skip" });
  });

  it("gives one agent the notice that money is nearly used, until it confirms it", () => {
    const { ask, lend, giveBack, clock } = givenBook(MONEY);
    const lent = lend("a", { nanodollars: 900 });
    const [first] = giveBack("a", lent, { nanodollars: 800 });
    expect(first).toMatchObject({ key: "k", percent: 80, usedNanodollars: 800 });
    expect(ask("b", { nanodollars: 1 }).notices).toBeUndefined();
    clock.time += 60_000;
    const again = ask("b", { nanodollars: 1 }).notices?.[0];
    expect(again?.id).toBe(first?.id);
    clock.time += 60_000;
    expect(ask("c", { nanodollars: 1 }, { notified: [again?.id ?? ""] }).notices).toBeUndefined();
    const last = lend("d", { nanodollars: 197 });
    expect(last.notices).toBeUndefined();
    expect(giveBack("d", last, { nanodollars: 200 })).toMatchObject([{ percent: 100 }]);
  });

  it.each([
    ["of the calendar", MONEY, 60],
    ["that slides", { nanodollars: { amount: 1_000, window: { ms: 3_600_000 } } }, 100],
  ])("gives no notice of money in a window %s that is only lent or reserved", (_, rules, lost) => {
    const { lend, ask, giveBack, clock, restart } = givenBook(rules);
    const other = lend("b", { nanodollars: 60 }, { ahead: { nanodollars: 40 } });
    clock.time += 10_000;
    const call = lend("a", { nanodollars: 750 });
    expect([call.notices, other.notices]).toEqual([undefined, undefined]);
    // What is reserved may come back.
    expect(ask("c", { nanodollars: 400 })).toMatchObject({ outcome: "wait" });
    expect(ask("c", { nanodollars: 400 }).notices).toBeUndefined();
    expect(giveBack("a", call, { nanodollars: 740 })).toEqual([]);
    restart();
    expect(lend("d", { nanodollars: 1 }).notices).toBeUndefined();
    // What is not reported until the lease ends counts as used, as far as it stays so.
    clock.time += 16 * 60_000;
    const { notices } = ask("e", { nanodollars: 1 });
    expect(notices).toMatchObject([{ percent: 80, usedNanodollars: 740 + lost + 1 }]);
  });

  it("gives both notices where the report of one call and the need of the next call for them", () => {
    const { lend, ask, giveBack } = givenBook(MONEY);
    giveBack("a", lend("a", { nanodollars: 700 }), { nanodollars: 700 });
    const { lease, lent } = lend("b", { nanodollars: 200 });
    const used = { nanodollars: 150 };
    const returns = [{ key: "k", rules: MONEY, lease, ticket: "b", lent, used, usedAgoMs: 0 }];
    const { notices = [] } = ask("c", { nanodollars: 200 }, { returns });
    expect(notices.map(({ percent }) => percent)).toEqual([80, 100]);
    const notified = notices.map(({ id }) => id).reverse();
    expect(ask("c", { nanodollars: 200 }, { notified }).notices).toBeUndefined();
  });

  it("keeps no place for work that fails where the amount is used up", () => {
    const { ask, lend, book } = givenBook(MONEY);
    lend("a", { nanodollars: 1_000 });
    const waiting = () => book.inspect(["k"])[0]?.waiting;
    expect(ask("b", { nanodollars: 1 }, { failsIfFull: true }).outcome).toBe("wait");
    expect(waiting()).toBe(0);
    ask("c", { nanodollars: 1 });
    expect(waiting()).toBe(1);
  });

  it("says that money is used up when what is left does not cover the next call", () => {
    const { ask, lend, giveBack } = givenBook(MONEY);
    expect(giveBack("a", lend("a", { nanodollars: 790 }), { nanodollars: 790 })).toEqual([]);
    const last = lend("b", { nanodollars: 110 });
    expect(giveBack("b", last, { nanodollars: 110 })).toMatchObject([{ percent: 80 }]);
    expect(ask("c", { nanodollars: 101 })).toMatchObject({
      outcome: "wait",
      notices: [{ percent: 100, usedNanodollars: 900 }],
    });
  });

  it("M4: counts money that a crash loses in a call, and gives back what was lent ahead", () => {
    const { lend, book, clock } = givenBook(MONEY);
    lend("a", { nanodollars: 100 }, { ahead: { nanodollars: 50 } });
    const used = () => book.inspect(["k"])[0]?.used.nanodollars;
    expect(used()).toBe(150);
    clock.time += 16 * 60_000;
    expect(used()).toBe(100);
  });

  it("lends money of the next day at its start", () => {
    const { lend, ask, clock } = givenBook(MONEY);
    lend("a", { nanodollars: 1_000 });
    expect(ask("b", { nanodollars: 1 })).toMatchObject({ outcome: "wait", waitMs: 3_600_000 });
    clock.time = Date.UTC(2026, 0, 6);
    lend("b", { nanodollars: 1_000 });
  });

  it("M3: holds for a minute what work of other shares has waited for that a restart has forgotten", () => {
    const { ask, lend, clock, restart } = givenBook();
    const need = { requests: 1 };
    const light = { share: { key: "light", weight: 1 } };
    const heavy = { share: { key: "heavy", weight: 10 } };
    for (let n = 0; n < 9; n++) lend(`${n}`, need, light);
    for (let n = 0; n < 10; n++) ask(`heavy-${n}`, { requests: 2 }, heavy);
    lend("last", need, light);
    restart();
    clock.time += 90_000;
    // The window is free, and nothing of the other share has come back yet, to which all of it belongs.
    expect(ask("late", need, light)).toMatchObject({ outcome: "wait", why: "full" });
    expect(lend("heavy-0", { requests: 2 }, heavy).inMs).toBe(0);
    clock.time += 60_000;
    expect(lend("late", need, light).inMs).toBe(0);
  });

  it("forgets nothing of the keys that do not fit into memory", () => {
    const rows = new Map<string, StoredKey>();
    const store = {
      load: (key: string) => rows.get(key),
      save: (key: string, state: StoredKey) => void rows.set(key, structuredClone(state)),
    };
    const book = new Book("account", store, { now: () => NOON, random: () => 0 }, 3);
    const ask = (key: string) =>
      book.ask({ ticket: "t", key, rules: RULES, need: { requests: 10 }, waitedMs: 0 });
    for (let n = 0; n < 10; n++) expect(ask(`${n}`)).toMatchObject({ outcome: "lent" });
    for (let n = 0; n < 10; n++) expect(ask(`${n}`)).toMatchObject({ outcome: "wait" });
  });
});
