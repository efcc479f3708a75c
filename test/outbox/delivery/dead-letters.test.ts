/** O3: a dead letter is kept, reported, listed, and redriven. */

import { describe, expect, it } from "vitest";
import type { DeadLetter } from "../../../src/outbox/index.ts";
import { givenLedger, until } from "../../support/given.ts";
import {
  again,
  arrived,
  crashOne,
  forever,
  givenLedgerWith,
  idsAt,
  type Ledger,
  send,
  sleep,
  somewhere,
  waitingIn,
  within,
} from "../../support/ledger.ts";
import {
  chance,
  couriers,
  delivered,
  notified,
  refusals,
  time,
} from "../../support/objects/ledger-object.ts";

/** Entries that are refused for good, put one after the other; the ids are the order. */
async function givenLetters(stub: Ledger, ids: string[], to = somewhere()) {
  for (const id of ids) {
    refusals.set(to.instance, { times: 1, isGone: true });
    await send(stub, [{ id, to, payload: { of: id } }]);
    await until(() =>
      within(stub, async ({ outbox }) => (await outbox.inspect(id))?.state === "dead"),
    );
    await sleep(2);
  }
  return to;
}

const idsOf = (letters: readonly DeadLetter[]) => letters.map(({ id }) => id);

describe("Dead letters", () => {
  it("O3: a permanent failure makes a dead letter at once, and does not affect another destination", async () => {
    const stub = givenLedger();
    const [gone, good] = [somewhere(), somewhere()];
    refusals.set(gone.instance, { times: 1, isGone: true });
    const before = Date.now();
    await send(stub, [
      { id: "a", to: gone, payload: { kept: ["whole"] } },
      { id: "b", to: good },
    ]);
    await arrived(good);
    await until(() => notified.has("a"));
    await within(stub, async ({ outbox }, ctx) => {
      const { items: deadLetters } = await outbox.listDeadLetters();
      expect(deadLetters).toEqual([
        {
          id: "a",
          destination: gone,
          event: { kept: ["whole"] },
          attempts: 1,
          lastError: "gone",
          createdAt: expect.any(Number),
          diedAt: expect.any(Number),
          isUncertain: false,
        },
      ]);
      expect(deadLetters[0]?.diedAt).toBeGreaterThanOrEqual(before);
      expect(waitingIn(ctx)).toEqual([]);
    });
    expect(idsAt(gone)).toEqual([]);
  });

  it("O3: an entry is a dead letter after its last attempt, also after a crash", async () => {
    const stub = givenLedgerWith({ policy: { maxAttempts: 20 } });
    const to = somewhere();
    chance.random = () => 0;
    let attempts = 0;
    couriers.set(to.instance, async () => {
      throw new Error(`refusal ${++attempts}`);
    });
    await send(stub, [{ id: "e", to, payload: "kept" }]);
    const letters = (at: Ledger) =>
      within(at, async ({ outbox }) => (await outbox.listDeadLetters()).items);
    await until(async () => (await letters(stub)).length > 0);
    expect(attempts).toBe(20);
    const [letter] = await letters(await crashOne(stub));
    expect(letter).toMatchObject({
      id: "e",
      event: "kept",
      attempts: 20,
      lastError: "Given up after 20 attempts: refusal 20",
    });
    await sleep(50);
    expect(attempts).toBe(20);
  });

  it("O3: an entry is a dead letter before it is older than maxAge", async () => {
    const stub = givenLedger();
    const to = { ...somewhere(), policy: { maxAge: "1 hour" } } as const;
    couriers.set(to.instance, async () => {
      time.aheadMs = 3_599_999;
      throw new Error("not now");
    });
    chance.random = () => 0.999;
    await send(stub, [{ id: "old", to }]);
    await until(() => notified.has("old"));
    const { items: deadLetters } = await within(stub, ({ outbox }) => outbox.listDeadLetters());
    expect(deadLetters[0]?.lastError).toBe(
      "Given up after 1 attempt: the next one would come after its maxAge of 3600 s: not now",
    );
  });

  it("O3: an entry that always crashes the object is a dead letter after two crashes and its maxAttempts", async () => {
    const stub = givenLedger();
    const policy = { maxAttempts: 3, backoff: { base: 1, cap: 1 } };
    const to = { ...somewhere(), policy };
    const attempts: number[] = [];
    couriers.set(to.instance, ({ attempt }) => {
      attempts.push(attempt);
      return forever();
    });
    await send(stub, [{ id: "heavy", to }]);
    let life = stub;
    for (let crashes = 1; crashes <= 5; crashes++) {
      await until(() => attempts.length === crashes);
      life = await crashOne(life);
      await sleep(5);
      await life.list();
    }
    await until(() => notified.has("heavy"));
    expect(attempts).toEqual([1, 2, 3, 4, 5]);
    const { items: deadLetters } = await within(life, ({ outbox }) => outbox.listDeadLetters());
    expect(deadLetters[0]?.lastError).toMatch(/may not have survived the last 5 attempts/);
  });
});

