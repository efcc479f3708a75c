import { describe, expect, it } from "vitest";
import { givenLedger, message, until } from "../support/given.ts";
import {
  again,
  arrived,
  crashOne,
  forever,
  idsAt,
  jobOf,
  type Ledger,
  send,
  sleep,
  somewhere,
  submit,
  waitingIn,
  wakeNow,
  within,
} from "../support/ledger.ts";
import { chance, couriers, delivered, refusals } from "../support/objects/ledger-object.ts";

describe("At-least-once delivery with one id", () => {
  it("O2: an event is delivered after failures, with one id", async () => {
    const stub = givenLedger();
    const to = somewhere();
    const attempts: { id: string; attempt: number }[] = [];
    chance.random = () => 0;
    couriers.set(to.instance, async ({ id, attempt }) => void attempts.push({ id, attempt }));
    refusals.set(to.instance, { times: 3 });
    await send(stub, [{ id: "e", to, payload: { answer: 42 } }]);
    await arrived(to);
    expect(delivered.get(to.instance)).toEqual([{ id: "e", payload: { answer: 42 } }]);
    expect(attempts).toEqual([1, 2, 3, 4].map((attempt) => ({ id: "e", attempt })));
  });

  it("O2: an event is delivered after a crash during its delivery", async () => {
    const stub = givenLedger();
    const to = somewhere();
    couriers.set(to.instance, forever);
    await send(stub, [{ id: "e", to }]);
    couriers.delete(to.instance);
    await (await crashOne(stub)).list();
    expect(await arrived(to)).toEqual(["e"]);
  });

  it("O2: a crash before the outcome is stored repeats the delivery with the same id", async () => {
    const stub = givenLedger();
    const to = somewhere();
    await stub.list();
    await within(stub, ({ meter }, ctx) => {
      meter.onWrite = (_, what) => {
        if (what.startsWith("DELETE FROM perdure_outbox")) ctx.abort("crash");
      };
    });
    const accepted = Promise.withResolvers<void>();
    couriers.set(to.instance, () => accepted.promise);
    await send(stub, [{ id: "e", to }]);
    // The crash may come before this returns.
    await within(stub, () => accepted.resolve()).catch(() => {});
    await until(async () => {
      await again(stub)
        .list()
        .catch(() => {});
      return idsAt(to).length > 1;
    });
    expect(idsAt(to)).toEqual(["e", "e"]);
    await within(again(stub), (_, ctx) => expect(waitingIn(ctx)).toEqual([]));
  });

  it("O2: an id that is put twice is one event with the first payload", async () => {
    const stub = givenLedger();
    const to = somewhere();
    await send(
      stub,
      [1, 2].map((payload) => ({ id: "e", to, payload })),
    );
    await arrived(to);
    await sleep(50);
    expect(delivered.get(to.instance)).toEqual([{ id: "e", payload: 1 }]);
  });

  it("O2: an event is delivered while the next turn runs", async () => {
    const stub = givenLedger();
    const to = somewhere();
    await submit(stub, { delayMs: 20 }, { submissionId: "s", notify: () => [to] });
    await stub.submit([message({ delayMs: 60_000 })], { submissionId: "long" });
    await arrived(to);
    expect((await stub.inspect("long"))?.status).toBe("running");
    await stub.cancel("long");
  });

  it.each([
    "Durable Object reset because its code was updated.",
    "exceeded its memory limit and was reset.",
  ])("O3: an error of the destination does not stop the outbox: %s", async (reset) => {
    const stub = givenLedger();
    const to = somewhere();
    chance.random = () => 0;
    couriers.set(to.instance, async () => {
      couriers.delete(to.instance);
      throw new Error(reset);
    });
    await submit(stub, {}, { submissionId: "s", notify: () => [to] });
    await until(() => !couriers.has(to.instance));
    await until(async () => {
      await wakeNow(stub);
      return idsAt(to).length > 0;
    });
    expect(idsAt(to)).toHaveLength(1);
  });
});

