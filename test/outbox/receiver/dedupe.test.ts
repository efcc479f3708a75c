/** Receivers that repetitions and crashes do not make act twice. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { KINDS } from "../../../src/outbox/destinations/kinds.generated.ts";
import { type DedupeOptions, dedupe, type Once } from "../../../src/outbox/receiver/dedupe.ts";
import { FIRST } from "../../support/attempts.ts";
import { refusal } from "../../support/given.ts";
import type { Fate, Receiver } from "../recipients.ts";

const DAY = 86_400_000;
let made = 0;

/** A fresh receiver; a new stub each time, as none outlives a crash. */
function givenReceiver() {
  const name = `dedupe-${++made}-${crypto.randomUUID()}`;
  return () => env.Receiver.getByName(name);
}

type Scene = { once: Once; sql: SqlStorage; storage: DurableObjectStorage; known: () => string[] };

/** Runs inside a fresh receiver. */
function inReceiver<T>(work: (scene: Scene) => T, options?: DedupeOptions): Promise<T> {
  return runInDurableObject(givenReceiver()(), (_: Receiver, { storage }) => {
    const { sql } = storage;
    const known = () =>
      sql
        .exec<{ id: string }>("SELECT id FROM perdure_received ORDER BY id")
        .toArray()
        .map(({ id }) => id);
    return work({ once: dedupe(storage, options), sql, storage, known });
  });
}

function thrown(work: () => unknown): Error {
  try {
    work();
  } catch (error) {
    return error as Error;
  }
  throw new Error("Nothing was thrown");
}

describe("One effect for each delivery", () => {
  it("O2: an effect runs the first time, and not for a repetition", () =>
    inReceiver(({ once }) => {
      const seen: string[] = [];
      const tell = (id: string) => once({ id }, () => void seen.push(id));
      expect([tell("a"), tell("b"), tell("a"), tell("b")]).toEqual([true, true, false, false]);
      expect(seen).toEqual(["a", "b"]);
    }));

  it("O2: dedupe() accepts a delivery, a reference, or the id alone", () =>
    inReceiver(({ once }) => {
      const effect = () => {};
      expect(once({ id: "a", attempt: 1, event: { total: 3 } }, effect)).toBe(true);
      expect(once({ id: "a", attempt: 2, reference: { bytes: 9 } }, effect)).toBe(false);
      expect(once("a", effect)).toBe(false);
      expect(once("b", effect)).toBe(true);
    }));

  it("O2: an effect that throws is rolled back, and its error is thrown", () =>
    inReceiver(({ once, sql, known }) => {
      const refused = new Error("refused");
      const insert = () => sql.exec("INSERT INTO effects (id) VALUES ('a')");
      const error = thrown(() =>
        once("a", () => {
          insert();
          throw refused;
        }),
      );
      expect(error).toBe(refused);
      expect(known()).toEqual([]);
      expect(sql.exec("SELECT * FROM effects").toArray()).toEqual([]);
      expect(once("a", insert)).toBe(true);
      expect(sql.exec("SELECT * FROM effects").toArray()).toEqual([{ id: "a" }]);
    }));

  it("O2: an effect is rolled back with a transaction around it", () =>
    inReceiver(({ once, storage, known }) => {
      thrown(() =>
        storage.transactionSync(() => {
          once("a", () => {});
          throw new Error("back");
        }),
      );
      expect(known()).toEqual([]);
      expect(once("a", () => {})).toBe(true);
    }));

  it("O2: writes of the effect without SQL are rolled back as well", () =>
    inReceiver(({ once, storage }) => {
      const error = thrown(() =>
        once("a", () => {
          storage.kv.put("total", 1);
          throw new Error("refused");
        }),
      );
      expect(error.message).toBe("refused");
      expect(storage.kv.get("total")).toBeUndefined();
    }));

  it("O2: an effect that returns a promise is refused and rolled back", () =>
    inReceiver(({ once, sql, known }) => {
      const effect = async () => {
        sql.exec("INSERT INTO effects (id) VALUES ('a')");
      };
      // @ts-expect-error the types refuse it, too
      const error = thrown(() => once("a", effect));
      expect(error).toBeInstanceOf(TypeError);
      expect(error.message).toMatch(/returned a promise.*Await before the call/);
      expect(known()).toEqual([]);
      expect(sql.exec("SELECT * FROM effects").toArray()).toEqual([]);
    }));

  it.each(["", null, undefined, 7, {}, { id: "" }, { id: 7 }, "x".repeat(2_049)])(
    "O2: an invalid id is refused: %j",
    (received) =>
      inReceiver(({ once, known }) => {
        const error = thrown(() => once(received as never, () => {}));
        expect(error).toBeInstanceOf(TypeError);
        expect(error.message).toMatch(/^Invalid delivery id .*: expected .*webhook-id/);
        expect(known()).toEqual([]);
      }),
  );
});