it("O3: a crash counts for the entry in flight, and for none behind it", async () => {
  const stub = givenLedger();
  const to = { ...somewhere(), policy: { maxAttempts: 1 } } as const;
  const attempts: [id: string, attempt: number][] = [];
  couriers.set(to.instance, async ({ id, attempt }) => {
    attempts.push([id, attempt]);
    if (attempts.length === 1) await forever();
  });
  await send(
    stub,
    ["a", "b", "c"].map((id) => ({ id, to })),
  );
  await until(() => attempts.length === 1);
  const next = await crashOne(stub);
  await sleep(5);
  await next.list();
  await until(() => idsAt(to).length === 3);
  // Those behind it go first, as after any other failure.
  expect(attempts).toEqual([
    ["a", 1],
    ["b", 1],
    ["c", 1],
    ["a", 2],
  ]);
});

describe("The notification of a dead letter", () => {
  it("O3: the app is notified once", async () => {
    const stub = givenLedger();
    const ids = [1, 2, 3].map(() => crypto.randomUUID());
    await givenLetters(stub, ids);
    await until(() => ids.every((id) => notified.has(id)));
    const next = await crashOne(stub);
    await next.list();
    await sleep(50);
    expect(ids.map((id) => notified.get(id))).toEqual([1, 1, 1]);
  });

  it("O3: the app is notified again where a crash interrupted the notification", async () => {
    let isHanging = true;
    const stub = givenLedgerWith({ onDeadLetter: () => (isHanging ? forever() : undefined) });
    const id = crypto.randomUUID();
    const to = somewhere();
    refusals.set(to.instance, { times: 1, isGone: true });
    await send(stub, [{ id, to }]);
    await until(() => notified.get(id) === 1);
    isHanging = false;
    await (await crashOne(stub)).list();
    await until(() => notified.get(id) === 2);
    await (await crashOne(again(stub))).list();
    await sleep(50);
    expect(notified.get(id)).toBe(2);
  });

  it("O3: the app is notified after the hook failed for an earlier dead letter", async () => {
    const ids = [1, 2].map(() => crypto.randomUUID());
    const stub = givenLedgerWith({
      onDeadLetter: ({ id }) => {
        if (id === ids[0]) throw new Error("the hook failed");
      },
    });
    await givenLetters(stub, ids);
    await until(() => ids.every((id) => notified.get(id) === 1));
  });
});

it("W3: a dead letter keeps the proof of its event, and does not show it", async () => {
  const stub = givenLedger();
  await givenLetters(stub, ["proven"], { ...somewhere(), proof: "secret" });
  await within(stub, async ({ outbox }, { storage }) => {
    expect(JSON.stringify(await outbox.listDeadLetters())).not.toContain("secret");
    const kept = storage.sql.exec("SELECT destination FROM perdure_outbox_ended").one();
    expect(kept.destination).toContain('"proof":"secret"');
  });
});

describe("Lists of dead letters", () => {
  it("O3: pages have no gap and no repetition while dead letters come and go", async () => {
    const stub = givenLedger();
    await givenLetters(stub, ["a", "b", "c", "d", "e"]);
    await within(stub, async ({ outbox }) => {
      const first = await outbox.listDeadLetters({ limit: 2 });
      expect(idsOf(first.items)).toEqual(["e", "d"]);
      // What the page was about goes, as it does when each page is redriven.
      await outbox.deleteDeadLetter("d");
      const { cursor = "" } = first;
      const second = await outbox.listDeadLetters({ limit: 2, cursor });
      expect(idsOf(second.items)).toEqual(["c", "b"]);
      const third = await outbox.listDeadLetters({ limit: 2, cursor: second.cursor ?? "" });
      expect(idsOf(third.items)).toEqual(["a"]);
      expect(third.cursor).toBeUndefined();
    });
  });

  it("O3: dead letters are counted since a time and for a destination", async () => {
    const stub = givenLedger();
    const first = await givenLetters(stub, ["a", "b"]);
    const since = new Date();
    await sleep(2);
    const second = await givenLetters(stub, ["c"]);
    await within(stub, async ({ outbox }) => {
      expect(await outbox.countDeadLetters()).toBe(3);
      expect(await outbox.countDeadLetters({ since })).toBe(1);
      expect(await outbox.countDeadLetters({ destination: first })).toBe(2);
      expect(await outbox.countDeadLetters({ destination: first, since })).toBe(0);
      const { items: deadLetters } = await outbox.listDeadLetters({ destination: second });
      expect(idsOf(deadLetters)).toEqual(["c"]);
      expect(await outbox.stats()).toEqual({ waiting: 0, deadLetters: 3 });
    });
  });

  it("O3: a list leaves out a long event, which read() returns", async () => {
    const stub = givenLedger();
    const to = somewhere();
    refusals.set(to.instance, { times: 1, isGone: true });
    const event = "long ".repeat(200_000);
    await send(stub, [{ id: "long", to, payload: event }]);
    await until(() => notified.has("long"));
    await within(stub, async ({ outbox }) => {
      const { items: deadLetters } = await outbox.listDeadLetters();
      expect(deadLetters[0]).not.toHaveProperty("event");
      expect(await outbox.read("long")).toBe(event);
      expect(await outbox.deleteDeadLetter("long")).toBe(true);
      expect(await outbox.read("long")).toBeNull();
    });
  });

  it.each([
    [{ limit: 0 }, /Invalid limit 0: expected a whole number from 1 to 1000/],
    [{ limit: 1_001 }, /Invalid limit 1001/],
    [{ cursor: "page 2" }, /Invalid cursor "page 2": expected the cursor of an earlier page/],
    [{ since: new Date("soon") }, /Invalid since Invalid Date: expected a valid Date/],
    [{ before: "now" }, /Unknown option "before" in options of listDeadLetters/],
    [
      { destination: null },
      /Invalid destination null in options of listDeadLetters\(\): expected a value/,
    ],
    [{ since: undefined }, /Invalid since undefined in options of listDeadLetters\(\)/],
    [{ destination: {} }, /Invalid destination.kind undefined: expected one of agent, method/],
    [
      { destination: { kind: "webhook", url: "x", secrets: ["S"] } },
      /Invalid destination.url "x": expected an absolute URL/,
    ],
  ])("O3: invalid options are refused: %o", async (options, message) => {
    await within(givenLedger(), async ({ outbox }) => {
      const listing = outbox.listDeadLetters(options as object);
      await expect(listing).rejects.toThrow(message);
      await expect(listing).rejects.toHaveProperty("name", "InvalidFilterError");
    });
  });
});

