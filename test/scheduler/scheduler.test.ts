/** The scheduler on a plain object: occurrences, attempts, and alarms that come when they should not. */

import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { describe, expect, it } from "vitest";
import { until } from "../support/given.ts";
import { forever, jobOf } from "../support/ledger.ts";
import { at, DAY, MINUTE, MONDAY, recorder, TestScheduler, task } from "../support/scheduler.ts";

describe("each occurrence fires once", () => {
  it("S1: an occurrence fires once, and the handler gets its time, keys and metadata", async () => {
    const { came, note } = recorder();
    const daily = {
      schedule: "every day at 09:00 in UTC",
      metadata: { a: 1 },
    };
    const stage = new TestScheduler({ tasks: () => ({ digest: task(note, daily) }) });
    await stage.start();
    await stage.pass(9.5 * 60 * MINUTE);
    const [context] = came;
    expect(came).toHaveLength(1);
    const occurrence = MONDAY + 9 * 60 * MINUTE;
    expect(context).toMatchObject({
      taskId: "digest",
      scheduledFor: occurrence,
      scheduledForDate: new Date(occurrence),
      occurrenceKey: `digest:${occurrence}`,
      schedule: "every day at 09:00",
      scheduleKind: "wall-clock",
      timezone: "UTC",
      metadata: { a: 1 },
      attempt: 1,
      cause: "catch-up",
    });
    expect(context?.idempotencyKey).toMatch(/^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/);
    expect(context?.instanceId).toBe(context?.idempotencyKey);
    expect(context?.signal.aborted).toBe(false);
    const [run] = await stage.runs("digest");
    expect(run).toMatchObject({
      status: "completed",
      attempts: 1,
      lagMs: 30 * MINUTE,
      idempotencyKey: context?.idempotencyKey,
    });
  });

  it("S1: an interval first fires when it has passed once", async () => {
    const { came, note } = recorder();
    const stage = new TestScheduler({ now: MONDAY + 7, tasks: () => ({ t: task(note) }) });
    await stage.start();
    expect((await stage.info()).next).toBe(MONDAY + 7 + 10 * MINUTE);
    expect(await stage.wakesIn()).toBe(10 * MINUTE);
    await stage.pass(10 * MINUTE);
    await stage.pass(10 * MINUTE);
    expect(came.map(({ scheduledFor }) => scheduledFor - MONDAY - 7)).toEqual([
      10 * MINUTE,
      20 * MINUTE,
    ]);
    expect(came[0]).not.toHaveProperty("timezone");
  });

  it("S1: an early alarm fires nothing, and another one comes in time", async () => {
    const record = recorder();
    const stage = new TestScheduler({ tasks: () => ({ t: task(record.note) }) });
    await stage.start();
    await stage.pass(10 * MINUTE - 1);
    expect(record.occurrences).toEqual([]);
    expect(await stage.wakesIn()).toBe(1);
    await stage.pass(1);
    expect(record.occurrences).toEqual([10]);
  });

  it("S1: an alarm that comes twice fires each occurrence once", async () => {
    const record = recorder();
    const stage = new TestScheduler({ tasks: () => ({ t: task(record.note) }) });
    await stage.start();
    await stage.pass(10 * MINUTE);
    await stage.wake();
    await stage.wake();
    expect(record.occurrences).toEqual([10]);
  });

  it("S1: a late alarm does not move the next occurrences", async () => {
    const record = recorder();
    const stage = new TestScheduler({ tasks: () => ({ t: task(record.note) }) });
    await stage.start();
    await stage.pass(14 * MINUTE);
    await stage.pass(6 * MINUTE);
    expect(record.occurrences).toEqual([10, 20]);
  });

  it("S1: the next start restores a lost alarm", async () => {
    const record = recorder();
    const stage = new TestScheduler({ tasks: () => ({ t: task(record.note) }) });
    await stage.start();
    await stage.inside(async (_, { storage }) => {
      storage.sql.exec("DELETE FROM cf_agents_jobs");
      await storage.deleteAlarm();
    });
    await stage.crash();
    await stage.start();
    expect(await stage.wakesIn()).not.toBeNull();
    await stage.pass(10 * MINUTE);
    expect(record.occurrences).toEqual([10]);
  });

  it("S1: a clock that is set back repeats no occurrence", async () => {
    const record = recorder();
    const stage = new TestScheduler({ tasks: () => ({ t: task(record.note) }) });
    await stage.start();
    await stage.pass(10 * MINUTE);
    await stage.pass(-5 * MINUTE);
    await stage.crash();
    await stage.start();
    await stage.pass(5 * MINUTE);
    expect(record.occurrences).toEqual([10]);
    await stage.pass(10 * MINUTE);
    expect(record.occurrences).toEqual([10, 20]);
  });

  it("S1: the platform's alarm fires an occurrence", async () => {
    const { came, note } = recorder();
    const everySecond = {
      schedule: "cron * * * * * * in UTC",
      endAt: new Date(Date.now() + 3_000),
    };
    const stage = new TestScheduler({ tasks: () => ({ t: task(note, everySecond) }) });
    delete stage.script.now;
    await stage.start();
    await until(async () => (await stage.info()).state === "finished");
    const [first, second] = came.map(({ scheduledFor }) => scheduledFor);
    expect(Number(second) - Number(first)).toBeGreaterThanOrEqual(1_000);
    // Nothing is left to wake for.
    const alarm = () => stage.inside((_, ctx) => ctx.storage.getAlarm());
    await until(async () => (await alarm()) === null);
    expect(await stage.inside((_, ctx) => jobOf(ctx))).toBeNull();
  });

  it("S1: a scheduler without tasks holds no alarm", async () => {
    const stage = new TestScheduler({});
    await stage.start();
    expect(await stage.inside((_, ctx) => ctx.storage.getAlarm())).toBeNull();
    await stage.declare({ t: task(() => {}) });
    expect(await stage.wakesIn()).toBe(10 * MINUTE);
    await stage.declare({});
    await until(async () => (await stage.inside((_, ctx) => ctx.storage.getAlarm())) === null);
  });
});

