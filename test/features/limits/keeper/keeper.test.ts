/** The object that keeps a limit: its rows, restarts, pauses, idle keys, hostile input and clocks that jump. */

import { runDurableObjectAlarm } from "cloudflare:test";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Answer, Lent } from "../../../../src/features/limits/keeper/protocol.ts";
import {
  askFor,
  crash,
  type GivenKeeper,
  givenKeeper,
  inside,
  perMinute,
  perSecond,
  returnOf,
  stubOf,
} from "../../../support/limits/keeper.ts";
import type { KeeperObject } from "../../../support/objects/keeper-object.ts";
import { limitMs, sizeOf } from "../../../support/sizes.ts";

afterEach(() => vi.restoreAllMocks());

const realNow = Date.now.bind(Date);
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

function lentOf(answer: Answer): Lent {
  if (answer.outcome !== "lent") throw new Error(`Not lent: ${JSON.stringify(answer)}`);
  return answer;
}

/** Rows that `work` writes, and the alarms that it sets. */
function rowsOf(keeper: GivenKeeper, work: (object: KeeperObject) => Promise<unknown>) {
  return inside(keeper, async (object) => {
    object.meter.reset();
    await work(object);
    const { rowsWritten, setAlarms } = object.meter.read();
    return { rowsWritten, setAlarms };
  });
}

const keysOf = (keeper: GivenKeeper) =>
  inside(keeper, (_, { storage: { sql } }) =>
    Array.from(
      sql.exec<{ key: string }>("SELECT key FROM perdure_limit_keys ORDER BY key"),
      ({ key }) => key,
    ),
  );

const countOf = (keeper: GivenKeeper) =>
  inside(
    keeper,
    (_, { storage: { sql } }) =>
      sql.exec("SELECT count(*) AS keys FROM perdure_limit_keys").one().keys,
  );

/** The time of the machine, so many milliseconds from now. */
function jump(ms: number): void {
  vi.spyOn(Date, "now").mockImplementation(() => realNow() + ms);
}

describe("restarts", () => {
  it("lends no more than the amount when the keeper restarts between every two calls", async () => {
    const keeper = givenKeeper();
    const rules = perMinute(5);
    const outcomes: string[] = [];
    for (let call = 0; call < 8; call++) {
      outcomes.push((await stubOf(keeper).ask(askFor(rules))).outcome);
      await crash(keeper);
    }
    expect(outcomes).toEqual([...Array(5).fill("lent"), ...Array(3).fill("wait")]);
  });

  it("frees what was given back before a restart", async () => {
    const keeper = givenKeeper();
    const ask = askFor({ slots: 1 });
    const lease = lentOf(await stubOf(keeper).ask(ask));
    await crash(keeper);
    expect(await stubOf(keeper).ask(askFor({ slots: 1 }))).toMatchObject({ outcome: "wait" });
    await crash(keeper);
    await stubOf(keeper).giveBack([returnOf(ask, lease)]);
    await crash(keeper);
    expect(await stubOf(keeper).ask(askFor({ slots: 1 }))).toMatchObject({ outcome: "lent" });
  });

  it("answers two calls at the same time as if one came after the other", async () => {
    const keeper = givenKeeper();
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => stubOf(keeper).ask(askFor(perMinute(5)))),
    );
    expect(answers.filter(({ outcome }) => outcome === "lent")).toHaveLength(5);
  });
});

