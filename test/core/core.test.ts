import { runDurableObjectAlarm } from "cloudflare:test";
import type { LifecycleJob, LifecycleRouteContext, LifecycleServices } from "agents/lifecycle";
import { APICallError } from "ai";
import fc from "fast-check";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { LAST_ALARM } from "../../src/core/clock.ts";
import {
  backoffMs,
  because,
  type Failure,
  failureOf,
  readFailure,
  storedFailure,
  transientOf,
  withProviderCause,
} from "../../src/core/failures.ts";
import { instantMs } from "../../src/core/options/instant.ts";
import { millisecondsOf } from "../../src/core/options/options.ts";
import { migrate, NewerSchemaError } from "../../src/engine/migrations.ts";
import { isReset } from "../../src/engine/resets.ts";
import { Wake } from "../../src/engine/wake.ts";
import { MIGRATIONS as LEDGER } from "../../src/submissions/store/schema.ts";
import type { Meter } from "../../src/testing/index.ts";
import { givenLedger, until } from "../support/given.ts";
import { again, crashOne, jobOf, type Ledger, sleep, wakeNow, within } from "../support/ledger.ts";
import { births } from "../support/objects/ledger-object.ts";
import { WAKE_CAPABILITY, type WakeCapability } from "../support/objects/wake-capability.ts";

const MIGRATIONS = [
  "CREATE TABLE one (a)",
  "CREATE TABLE two (a); INSERT INTO two VALUES (1), (2)",
  "ALTER TABLE one ADD COLUMN b",
];

describe("thrown values", () => {
  const revoked = Proxy.revocable({}, {});
  revoked.revoke();
  const getter = new Error("x");
  Object.defineProperty(getter, "message", {
    get: () => {
      throw new Error("no");
    },
  });
  it.each([
    ["an object without a prototype", Object.assign(Object.create(null), { code: 1 })],
    ["an object that cannot be a text", { toString: () => Symbol("s") }],
    ["an error whose message cannot be read", getter],
    ["a revoked proxy", revoked.proxy],
    ["a symbol", Symbol("s")],
    ["nothing", undefined],
  ])("L1: failureOf, transientOf and isReset accept %s", (_, thrown) => {
    expect(failureOf(thrown)).toEqual({ name: expect.any(String), message: expect.any(String) });
    expect(transientOf(thrown, 0)).toBeUndefined();
    expect(isReset(thrown)).toBe(false);
  });
});

it("L8: a lost connection is transient, also where the AI SDK knows no status and marks it as not retryable", () => {
  const request = { url: "https://model.example", requestBodyValues: {} };
  const error = new APICallError({ message: "Network connection lost", ...request });
  expect(error.isRetryable).toBe(false);
  expect(transientOf(error, 0)).toEqual({ retryAfterMs: undefined });
});

describe("causes", () => {
  const missing = because(new Error("The secret S is not set"), "secret-missing", "S");

  it.each<[string, Failure]>([
    ["a cause with a detail", failureOf(missing)],
    ["a cause without a detail", failureOf(because(new Error("No answer"), "too-late"))],
    ["no cause", failureOf(new Error("#1 of two"))],
  ])("an error with %s is read as it was stored", (_, { message, cause }) => {
    expect(readFailure(storedFailure({ message, cause }))).toEqual({
      message,
      ...(cause && { cause }),
    });
  });

  it("a text of an older version, or one that looks like a stored cause, has none", () => {
    const old = "hooks.example answered 401";
    expect(readFailure(old)).toEqual({ message: old });
    const forged = "#secret-missing/S hello";
    const { message, cause } = readFailure(storedFailure({ message: forged }));
    expect([message, cause?.code]).toEqual([forged, "unknown"]);
  });

  it.each([
    ["Too Many Requests", "Error", "rate-limited"],
    ["", "AI_RateLimitError", "rate-limited"],
    ["The model is down", "Error", undefined],
  ])("a provider's error %j of the name %s has the cause %s", (message, name, code) => {
    expect(withProviderCause({ name, message }).cause?.code).toBe(code);
  });
});