describe("the next occurrence is armed whatever the action does", () => {
  it("S1: a handler that always fails is tried maxAttempts times, and other tasks run", async () => {
    const failures: string[] = [];
    const good = recorder();
    const bad = recorder();
    const fails = task(
      (context) => {
        bad.note(context);
        throw new RangeError("no");
      },
      { retry: { maxAttempts: 3, baseDelayMs: 1_000 } },
    );
    const seen: { type: string; name: string; payload: object }[] = [];
    const listen = (message: unknown) => void seen.push(message as (typeof seen)[number]);
    subscribe("agents:lifecycle", listen);
    const stage = new TestScheduler({
      chance: 0.5,
      tasks: () => ({ bad: fails, good: task(good.note) }),
      onFailure: (error, { taskId, attempts }) =>
        void failures.push(`${taskId} ${attempts} ${error}`),
    });
    await stage.start();
    await stage.pass(10 * MINUTE);
    const run = await stage.comes("waiting", "bad");
    expect(run).toMatchObject({ attempts: 1, error: { name: "RangeError", message: "no" } });
    expect(await stage.wakesIn()).toBe(500);
    await stage.pass(500);
    await stage.pass(1_000);
    expect(await stage.comes("failed", "bad")).toMatchObject({ attempts: 3 });
    expect(bad.came.map(({ attempt }) => attempt)).toEqual([1, 2, 3]);
    expect(new Set(bad.came.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1);
    await stage.pass(10 * MINUTE);
    expect(bad.occurrences).toEqual([10, 10, 10, 20]);
    expect(good.occurrences).toEqual([10, 20]);
    unsubscribe("agents:lifecycle", listen);
    expect(failures).toEqual(["bad 3 RangeError: no"]);
    const events = seen.filter(({ name, type }) => name === stage.name && type.startsWith("sched"));
    expect(events).toMatchObject([
      { type: "scheduler:failed", payload: { taskId: "bad", attempts: 3 } },
    ]);
    expect((await stage.info("bad")).counts).toMatchObject({ failed: 1, completed: 0 });
    expect((await stage.info("good")).counts).toMatchObject({ failed: 0, completed: 2 });
  });

  it("S1: a handler that hangs fails after its timeout, and its signal is aborted", async () => {
    const signals: AbortSignal[] = [];
    const record = recorder();
    const hangs = task(
      ({ signal }) => {
        signals.push(signal);
        return forever();
      },
      { timeout: 50, retry: { maxAttempts: 1 } },
    );
    const stage = new TestScheduler({ tasks: () => ({ t: hangs, other: task(record.note) }) });
    await stage.start();
    await stage.pass(10 * MINUTE);
    expect(record.occurrences).toEqual([10]);
    const { error } = await stage.comes("failed");
    expect(error).toMatchObject({ name: "RunTimeoutError" });
    expect(error?.message).toContain("50 ms");
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
    await stage.pass(10 * MINUTE);
    expect(signals).toHaveLength(2);
  });

  it("S1: a late finisher changes nothing", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    let calls = 0;
    const slow = task(() => (++calls === 1 ? promise : forever()), {
      timeout: 60,
      retry: { maxAttempts: 2 },
    });
    const stage = new TestScheduler({ tasks: () => ({ t: slow }) });
    await stage.start();
    await stage.pass(10 * MINUTE);
    await until(async () => (await stage.runs())[0]?.status !== "running");
    await stage.inside(() => resolve());
    await stage.pass(1);
    await stage.comes("failed");
    expect(calls).toBe(2);
  });

  it("S1: an interrupted attempt counts, and is repeated at least once", async () => {
    const record = recorder();
    const hangs = (context: Parameters<typeof record.note>[0]) => {
      record.note(context);
      return forever();
    };
    const stage = new TestScheduler({
      tasks: () => ({ t: task(hangs, { retry: { maxAttempts: 1 } }) }),
    });
    await stage.start();
    await stage.pass(10 * MINUTE);
    expect(await stage.wakesIn()).toBe(30_000);
    await stage.crash();
    await stage.wake();
    await until(() => record.came.length === 2);
    await stage.crash();
    await stage.wake();
    const { error } = await stage.comes("failed");
    expect(error).toMatchObject({ name: "RunInterruptedError" });
    expect(record.came.map(({ attempt }) => attempt)).toEqual([1, 2]);
    await stage.pass(10 * MINUTE);
    expect(record.occurrences).toEqual([10, 10, 20]);
  });

  it("S1: an onFailure that throws changes nothing", async () => {
    const stage = new TestScheduler({
      tasks: () => ({ t: task(() => Promise.reject("no"), { retry: { maxAttempts: 1 } }) }),
      onFailure: () => {
        throw new Error("not my day");
      },
    });
    await stage.start();
    await stage.pass(10 * MINUTE);
    expect(await stage.comes("failed")).toMatchObject({ error: { name: "Error", message: "no" } });
  });
});

