/** O3, L6: a delivery that kills its object again and again, beside others that take their time. */

import { describe, expect, it, vi } from "vitest";
import type { Destination, OutboxSettings } from "../../../src/outbox/index.ts";
import { until } from "../../support/given.ts";
import { forever } from "../../support/ledger.ts";
import { type Box, givenOutbox, inside } from "../../support/outbox.ts";

type Method = (calls: Map<string, number>, ctx: DurableObjectState) => unknown;

/** An object whose methods are these; how often each was called, over all lives. */
function givenMethods(methods: Record<string, Method>, settings: OutboxSettings = {}, random = 0) {
  const calls = new Map<string, number>();
  const attempts: [name: string, attempt: number][] = [];
  const box = givenOutbox({
    settings,
    clock: { now: Date.now, random: () => random },
    deliver: () => {},
    born: (object, ctx) => {
      for (const [name, play] of Object.entries(methods)) {
        Reflect.set(object, name, ({ attempt }: { attempt: number }) => {
          calls.set(name, (calls.get(name) ?? 0) + 1);
          attempts.push([name, attempt]);
          return play(calls, ctx);
        });
      }
    },
  });
  return { box, calls, attempts };
}

const to = (method: string): Destination => ({ kind: "method", method });
const boom: Method = (_, ctx) => ctx.abort("boom");

/** Open deliveries, by the object instance. */
function givenCount() {
  const open = new Map<DurableObjectState, number>();
  const count = (ctx: DurableObjectState) => open.get(ctx) ?? 0;
  return { count, add: (ctx: DurableObjectState) => void open.set(ctx, count(ctx) + 1) };
}

/** Resolves after whatever the object has started by now has called its method. */
async function synced(box: Box): Promise<void> {
  for (const _ of [1, 2]) await inside(box, (_, { storage }) => storage.sync());
}

/** Begins the next life as often as it takes. */
function untilAlive<T>(box: Box, probe: () => T | undefined | false): Promise<T> {
  return until(async () => {
    await inside(box, ({ lifecycle }) => lifecycle.start()).catch(() => {});
    return probe();
  });
}

/** Puts an entry for each of these methods, by its name. What they do at once may end the call. */
function put(box: Box, ...methods: string[]): Promise<void> {
  return inside(box, async ({ lifecycle, outbox }) => {
    await lifecycle.start();
    for (const [index, name] of methods.entries())
      outbox.put(to(name), 1, { id: `${name}${index}` });
  }).catch(() => {});
}

const stateOf = (box: Box, id: string) =>
  inside(box, async ({ lifecycle, outbox }) => {
    await lifecycle.start();
    return outbox.inspect(id);
  });

it("O3: a method that throws a value other than an Error is retried, and delays no other", async () => {
  const thrown: Method = () => {
    throw Object.create(null);
  };
  const { box, calls } = givenMethods({ thrown, well: () => {} });
  await inside(box, async ({ lifecycle, outbox }) => {
    await lifecycle.start();
    const policy = { maxAttempts: 2, backoff: { base: 1, cap: 1 } };
    outbox.put({ ...to("thrown"), policy }, 1, { id: "thrown" });
    outbox.put(to("well"), 1);
  });
  await untilAlive(box, () => calls.get("well") === 1 && calls.get("thrown") === 2);
  await until(async () => (await stateOf(box, "thrown"))?.state === "dead");
});