describe("redrive()", () => {
  it("O3: redrive() also retries an entry that waits for its next attempt", async () => {
    const stub = givenLedger();
    const to = { ...somewhere(), policy: { backoff: { base: "1 hour" } } } as const;
    chance.random = () => 0.9;
    refusals.set(to.instance, { times: 1 });
    await send(stub, [{ id: "e", to }]);
    await until(() =>
      within(stub, async ({ outbox }) => (await outbox.inspect("e"))?.attempt === 2),
    );
    expect(await within(stub, ({ outbox }) => outbox.redrive("e"))).toBe(true);
    expect(await arrived(to)).toEqual(["e"]);
  });

  it("O3: a redriven dead letter has its id, its event, and the attempts of a new entry", async () => {
    const stub = givenLedgerWith({ policy: { maxAttempts: 2 } });
    const to = somewhere();
    chance.random = () => 0;
    const attempts: number[] = [];
    refusals.set(to.instance, { times: 3 });
    couriers.set(to.instance, async ({ attempt }) => void attempts.push(attempt));
    await send(stub, [{ id: "redriven", to, payload: { whole: true } }]);
    await until(() => notified.has("redriven"));
    expect(attempts).toEqual([1, 2]);
    expect(await within(stub, ({ outbox }) => outbox.redrive("redriven"))).toBe(true);
    expect(await arrived(to)).toEqual(["redriven"]);
    expect(delivered.get(to.instance)).toEqual([{ id: "redriven", payload: { whole: true } }]);
    expect(attempts).toEqual([1, 2, 3, 4]);
    await within(stub, async ({ outbox }) => {
      expect(await outbox.countDeadLetters()).toBe(0);
      expect(await outbox.redrive("redriven")).toBe(false);
    });
  });

  it("O3: redriveAll() sends all since a time, in the order of put()", async () => {
    const stub = givenLedger();
    await givenLetters(stub, ["before"]);
    const since = new Date();
    await sleep(2);
    const to = await givenLetters(stub, ["a", "b", "c"]);
    const count = await within(stub, ({ outbox }) => outbox.redriveAll({ since }));
    expect(count).toBe(3);
    await until(() => idsAt(to).length === 3);
    expect(idsAt(to)).toEqual(["a", "b", "c"]);
    expect(await within(stub, ({ outbox }) => outbox.countDeadLetters())).toBe(1);
  });

  it("O3: put() with the id of a dead letter changes nothing", async () => {
    const stub = givenLedger();
    const to = await givenLetters(stub, ["e"]);
    await send(stub, [{ id: "e", to, payload: "another" }]);
    await sleep(50);
    expect(idsAt(to)).toEqual([]);
    await within(stub, ({ outbox }) => outbox.redrive("e"));
    await arrived(to);
    expect(delivered.get(to.instance)).toEqual([{ id: "e", payload: { of: "e" } }]);
  });

  it("O3: a deleted dead letter is not redriven", async () => {
    const stub = givenLedger();
    const to = await givenLetters(stub, ["a", "b", "c"]);
    await within(stub, async ({ outbox }) => {
      const { items: deadLetters } = await outbox.listDeadLetters();
      const [, , oldest] = deadLetters;
      expect(await outbox.deleteDeadLetter("b")).toBe(true);
      expect(await outbox.deleteDeadLetter("b")).toBe(false);
      const before = new Date((oldest?.diedAt ?? 0) + 1);
      expect(await outbox.deleteDeadLetters({ before })).toBe(1);
      expect(await outbox.redriveAll({})).toBe(1);
    });
    expect(await arrived(to)).toEqual(["c"]);
  });
});