describe("limits of a task", () => {
  it("S1: an interval begins at startAt", async () => {
    const record = recorder();
    const stage = new TestScheduler({
      tasks: () => ({ t: task(record.note, { startAt: "2030-01-07T01:05:00+00:30" }) }),
    });
    await stage.start();
    await stage.pass(35 * MINUTE);
    await stage.pass(10 * MINUTE);
    expect(record.occurrences).toEqual([35, 45]);
  });

  it("S1: a task has no occurrence before startAt or at endAt", async () => {
    const record = recorder();
    const options = {
      schedule: "every day at 09:00 in UTC",
      startAt: "2030-01-08T09:00:00Z",
      endAt: new Date(MONDAY + 3 * DAY + 9 * 60 * MINUTE),
    };
    const stage = new TestScheduler({ tasks: () => ({ t: task(record.note, options) }) });
    await stage.start();
    for (let day = 0; day < 6; day++) await stage.pass(DAY);
    expect(record.occurrences.map((occurrence) => occurrence / 60 / 24)).toEqual([
      1 + 9 / 24,
      2 + 9 / 24,
    ]);
    expect((await stage.info()).state).toBe("finished");
  });

  it("S1: an excepted date has no occurrence", async () => {
    const record = recorder();
    const options = { schedule: "every day at 09:00 in UTC", except: ["2030-01-08"] };
    const stage = new TestScheduler({ tasks: () => ({ t: task(record.note, options) }) });
    await stage.start();
    for (let day = 0; day < 3; day++) await stage.pass(DAY);
    expect(record.occurrences.map((occurrence) => Math.floor(occurrence / 60 / 24))).toEqual([
      0, 2,
    ]);
  });

  it("S1: the jitter delays every occurrence by the same time, and scheduledFor stays the occurrence", async () => {
    const record = recorder();
    const stage = new TestScheduler({
      tasks: () => ({ t: task(record.note, { jitter: "5 minutes" }) }),
    });
    await stage.start();
    const offset = ((await stage.wakesIn()) ?? 0) - 10 * MINUTE;
    expect(offset).toBeGreaterThanOrEqual(0);
    expect(offset).toBeLessThan(5 * MINUTE);
    await stage.pass(10 * MINUTE + offset - 1);
    expect(record.occurrences).toEqual([]);
    await stage.pass(1);
    expect(record.occurrences).toEqual([10]);
    expect(await stage.runs()).toMatchObject([{ lagMs: 0 }]);
    await stage.crash();
    await stage.start();
    await stage.pass(10 * MINUTE);
    expect(record.occurrences).toEqual([10, 20]);
    expect(at((await stage.info()).next ?? 0)).toBe(30);
  });

  it("S1: pauseOnFailure pauses a task when a run fails, until it is resumed", async () => {
    let isBad = true;
    const options = { retry: { maxAttempts: 1 }, pauseOnFailure: true };
    const stage = new TestScheduler({
      tasks: () => ({
        t: task(() => {
          if (isBad) throw new Error("bad day");
        }, options),
      }),
    });
    await stage.start();
    await stage.pass(10 * MINUTE);
    await stage.comes("failed");
    const info = await stage.info();
    expect(info).toMatchObject({ state: "paused", next: null });
    expect(info.paused).toMatchObject({ by: "failure", note: "bad day" });
    await stage.pass(10 * MINUTE);
    expect(await stage.history()).toEqual(["10 failed"]);
    await stage.in(({ scheduler }) => scheduler.resume("t"));
    isBad = false;
    await stage.pass(10 * MINUTE);
    await until(async () => (await stage.history()).at(-1) === "30 completed");
  });
});