describe("One effect, wherever the object crashes", () => {
  it("O2: a crash during the effect rolls it back, and the next attempt runs it", async () => {
    const receiver = givenReceiver();
    await refusal(receiver().handle({ id: "a" }, "crashes within"));
    expect(await receiver().effects()).toEqual([]);
    expect(await receiver().handle({ id: "a" }, "goes well")).toBe(true);
    expect(await receiver().handle({ id: "a" }, "goes well")).toBe(false);
    expect(await receiver().effects()).toEqual(["a"]);
  });

  it("O2: a crash after the effect does not run it again for the repetition", async () => {
    const name = `dedupe-${++made}-${crypto.randomUUID()}`;
    const { deliver } = KINDS.agent.connect({ env });
    const to = { kind: "agent", agent: "Receiver", name } as const;
    const { signal } = new AbortController();
    const event = "done";
    const first = { id: "a", attempt: 1, event };
    await refusal(deliver({ ...to, method: "handleAndCrash" }, first, signal, FIRST));
    await deliver({ ...to, method: "handleWell" }, { ...first, attempt: 2 }, signal, FIRST);
    await deliver({ ...to, method: "handleWell" }, { ...first, attempt: 3 }, signal, FIRST);
    expect(await env.Receiver.getByName(name).effects()).toEqual(["a"]);
  });

  it("O2: effects happen once in any interleaving of repetitions, failures and crashes", async () => {
    const fate = fc.constantFrom<Fate>(
      "throws early",
      "throws late",
      "crashes within",
      "crashes after",
      "goes well",
    );
    const senders = fc.array(fc.array(fate, { maxLength: 5 }), { minLength: 1, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(senders, async (fates) => {
        const receiver = givenReceiver();
        const ids = fates.map((_, index) => `delivery ${index}`);
        // Each sender repeats its own delivery, at the same time as the others.
        const send = async (id: string, plan: readonly Fate[]) => {
          for (const next of plan) await attempt(receiver(), id, next);
          while ((await attempt(receiver(), id, "goes well")) === undefined);
        };
        await Promise.all(fates.map((plan, index) => send(ids[index] ?? "", plan)));
        expect(await receiver().effects()).toEqual(ids);
      }),
      { numRuns: 30 },
    );
  });

  /** What the receiver answers, or undefined when it failed. */
  async function attempt(stub: DurableObjectStub<Receiver>, id: string, fate: Fate) {
    try {
      return await stub.handle({ id }, fate);
    } catch {
      return undefined;
    }
  }
});

describe("How long ids are stored", () => {
  const givenClock = () => {
    const clock = { at: 1_000 * DAY, now: () => clock.at };
    return clock;
  };

  it("O2: ids are stored for 30 days, or for the given time", async () => {
    for (const [options, days] of [
      [{}, 30],
      [{ keep: "2 hours" }, 1 / 12],
      [{ keep: 5 * DAY }, 5],
    ] as const) {
      const clock = givenClock();
      await inReceiver(
        ({ once, known }) => {
          once("old", () => {});
          clock.at += days * DAY;
          once("new", () => {});
          expect(known()).toEqual(["new", "old"]);
          expect(once("old", () => {})).toBe(false);
          clock.at += 1;
          once("newer", () => {});
          expect(known()).toEqual(["new", "newer"]);
          expect(once("old", () => {})).toBe(true);
        },
        { ...options, clock },
      );
    }
  });

  it("O2: ids are stored for ever with Infinity", async () => {
    const clock = givenClock();
    await inReceiver(
      ({ once, known }) => {
        once("old", () => {});
        clock.at += 100_000 * DAY;
        once("new", () => {});
        expect(known()).toEqual(["new", "old"]);
      },
      { keep: Number.POSITIVE_INFINITY, clock },
    );
  });

  it("O2: a new id deletes a few old ones, so that no call is slow and a backlog ends", async () => {
    const clock = givenClock();
    await inReceiver(
      ({ once, known }) => {
        for (let n = 0; n < 100; n++) once(`old ${n}`, () => {});
        clock.at += 31 * DAY;
        const left = Array.from({ length: 26 }, (_, n) => {
          once(`new ${n}`, () => {});
          return known().filter((id) => id.startsWith("old")).length;
        });
        expect(left.slice(0, 3)).toEqual([96, 92, 88]);
        expect(left.at(-1)).toBe(0);
      },
      { clock },
    );
  });

  it("O2: the cost of a new id does not grow with the stored ids", () =>
    inReceiver(({ once, sql }) => {
      // The platform's own counters, as the bill has them, of every statement of a call.
      const cost = (id: string) => {
        const cursors: SqlStorageCursor<Record<string, SqlStorageValue>>[] = [];
        const exec = sql.exec.bind(sql);
        Object.defineProperty(sql, "exec", {
          configurable: true,
          value: (query: string, ...values: SqlStorageValue[]) => {
            const cursor = exec(query, ...values);
            cursors.push(cursor);
            return cursor;
          },
        });
        once(id, () => {});
        Reflect.deleteProperty(sql, "exec");
        const sum = (of: "rowsRead" | "rowsWritten") =>
          cursors.reduce((total, cursor) => total + cursor[of], 0);
        return { read: sum("rowsRead"), written: sum("rowsWritten") };
      };
      const first = cost("first");
      for (let n = 0; n < 500; n++) once(`known ${n}`, () => {});
      expect(cost("later").written).toBe(first.written);
      expect(cost("another").read).toBeLessThanOrEqual(first.read + 3);
      expect(first.written).toBe(2);
      expect(cost("another")).toMatchObject({ written: 0 });
    }));
});

describe("Invalid options of dedupe()", () => {
  it.each([
    [{ keep: "soon" }, /^Invalid keep "soon": expected a positive number/],
    [{ keep: 0 }, /^Invalid keep 0: expected/],
    [{ keep: Number.NaN }, /^Invalid keep NaN: expected/],
    [
      { keeps: "1 day" },
      /^Unknown option "keeps" in options of dedupe\(\). Valid options: keep, clock/,
    ],
    ["30 days", /^Invalid options of dedupe\(\) "30 days": expected an object with keep, clock/],
  ])("O2: dedupe() refuses the options %j", (options, message) =>
    inReceiver(({ storage }) => {
      const error = thrown(() => dedupe(storage, options as DedupeOptions));
      expect(error).toBeInstanceOf(TypeError);
      expect(error.message).toMatch(message);
    }),
  );

  it("O2: the table is migrated once for several dedupe() calls", () =>
    inReceiver(({ once, storage }) => {
      once("a", () => {});
      expect(dedupe(storage)("a", () => {})).toBe(false);
    }));
});