describe("A delivery that crashes its object", () => {
  it("O3: it delays a slow delivery beside it, and does not stop it", async () => {
    let done = 0;
    const slow: Method = async (_, { storage }) => {
      // Until the other one waits for this one to end.
      await until(() => {
        const query =
          "SELECT interruptions, due_at AS dueAt FROM perdure_outbox WHERE id = 'boom0'";
        const [row] = storage.sql.exec<{ interruptions: number; dueAt: number }>(query).toArray();
        return !row || (row.interruptions >= 2 && row.dueAt <= Date.now());
      });
      done++;
    };
    const { box, calls } = givenMethods({ boom, slow });
    await put(box, "boom", "slow");
    await untilAlive(box, () => done > 0);
    expect(calls.get("slow")).toBeLessThanOrEqual(4);
    await until(async () => (await stateOf(box, "slow1").catch(() => undefined)) === null);
    expect(done).toBe(1);
  });

  it("O3: its crashes do not use up the attempts of a delivery beside it", async () => {
    let done = 0;
    const killers = ["a", "b", "c", "d", "e"];
    const { count, add } = givenCount();
    const methods: Record<string, Method> = {
      slow: (calls, ctx) => {
        add(ctx);
        if ((calls.get("slow") ?? 0) <= 2) return forever();
        done++;
      },
    };
    for (const name of killers) {
      methods[name] = async (calls, ctx) => {
        add(ctx);
        if ((calls.get(name) ?? 0) > 2) return;
        await until(() => count(ctx) === killers.length + 1);
        ctx.abort("boom");
      };
    }
    const { box, calls } = givenMethods(methods);
    await inside(box, async ({ lifecycle, outbox }) => {
      await lifecycle.start();
      const policy = { maxAttempts: 1 };
      outbox.put({ ...to("slow"), policy }, 1, { id: "slow" });
      for (const name of killers) outbox.put({ ...to(name), policy }, 1, { id: name });
    }).catch(() => {});
    await untilAlive(box, () => done > 0 && killers.every((name) => (calls.get(name) ?? 0) > 2));
    await until(async () => (await stateOf(box, "slow").catch(() => undefined)) === null);
    const { items: deadLetters } = await inside(box, ({ outbox }) => outbox.listDeadLetters());
    expect(deadLetters).toEqual([]);
  });

  it("O3: it alone becomes a dead letter, after eight attempts", async () => {
    const { box, calls, attempts } = givenMethods({ boom, well: () => {} });
    await put(box, "boom", "well", "well", "well");
    for (let attempt = 1; attempt <= 8; attempt++)
      await untilAlive(box, () => (calls.get("boom") ?? 0) >= attempt);
    await until(async () => (await stateOf(box, "boom0").catch(() => null))?.state === "dead");
    const { items: deadLetters } = await inside(box, ({ outbox }) => outbox.listDeadLetters());
    expect(deadLetters).toMatchObject([
      { id: "boom0", attempts: 8, lastError: expect.stringContaining("may not have survived") },
    ]);
    await untilAlive(box, () => (calls.get("well") ?? 0) >= 3);
    const numbers = attempts.filter(([name]) => name === "boom").map(([, attempt]) => attempt);
    expect(numbers).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  });

  it("O3: it runs alone from its third attempt on, and only its own crashes count", async () => {
    const beside: number[] = [];
    const names = ["a", "b", "c", "d"];
    const { count, add } = givenCount();
    const methods: Record<string, Method> = {
      boom: async (calls, ctx) => {
        if ((calls.get("boom") ?? 0) <= 2) await until(() => count(ctx) === names.length);
        else beside.push(count(ctx));
        ctx.abort("boom");
      },
    };
    for (const name of names) {
      methods[name] = (calls, ctx) => {
        if ((calls.get(name) ?? 0) > 2) return;
        add(ctx);
        return forever();
      };
    }
    const { box, calls, attempts } = givenMethods(methods);
    await put(box, "boom", ...names);
    await untilAlive(
      box,
      () => names.every((name) => (calls.get(name) ?? 0) > 2) && (calls.get("boom") ?? 0) >= 6,
    );
    expect(new Set(beside)).toEqual(new Set([0]));
    for (const name of names) {
      const own = attempts.filter(([one]) => one === name).map(([, attempt]) => attempt);
      expect(own.length, name).toBeLessThanOrEqual(3);
      expect(new Set(own).size, `numbers of ${name}`).toBe(own.length);
    }
  });

  it("O2: an entry that is put while a suspect runs waits for it, and starts with attempt 1", async () => {
    let deaths = 0;
    const isPut = Promise.withResolvers<void>();
    const suspect: Method = async (_, ctx) => {
      if (++deaths === 3) await isPut.promise;
      if (deaths <= 3) ctx.abort("boom");
    };
    const { box, calls, attempts } = givenMethods({ suspect, well: () => {} });
    await put(box, "suspect");
    await untilAlive(box, () => deaths === 3);
    await put(box, "well");
    await synced(box);
    expect(calls.get("well")).toBeUndefined();
    // The suspect may end this call.
    await inside(box, () => isPut.resolve()).catch(() => {});
    await untilAlive(box, () => calls.get("well") === 1 && deaths === 4);
    expect(attempts.filter(([name]) => name === "well")).toEqual([["well", 1]]);
  });

  it("O2: a suspect waits for deliveries in flight, and blocks others for 15 seconds at most", async () => {
    const ISOLATION_MS = 15_000;
    const real = globalThis.setTimeout;
    const held: (() => void)[] = [];
    using _ = vi.spyOn(globalThis, "setTimeout").mockImplementation(((
      work: () => void,
      ms?: number,
    ) => {
      if (ms !== ISOLATION_MS) return real(work, ms);
      held.push(work);
      return real(() => {}, 0);
    }) as typeof setTimeout);
    let deaths = 0;
    const suspect: Method = (_, ctx) => (++deaths <= 2 ? ctx.abort("boom") : forever());
    const { box, calls } = givenMethods({ suspect, well: () => {} });
    await put(box, "suspect");
    await untilAlive(box, () => deaths === 3);
    await put(box, "well");
    await synced(box);
    expect(calls.get("well")).toBeUndefined();
    await inside(box, () => held.at(-1)?.());
    await until(() => calls.get("well") === 1);
    expect(calls.get("suspect")).toBe(3);
  });
});