describe("durations", () => {
  const UNITS = {
    second: 1_000,
    minute: 60_000,
    hour: 3_600_000,
    day: 86_400_000,
    week: 604_800_000,
    month: 2_592_000_000,
    year: 31_536_000_000,
  };

  it("a duration is a number of milliseconds, or a count of one of seven units, singular or plural", () => {
    const unit = fc.constantFrom(...(Object.keys(UNITS) as (keyof typeof UNITS)[]));
    const count = fc.integer({ min: 1, max: 10_000 });
    fc.assert(
      fc.property(count, unit, fc.boolean(), (n, name, isPlural) => {
        expect(millisecondsOf(`${n} ${name}${isPlural ? "s" : ""}`)).toBe(n * UNITS[name]);
        expect(millisecondsOf(n)).toBe(n);
      }),
    );
    expect(millisecondsOf("1.5 hours")).toBe(5_400_000);
    expect(millisecondsOf(Number.POSITIVE_INFINITY)).toBe(Number.POSITIVE_INFINITY);
  });

  it.each([
    0,
    -1,
    0.2,
    0.5,
    "0.0005 seconds",
    Number.NaN,
    "",
    "soon",
    "5",
    "-1 days",
    "1 fortnight",
    "1e3 seconds",
    " 1 day",
    null,
  ])("%j is no duration", (value) => expect(millisecondsOf(value)).toBeUndefined());
});

describe("migrations", () => {
  const onStorage = (work: (storage: DurableObjectStorage) => void) =>
    within(givenLedger(), (_, { storage }) => work(storage));

  const versionOf = ({ sql }: DurableObjectStorage, module = "own") =>
    sql.exec("SELECT version FROM perdure_schema WHERE module = ?", module).toArray()[0]?.version;

  const tables = ({ sql }: DurableObjectStorage) =>
    sql
      .exec("SELECT name, sql FROM sqlite_master WHERE name IN ('one', 'two') ORDER BY name")
      .toArray();

  it("migrate any older version to the newest, each step once", () =>
    onStorage((storage) => {
      migrate(storage, "own", MIGRATIONS.slice(0, 1));
      expect(versionOf(storage)).toBe(1);
      migrate(storage, "own", MIGRATIONS);
      migrate(storage, "own", MIGRATIONS);
      expect(versionOf(storage)).toBe(3);
      expect(storage.sql.exec("SELECT COUNT(*) AS rows FROM two").one()).toEqual({ rows: 2 });
      expect(storage.sql.exec("SELECT b FROM one").toArray()).toEqual([]);
    }));

  it("of one module do not change the version of another", () =>
    onStorage((storage) => {
      migrate(storage, "other", ["CREATE TABLE three (a)"]);
      migrate(storage, "own", MIGRATIONS);
      expect([versionOf(storage, "other"), versionOf(storage)]).toEqual([1, 3]);
    }));

  it("of modules that are up to date take two statements in all", () =>
    within(givenLedger(), ({ meter }, { storage }) => {
      const open = () => {
        for (const module of ["one", "two", "three"]) migrate(storage, module, []);
      };
      meter.reset();
      open();
      expect(meter.read().statements).toBe(2);
      open();
      expect(meter.read().statements).toBe(2);
    }));

  it("run again after a transaction around them was rolled back", () =>
    onStorage((storage) => {
      const failing = () =>
        storage.transactionSync(() => {
          migrate(storage, "own", MIGRATIONS);
          migrate(storage, "other", []);
          throw new Error("rolled back");
        });
      expect(failing).toThrow("rolled back");
      migrate(storage, "own", MIGRATIONS);
      expect(versionOf(storage)).toBe(MIGRATIONS.length);
    }));

  it("a schema version that is too new is refused, and nothing changes", () =>
    onStorage((storage) => {
      migrate(storage, "own", MIGRATIONS);
      const before = tables(storage);
      const newer = storage.sql.exec("UPDATE perdure_schema SET version = 4 RETURNING *").toArray();
      const older = () => migrate(storage, "own", [...MIGRATIONS.slice(0, 2), "DROP TABLE two"]);
      expect(older).toThrow(NewerSchemaError);
      expect(older).toThrow(expect.objectContaining({ module: "own", stored: 4, known: 3 }));
      expect(older).toThrow(
        /Invalid schema version 4 of "own" in storage: this version of Perdure supports up to 3/,
      );
      expect(tables(storage)).toEqual(before);
      expect(storage.sql.exec("SELECT * FROM perdure_schema").toArray()).toEqual(newer);
    }));

  it.each([
    ["a step", [...MIGRATIONS.slice(0, 2), "ALTER TABLE nowhere ADD COLUMN b"]],
    [
      "half of a step",
      [MIGRATIONS[0] ?? "", "CREATE TABLE two (a); INSERT INTO nowhere VALUES (1)"],
    ],
  ])("%s that fails rolls back all steps and the version", (_, migrations) =>
    onStorage((storage) => {
      migrate(storage, "own", MIGRATIONS.slice(0, 1));
      const before = tables(storage);
      expect(() => migrate(storage, "own", migrations)).toThrow("nowhere");
      expect(tables(storage)).toEqual(before);
      expect(versionOf(storage)).toBe(1);
    }),
  );

  it("migrations roll back when the version cannot be written", () =>
    within(givenLedger(), ({ meter }, { storage }) => {
      meter.onWrite = (_write, what) => {
        if (what.includes("perdure_schema")) throw new Error("disk full");
      };
      // The object's own ctx.storage is the metered one, `storage` here as well.
      expect(() => migrate(storage, "own", MIGRATIONS)).toThrow("disk full");
      expect(tables(storage)).toEqual([]);
      expect(versionOf(storage)).toBeUndefined();
    }));

  it("an object with a newer schema refuses each call, and works again with newer code", async () => {
    const stub = givenLedger();
    await stub.list();
    const setVersion =
      (version: number) =>
      (_: unknown, { storage }: DurableObjectState) => {
        storage.sql.exec(
          "UPDATE perdure_schema SET version = ? WHERE module = 'submissions'",
          version,
        );
      };
    await within(stub, setVersion(99));
    const next = await crashOne(stub);
    for (let call = 0; call < 2; call++) {
      expect(await next.list().catch(String)).toMatch(
        /version 99 .*supports up to .* Nothing was changed/,
      );
    }
    await within(again(stub), setVersion(LEDGER.length));
    await expect(again(stub).list()).resolves.toEqual([]);
  });
});