describe("rows", () => {
  it("writes one row for a lease, one for its return, and none while work waits", async () => {
    const keeper = givenKeeper();
    const rules = { slots: 2 };
    // The first call makes the table and sets the alarm.
    await stubOf(keeper).ask(askFor(rules));
    const ask = askFor(rules);
    let lease: Lent | undefined;
    const lend = await rowsOf(keeper, async (object) => {
      lease = lentOf(await object.ask(ask));
    });
    expect(lend).toEqual({ rowsWritten: 1, setAlarms: 0 });
    const wait = await rowsOf(keeper, (object) => object.ask(askFor(rules)));
    expect(wait).toEqual({ rowsWritten: 0, setAlarms: 0 });
    const returns = [returnOf(ask, lease as Lent)];
    const giveBack = await rowsOf(keeper, (object) => object.giveBack(returns));
    expect(giveBack).toEqual({ rowsWritten: 1, setAlarms: 0 });
  });

  it("writes one row for an ask that gives a lease back", async () => {
    const keeper = givenKeeper();
    const rules = { slots: 1 };
    const ask = askFor(rules);
    const lease = lentOf(await stubOf(keeper).ask(ask));
    const next = askFor(rules, { returns: [returnOf(ask, lease)] });
    const rows = await rowsOf(keeper, async (object) => lentOf(await object.ask(next)));
    expect(rows).toEqual({ rowsWritten: 1, setAlarms: 0 });
  });

  it("reads the row of a key that is no longer in memory", async () => {
    const keeper = givenKeeper({ maxKeysInMemory: 3 });
    const rules = perMinute(1);
    const keys = Array.from({ length: 10 }, (_, index) => `key-${index}`);
    for (const key of keys) lentOf(await stubOf(keeper).ask(askFor(rules, { key })));
    for (const key of keys)
      expect(await stubOf(keeper).ask(askFor(rules, { key }))).toMatchObject({ outcome: "wait" });
  });
});

describe("pauses", () => {
  it("lends nothing of a paused key, also after restarts, until it is resumed", async () => {
    const keeper = givenKeeper();
    const rules = perMinute(100);
    const ofAcme = () => stubOf(keeper).ask(askFor(rules, { key: "acme" }));
    await stubOf(keeper).pause("acme", "unpaid", rules);
    for (let restart = 0; restart < 3; restart++) {
      expect(await ofAcme()).toMatchObject({ outcome: "wait", why: "paused", reason: "unpaid" });
      await crash(keeper);
    }
    expect(await stubOf(keeper).ask(askFor(rules, { key: "globex" }))).toMatchObject({
      outcome: "lent",
    });
    expect(await stubOf(keeper).resume("acme", rules)).toBe(true);
    await crash(keeper);
    expect(await stubOf(keeper).resume("acme", rules)).toBe(false);
    expect(await ofAcme()).toMatchObject({ outcome: "lent" });
  });

  it("keeps a pause for ever, and a key that is used", async () => {
    const keeper = givenKeeper();
    await stubOf(keeper).pause("acme", "unpaid", perSecond(1));
    lentOf(await stubOf(keeper).ask(askFor(perSecond(1), { key: "idle" })));
    jump(400 * DAY_MS);
    lentOf(await stubOf(keeper).ask(askFor(perSecond(1), { key: "used" })));
    expect(await runDurableObjectAlarm(stubOf(keeper))).toBe(true);
    expect(await keysOf(keeper)).toEqual(["acme", "used"]);
    await crash(keeper);
    expect(await stubOf(keeper).ask(askFor(perSecond(1), { key: "acme" }))).toMatchObject({
      why: "paused",
    });
  });
});

describe("idle keys", () => {
  const KEYS = sizeOf("LIMITS_KEYS", 10_000);

  it(`forgets ${KEYS} keys, and takes no storage after that`, {
    timeout: limitMs(120_000),
  }, async () => {
    const keeper = givenKeeper({ maxKeysInMemory: 100 });
    const rules = perSecond(10);
    await inside(keeper, async (object) => {
      for (let index = 0; index < KEYS; index++)
        await object.ask(askFor(rules, { key: `key-${index}` }));
    });
    const { keys } = await stubOf(keeper).list({ limit: 2, after: "key-1" });
    expect(keys).toHaveLength(2);
    expect(await countOf(keeper)).toBe(KEYS);
    jump(HOUR_MS);
    let alarms = 0;
    while (await runDurableObjectAlarm(stubOf(keeper))) alarms++;
    // An alarm reads 5,000 keys.
    expect(alarms).toBe(Math.ceil(KEYS / 5_000));
    const tables = await inside(keeper, (_, { storage: { sql } }) =>
      sql.exec("SELECT name FROM sqlite_master WHERE name LIKE 'perdure%'").toArray(),
    );
    expect(tables).toEqual([]);
    // The same instance starts again from nothing.
    lentOf(await stubOf(keeper).ask(askFor(rules, { key: "again" })));
    expect(await keysOf(keeper)).toEqual(["again"]);
  });

  it("sets an alarm again that was lost, or that a wrong clock has set", async () => {
    const keeper = givenKeeper();
    const alarmOf = () => inside(keeper, (_, { storage }) => storage.getAlarm());
    await stubOf(keeper).ask(askFor(perSecond(1)));
    for (const alarm of [null, Date.now() + 400 * DAY_MS]) {
      await inside(keeper, (_, { storage }) =>
        alarm ? storage.setAlarm(alarm) : storage.deleteAlarm(),
      );
      await crash(keeper);
      await stubOf(keeper).ask(askFor(perSecond(1)));
      expect(await alarmOf()).toBeLessThanOrEqual(Date.now() + HOUR_MS);
    }
  });
});