describe("A failure delays one entry alone", () => {
  it("O3: an entry that always fails delays no other", async () => {
    const stub = givenLedger();
    const [bad, good] = [somewhere(), somewhere()];
    refusals.set(bad.instance, { times: 1_000 });
    await send(stub, [
      { id: "a", to: bad },
      { id: "b", to: good },
    ]);
    await arrived(good);
    await send(stub, [{ id: "c", to: good }]);
    await until(() => idsAt(good).length === 2);
    await within(stub, (_, ctx) => expect(waitingIn(ctx)).toEqual(["a"]));
  });

  it("O3: an entry that fails does not delay others for the same destination", async () => {
    const stub = givenLedger();
    const to = somewhere();
    couriers.set(to.instance, async ({ id }) => {
      if (id !== "b") throw new Error("not this one");
    });
    await send(
      stub,
      ["a", "b", "c"].map((id) => ({ id, to })),
    );
    expect(await arrived(to)).toEqual(["b"]);
    await within(stub, (_, ctx) => expect(waitingIn(ctx)).toEqual(["a", "c"]));
  });

  it.each([1, 7, 8])("O3: %i deliveries without an answer delay no other", async (count) => {
    const stub = givenLedger();
    const [silent, good] = [somewhere(), [1, 2, 3].map(somewhere)];
    couriers.set(silent.instance, forever);
    await send(
      stub,
      Array.from({ length: count }, (_, index) => ({ id: `a${index}`, to: silent })),
    );
    await send(
      stub,
      good.map((to, index) => ({ id: `b${index}`, to })),
    );
    for (const to of good) await arrived(to);
  });

  it("O3: many slow deliveries delay no other", async () => {
    const stub = givenLedger();
    const all = Array.from({ length: 30 }, somewhere);
    for (const [index, { instance }] of all.entries())
      couriers.set(instance, () => sleep(20 + 7 * (index % 8)));
    await send(
      stub,
      all.map((to, index) => ({ id: `e${index}`, to })),
    );
    await until(() => all.every((to) => idsAt(to).length === 1)).catch(() => {});
    expect(all.filter((to) => idsAt(to).length === 0)).toHaveLength(0);
  });

  it("O3: a retry starts when it is due while another delivery is in flight", async () => {
    const stub = givenLedger();
    const [early, late] = [somewhere(), somewhere()];
    for (const { instance } of [early, late]) refusals.set(instance, { times: 1 });
    const draws = [0.1, 0.4];
    chance.random = () => draws.shift() ?? 0;
    // The second attempt of the one is still going on when the other's becomes due.
    couriers.set(early.instance, ({ attempt }) => (attempt === 1 ? Promise.resolve() : forever()));
    await send(stub, [{ id: "early", to: early }]);
    await send(stub, [{ id: "late", to: late }]);
    expect(await arrived(late)).toEqual(["late"]);
  });
});

describe("The wake of an empty outbox", () => {
  const held = (stub: Ledger) =>
    within(stub, async (_, ctx) => ({
      waiting: waitingIn(ctx).length,
      job: jobOf(ctx),
      alarm: await ctx.storage.getAlarm(),
    }));
  const NOTHING = { waiting: 0, job: null, alarm: null };
  const becomesEmpty = async (stub: Ledger) => {
    await until(async () => {
      const { waiting, job, alarm } = await held(stub);
      return waiting === 0 && job === null && alarm === null;
    });
  };

  it("O5: there is a job and an alarm during a delivery, and none after it", async () => {
    const stub = givenLedger();
    const to = somewhere();
    const looked = Promise.withResolvers<void>();
    couriers.set(to.instance, () => looked.promise);
    await send(stub, [{ id: "e", to }]);
    const { job, alarm } = await held(stub);
    expect(job).toBeGreaterThan(Date.now());
    expect(alarm).toBe(job);
    await within(stub, () => looked.resolve());
    await becomesEmpty(stub);
  });

  it("O5: no job and no alarm remain after a retry", async () => {
    const stub = givenLedger();
    const to = somewhere();
    const refused = { times: 2 };
    refusals.set(to.instance, refused);
    chance.random = () => 0.1;
    await send(stub, [{ id: "e", to }]);
    await becomesEmpty(stub);
    expect(refused.times).toBe(0);
    expect(idsAt(to)).toEqual(["e"]);
  });

  it("O5: no job and no alarm remain after a dead letter", async () => {
    const stub = givenLedger();
    const to = somewhere();
    refusals.set(to.instance, { times: 1, isGone: true });
    await send(stub, [{ id: "e", to }]);
    await becomesEmpty(stub);
  });

  it("O5: no job and no alarm remain after a crash during a delivery", async () => {
    const stub = givenLedger();
    const to = somewhere();
    couriers.set(to.instance, forever);
    await send(stub, [{ id: "e", to }]);
    couriers.delete(to.instance);
    const next = await crashOne(stub);
    await next.list();
    await becomesEmpty(next);
  });

  it("O5: an outbox without entries has no job and no alarm", async () => {
    const stub = givenLedger();
    await send(stub, []);
    await becomesEmpty(stub);
  });

  it("O5: after the end of a submission only the ledger's own wake remains, and lapses", async () => {
    const stub = givenLedger();
    const to = somewhere();
    await submit(stub, {}, { submissionId: "s", notify: () => [to] });
    // The ledger sets its own wake again after the delivery.
    await arrived(to);
    await until(async () => (await held(stub)).job === null);
    expect(await held(stub)).toMatchObject({ waiting: 0, job: null });
    await until(async () => {
      await wakeNow(stub);
      return (await held(stub)).alarm === null;
    });
    expect(await held(stub)).toEqual(NOTHING);
  });
});