describe("wake", () => {
  const atZero = { now: () => 0 };

  it("L1: two concurrent calls of noLaterThan both wait until the wake is armed", async () => {
    const log: string[] = [];
    let arm = () => {};
    const toRoot = async () => {
      await new Promise<void>((resolve) => {
        arm = resolve;
      });
      log.push("armed");
    };
    const routed = {
      routes: { source: { key: "child" }, toRoot },
      storage: {},
    } as unknown as LifecycleServices;
    const wake = new Wake(
      () => routed,
      "test.wake",
      async () => null,
      atZero,
    );
    const callers = [1_000, 2_000].map((time) =>
      wake.noLaterThan(time).then(() => log.push(`${time}`)),
    );
    await sleep(10);
    arm();
    await Promise.all(callers);
    expect(log).toEqual(["armed", "1000", "2000"]);
  });

  it("L1: a root that does not answer within 5 seconds is asked again by the next call", async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const toRoot = vi.fn(() => new Promise<void>(() => {}));
    const routed = { storage: {}, routes: { source: { key: "child" }, toRoot } };
    const wake = new Wake(
      () => routed as unknown as LifecycleServices,
      "test.wake",
      async () => null,
      atZero,
    );
    await Promise.all([
      expect(wake.reach()).rejects.toMatchObject({ name: "RootAgentError", retryable: true }),
      vi.advanceTimersByTimeAsync(5_000),
    ]);
    expect(() => wake.check()).toThrow("Call again. The reason: No answer within 5000 ms");
    toRoot.mockResolvedValue();
    await vi.advanceTimersByTimeAsync(5_000);
    await wake.reach();
    wake.check();
    expect(toRoot).toHaveBeenCalledTimes(3);
  });

  const inCapability = <T>(
    stub: Ledger,
    work: (wakeCapability: WakeCapability, ctx: DurableObjectState, meter: Meter) => Promise<T> | T,
  ) =>
    within(stub, async ({ lifecycle, wakeCapability, meter }, ctx) => {
      await lifecycle.start();
      return work(wakeCapability, ctx, meter);
    });

  const LATER = 3_600_000;

  it("noLaterThan sets one job and the alarm at the given time", () =>
    inCapability(givenLedger(), async ({ wake }, ctx) => {
      const time = Date.now() + LATER;
      expect(wake.armedFor).toBeNull();
      await wake.noLaterThan(time);
      expect(wake.armedFor).toBe(time);
      expect(jobOf(ctx)).toBe(time);
      expect(await ctx.storage.getAlarm()).toBe(time);
    }));

  it("noLaterThan keeps an earlier job and writes nothing", () =>
    inCapability(givenLedger(), async ({ wake }, ctx, meter) => {
      const time = Date.now() + LATER;
      await wake.noLaterThan(time);
      meter.reset();
      await wake.noLaterThan(time + 1);
      await wake.noLaterThan(time);
      expect(jobOf(ctx)).toBe(time);
      expect(meter.read()).toMatchObject({ rowsWritten: 0, setAlarms: 0 });
      await wake.noLaterThan(time - 1);
      expect(jobOf(ctx)).toBe(time - 1);
    }));

  it("L1: noLaterThan sets the job again when its alarm is overdue and has not fired", () =>
    inCapability(givenLedger(), async ({ wake }, { storage }, meter) => {
      const time = Date.now() + LATER;
      await wake.noLaterThan(time);
      await storage.deleteAlarm();
      vi.setSystemTime(time + 20_000);
      onTestFinished(() => void vi.useRealTimers());
      await wake.noLaterThan(Date.now());
      // It may be on its way.
      expect(await storage.getAlarm()).toBeNull();
      vi.setSystemTime(time + 60_000);
      await wake.noLaterThan(time + LATER);
      expect(await storage.getAlarm()).toBeLessThan(time + 61_000);
      meter.reset();
      await wake.noLaterThan(Date.now());
      expect(meter.read()).toMatchObject({ rowsWritten: 0, setAlarms: 0 });
    }));

  it.each([[Date.UTC(2300, 0, 1)], [8.64e15], [1e18]])(
    "L9: a wake requested for %d is armed for the latest time of an alarm",
    (time) =>
      inCapability(givenLedger(), async ({ wake }, ctx, meter) => {
        await wake.noLaterThan(time);
        expect([wake.armedFor, jobOf(ctx)]).toEqual([LAST_ALARM, LAST_ALARM]);
        expect(await ctx.storage.getAlarm()).toBe(LAST_ALARM);
        meter.reset();
        await wake.noLaterThan(time + 1);
        expect(meter.read()).toMatchObject({ rowsWritten: 0, setAlarms: 0 });
        const soon = Date.now() + LATER;
        await wake.noLaterThan(soon);
        expect(jobOf(ctx)).toBe(soon);
      }),
  );

  it("L9: a drive that returns a time after the latest alarm is armed for the latest alarm", async () => {
    const next = { drives: 1, armedFor: LAST_ALARM, job: LAST_ALARM, alarm: LAST_ALARM };
    expect(await driven(async () => Date.UTC(9998, 0, 1))).toEqual(next);
  });

  it("a new instance reads the armed wake after a crash", async () => {
    const stub = givenLedger();
    const time = Date.now() + LATER;
    await inCapability(stub, ({ wake }) => wake.noLaterThan(time));
    const next = await crashOne(stub);
    await inCapability(next, async ({ wake }, ctx) => {
      expect(wake.armedFor).toBe(time);
      await wake.noLaterThan(time + 1);
      expect(jobOf(ctx)).toBe(time);
    });
  });

  it("clear removes the job and the alarm, and the next wake can be armed", () =>
    inCapability(givenLedger(), async ({ wake }, ctx) => {
      await wake.noLaterThan(Date.now() + LATER);
      await wake.clear();
      expect([wake.armedFor, jobOf(ctx), await ctx.storage.getAlarm()]).toEqual([null, null, null]);
      await wake.clear();
      await wake.noLaterThan(Date.now() + LATER);
      expect(jobOf(ctx)).not.toBeNull();
    }));

  /** What is armed after an alarm that ran this drive. */
  async function driven(drive: (wakeCapability: WakeCapability) => Promise<number | null>) {
    const stub = givenLedger();
    await inCapability(stub, async (wakeCapability) => {
      wakeCapability.onDrive = () => drive(wakeCapability);
      await wakeCapability.wake.noLaterThan(Date.now() + LATER);
    });
    // Ends when the outcome is applied.
    await wakeNow(stub);
    return inCapability(stub, async ({ wake, drives }, ctx) => ({
      drives,
      armedFor: wake.armedFor,
      job: jobOf(ctx),
      alarm: await ctx.storage.getAlarm(),
    }));
  }

  it("a drive that returns null leaves no job and no alarm", async () => {
    expect(await driven(async () => null)).toEqual({
      drives: 1,
      armedFor: null,
      job: null,
      alarm: null,
    });
  });

  it("the time that a drive returns is the next wake", async () => {
    const time = Date.now() + LATER;
    const next = { drives: 1, armedFor: time, job: time, alarm: time };
    expect(await driven(async () => time)).toEqual(next);
  });

  it.each([
    ["an outcome that is earlier than a push wins", LATER, LATER / 2, LATER / 2],
    ["a push that is earlier than the outcome wins", LATER / 2, LATER, LATER / 2],
    ["a push wins over an outcome of null", LATER, null, LATER],
  ])("during a drive, %s", async (_, push, outcome, expected) => {
    const now = Date.now();
    const left = await driven(async ({ wake }) => {
      await wake.noLaterThan(now + push);
      return outcome === null ? null : now + outcome;
    });
    const time = now + expected;
    expect(left).toEqual({ drives: 1, armedFor: time, job: time, alarm: time });
  });

  it("during a drive, clearing a push does not clear the outcome", async () => {
    const time = Date.now() + LATER;
    const left = await driven(async ({ wake }) => {
      await wake.noLaterThan(time - 1);
      await wake.clear();
      return time;
    });
    expect(left).toEqual({ drives: 1, armedFor: time, job: time, alarm: time });
  });

  it("request and release work without await", async () => {
    const stub = givenLedger();
    const time = Date.now() + LATER;
    await inCapability(stub, ({ wake }) => wake.request(time));
    await inCapability(stub, (_, ctx) => expect(jobOf(ctx)).toBe(time));
    await inCapability(stub, ({ wake }) => wake.release());
    await inCapability(stub, (_, ctx) => expect(jobOf(ctx)).toBeNull());
  });

  it("noLaterThan pushes again after a push that failed", async () => {
    const stub = givenLedger();
    await inCapability(stub, async ({ wake }, ctx, meter) => {
      meter.onWrite = () => {
        throw new Error("disk full");
      };
      const time = Date.now() + LATER;
      await expect(wake.noLaterThan(time)).rejects.toThrow("disk full");
      meter.onWrite = undefined;
      await wake.noLaterThan(time);
      expect(jobOf(ctx)).toBe(time);
    });
  });

  it("a drive that fails is retried, and its job stays", async () => {
    const stub = givenLedger();
    await inCapability(stub, async (wakeCapability) => {
      wakeCapability.onDrive = async () => {
        throw new Error("not yet");
      };
      await wakeCapability.wake.noLaterThan(Date.now());
    });
    await until(() => inCapability(stub, ({ drives }) => drives > 0));
    await until(() => inCapability(stub, (_, ctx) => (jobOf(ctx) ?? 0) > Date.now() + 20_000));
  });

  it("the root keeps the wake of a sub-agent, and routes it back when it fires", async () => {
    const source = { key: "child" };
    const [ROOT, CHILD] = [{}, {}];
    const jobs = new Map<string, LifecycleJob>();
    const root: Wake = new Wake(
      () =>
        ({
          jobs: {
            get: (id: string) => jobs.get(id),
            push: async (job: LifecycleJob) => jobs.set(job.id, job),
            cancel: async (id: string) => jobs.delete(id),
          },
          storage: ROOT,
          routes: {
            source: undefined,
            to: async (_: unknown, payload: unknown) =>
              child.onRoute({ source: undefined, payload }),
          },
        }) as unknown as LifecycleServices,
      WAKE_CAPABILITY,
      async () => null,
      atZero,
    );
    const outcomes = [5_000, null];
    const child: Wake = new Wake(
      () =>
        ({
          storage: CHILD,
          routes: {
            source,
            toRoot: async (payload: unknown) =>
              root.onRoute({ source, payload } as LifecycleRouteContext),
          },
        }) as unknown as LifecycleServices,
      WAKE_CAPABILITY,
      async () => outcomes.shift() ?? null,
      atZero,
    );
    await root.noLaterThan(1_000);
    await child.noLaterThan(3_000);
    await child.noLaterThan(4_000);
    const [own, childs] = [...jobs.values()].sort((one, other) => one.time - other.time);
    expect([own?.time, childs?.time]).toEqual([1_000, 3_000]);
    expect([root.armedFor, child.armedFor]).toEqual([1_000, 3_000]);
    const fire = async () => childs && root.onJob({ job: childs, attempt: 1 });
    expect(await fire()).toEqual({ rescheduleAt: 5_000 });
    expect([root.armedFor, child.armedFor]).toEqual([1_000, 5_000]);
    expect(await fire()).toBeUndefined();
    await child.noLaterThan(6_000);
    await child.clear();
    expect([...jobs.values()]).toEqual([own]);
  });

  it("the alarm of an object that crashed wakes its next instance", async () => {
    const stub = givenLedger();
    const drives: number[] = [];
    births.set(stub.name ?? "", ({ wakeCapability }) => {
      const instance = drives.push(0) - 1;
      wakeCapability.onDrive = async () => {
        drives[instance] = 1;
        return null;
      };
    });
    await inCapability(stub, ({ wake }) => wake.noLaterThan(Date.now() + LATER));
    await within(await crashOne(stub), () => {});
    expect(drives).toEqual([0, 0]);
    await within(again(stub), async (_, { storage }) => {
      storage.sql.exec("UPDATE cf_agents_jobs SET time = ? WHERE id LIKE '%:wake'", Date.now());
    });
    expect(await runDurableObjectAlarm(again(stub))).toBe(true);
    expect(drives).toEqual([0, 1]);
  });
});