describe("hostile input", () => {
  const good = askFor(perMinute(1));
  const rule = (amount: unknown, window: unknown = { ms: 1_000 }) => ({
    rules: { requests: { amount, window } },
  });
  const cases: readonly (readonly [what: string, ask: unknown])[] = [
    ["no object", null],
    ["a text", "ask"],
    ["a long key", { ...good, key: "k".repeat(513) }],
    ["a key that is no text", { ...good, key: 7 }],
    ["half a character", { ...good, key: "a\ud800" }],
    ["no ticket", { ...good, ticket: "" }],
    ["a long ticket", { ...good, ticket: "t".repeat(1_025) }],
    ["a negative need", { ...good, need: { requests: -1 } }],
    ["a need that is not finite", { ...good, need: { tokens: Number.POSITIVE_INFINITY } }],
    ["a need that is no number", { ...good, need: { tokens: Number.NaN } }],
    ["an absurd need", { ...good, need: { tokens: 1e300 } }],
    ["a negative wait", { ...good, waitedMs: -1 }],
    ["a weight of nothing", { ...good, share: { key: "a", weight: 0 } }],
    ["a priority that is too high", { ...good, priority: 101 }],
    ["an unknown singleton", { ...good, singleton: "both" }],
    ["an amount of nothing", { ...good, ...rule(0) }],
    ["a window of nothing", { ...good, ...rule(1, { ms: 0 }) }],
    ["a long window", { ...good, ...rule(1, { ms: DAY_MS }) }],
    ["an unknown zone", { ...good, ...rule(1, { calendar: "day", zone: "Mars/Olympus" }) }],
    ["an unknown calendar", { ...good, ...rule(1, { calendar: "year", zone: "UTC" }) }],
    ["too many returns", { ...good, returns: Array(1_001).fill(good) }],
    [
      "a return without a lease",
      { ...good, returns: [{ key: "", rules: {}, lent: {}, used: {}, usedAgoMs: 0 }] },
    ],
  ];

  it.each(cases)("refuses %s, and stores nothing", async (_, ask) => {
    const keeper = givenKeeper();
    const refused = await inside(keeper, (object) =>
      object.ask(ask as never).catch((error) => error),
    );
    expect(refused).toMatchObject({
      name: "InvalidKeeperCallError",
      message: expect.stringMatching(/^(Invalid|Missing) /),
    });
    const tables = await inside(keeper, (_object, { storage: { sql } }) =>
      sql.exec("SELECT name FROM sqlite_master WHERE name LIKE 'perdure%'").toArray(),
    );
    expect(tables).toEqual([]);
  });

  it("takes absurd usage without harm: what is given back twice or was never lent frees no more than there is", async () => {
    const keeper = givenKeeper();
    const rules = perMinute(2);
    const ask = askFor(rules, { need: { requests: 2 } });
    const lease = lentOf(await stubOf(keeper).ask(ask));
    const used = { requests: 2 };
    const absurd = { ...returnOf(ask, lease, used), lent: { requests: 1e12 } };
    await stubOf(keeper).giveBack([returnOf(ask, lease, used), absurd]);
    expect(await stubOf(keeper).ask(askFor(rules))).toMatchObject({ outcome: "wait" });
  });

  it("refuses a reason that is empty or long, and an invalid page", async () => {
    const keeper = givenKeeper();
    await inside(keeper, async (object) => {
      const invalid = { name: "InvalidKeeperCallError" };
      await expect(object.pause("acme", "", {})).rejects.toMatchObject(invalid);
      await expect(object.pause("acme", "r".repeat(1_001), {})).rejects.toMatchObject(invalid);
      await expect(object.list({ limit: 0 })).rejects.toMatchObject(invalid);
      await expect(object.list({ limit: 1_001 })).rejects.toMatchObject(invalid);
      await expect(object.resume(1 as never, {})).rejects.toMatchObject(invalid);
    });
  });
});