describe("backoffMs", () => {
  const options = fc.record({
    baseMs: fc.integer({ min: 1, max: 100_000 }),
    capMs: fc.integer({ min: 1, max: 86_400_000 }),
  });
  const failures = fc.integer({ min: 1, max: 100_000 });
  const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

  it("backoffMs is a whole number below the cap, and below the base for the first failure", () => {
    fc.assert(
      fc.property(failures, options, random, (count, backoff, chance) => {
        const ms = backoffMs(count, backoff, chance);
        expect(Number.isInteger(ms)).toBe(true);
        expect(ms).toBeGreaterThanOrEqual(0);
        expect(ms).toBeLessThan(backoff.capMs);
        expect(backoffMs(1, backoff, chance)).toBeLessThan(backoff.baseMs);
      }),
    );
  });

  it("backoffMs never shrinks from one failure to the next, and doubles below the cap", () => {
    fc.assert(
      fc.property(failures, options, random, (count, backoff, chance) => {
        const [one, next] = [
          backoffMs(count, backoff, chance),
          backoffMs(count + 1, backoff, chance),
        ];
        expect(next).toBeGreaterThanOrEqual(one);
        expect(next).toBeLessThanOrEqual(2 * one + 2);
        const uncapped = { ...backoff, capMs: Number.MAX_SAFE_INTEGER };
        expect(backoffMs(Math.min(count, 20), uncapped, 0.5)).toBe(
          Math.floor(backoff.baseMs * 2 ** (Math.min(count, 20) - 1) * 0.5),
        );
      }),
    );
  });
});

describe("instantMs", () => {
  it.each([
    [new Date(1_000), 1_000],
    [1_000.7, 1_000],
    [-0.5, -1],
    ["1970-01-01T00:00:01Z", 1_000],
    ["1970-01-01T01:00+01:00", 0],
  ])("L9: instantMs of %s is %i", (value, ms) => {
    expect(instantMs(value)).toBe(ms);
  });

  it.each([
    [new Date("no")],
    [Number.NaN],
    [Number.POSITIVE_INFINITY],
    [9e15],
    ["1970-01-01"],
    ["1970-01-01T00:00:01"],
    ["1970-13-01T00:00:00Z"],
    ["2026-02-30T00:00:00Z"],
    ["2026-04-31T00:00:00+02:00"],
    ["tomorrow"],
    [null],
    [true],
    [[1]],
  ])("L9: %j is not a point in time", (value) => {
    expect(instantMs(value)).toBeUndefined();
  });
});