describe("a clock that jumps", () => {
  it("lends no more than the amount when the clock is set back, also with a restart after it", async () => {
    const keeper = givenKeeper();
    const rules = perMinute(2);
    const outcomes: string[] = [];
    for (const ms of [0, -HOUR_MS, -DAY_MS, -2 * DAY_MS]) {
      jump(ms);
      outcomes.push((await stubOf(keeper).ask(askFor(rules))).outcome);
    }
    await crash(keeper);
    jump(-3 * DAY_MS);
    outcomes.push((await stubOf(keeper).ask(askFor(rules))).outcome);
    expect(outcomes).toEqual(["lent", "lent", "wait", "wait", "wait"]);
  });

  it("does not wait for ever after the clock was far ahead for a while", async () => {
    const keeper = givenKeeper();
    const rules = perSecond(1);
    jump(400 * DAY_MS);
    lentOf(await stubOf(keeper).ask(askFor(rules)));
    await crash(keeper);
    jump(0);
    const answer = await stubOf(keeper).ask(askFor(rules));
    if (answer.outcome === "wait") expect(answer.waitMs).toBeLessThan(HOUR_MS);
    jump(HOUR_MS);
    lentOf(await stubOf(keeper).ask(askFor(rules)));
  });
});

describe("storage of a newer version", () => {
  it("is refused, and stays as it is", async () => {
    const keeper = givenKeeper();
    await stubOf(keeper).pause("acme", "unpaid", perSecond(1));
    await inside(keeper, (_, { storage: { sql } }) =>
      sql.exec("UPDATE perdure_schema SET version = 99 WHERE module = 'limits'"),
    );
    await crash(keeper);
    await inside(keeper, async (object) => {
      const newer = { name: "NewerSchemaError" };
      await expect(object.ask(askFor(perSecond(1)))).rejects.toMatchObject(newer);
      await expect(object.resume("acme", perSecond(1))).rejects.toMatchObject(newer);
      await expect(object.alarm()).rejects.toMatchObject(newer);
    });
    expect(await keysOf(keeper)).toEqual(["acme"]);
  });
});

describe("list()", () => {
  it("pages through the keys in their order", async () => {
    const keeper = givenKeeper();
    const rules = perMinute(10);
    for (const key of ["c", "a", "b", "", "d"]) await stubOf(keeper).ask(askFor(rules, { key }));
    await stubOf(keeper).pause("b", "unpaid", rules);
    const first = await stubOf(keeper).list({ limit: 3 });
    expect(first.keys.map(({ key }) => key)).toEqual(["", "a", "b"]);
    expect(first.keys[2]).toMatchObject({ used: { requests: 1 }, reason: "unpaid", waiting: 0 });
    expect(first.next).toBe("b");
    const second = await stubOf(keeper).list({ limit: 3, after: "b" });
    expect(second.keys.map(({ key }) => key)).toEqual(["c", "d"]);
    expect(second.next).toBeUndefined();
    expect((await stubOf(keeper).list({ limit: 3, key: "d" })).keys).toHaveLength(1);
    expect((await stubOf(keeper).list({ limit: 3, key: "e" })).keys).toEqual([]);
  });
});
