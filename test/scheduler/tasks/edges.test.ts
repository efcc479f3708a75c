/** What a scheduler meets seldom: edits that a sleeping object learns of by the wake for an occurrence, limits that are moved, and odd input. */

import { describe, expect, it } from "vitest";
import { refusal, until } from "../../support/given.ts";
import {
  allOf,
  at,
  DAY,
  fakeTurns,
  HOUR,
  MINUTE,
  MONDAY,
  recorder,
  TestScheduler,
  task,
} from "../../support/scheduler.ts";

const daily = { schedule: "every day at 09:00 in UTC" };

describe("an edit that the wake for an occurrence finds", () => {
  it.each([
    ["a date left out", { ...daily, except: ["2030-12-25"] }],
    ["one more time", { schedule: "every day at 09:00, 17:00 in UTC" }],
    ["an end", { ...daily, endAt: "2031-01-01T00:00:00Z" }],
  ])("S1 S4: a due occurrence that both schedules have fires: %s", async (_, edited) => {
    const record = recorder();
    const stage = new TestScheduler({ tasks: () => ({ t: task(record.note, daily) }) });
    await stage.start();
    await stage.crash();
    stage.script.tasks = () => ({ t: task(record.note, edited) });
    await stage.pass(9 * HOUR);
    expect(record.occurrences).toEqual([9 * 60]);
    expect((await stage.info()).counts.missed).toBe(0);
  });

  it("S1 S4: an interval that keeps its length keeps its occurrences", async () => {
    const record = recorder();
    const stage = new TestScheduler({ tasks: () => ({ t: task(record.note) }) });
    await stage.start();
    await stage.crash();
    stage.script.tasks = () => ({ t: task(record.note, { endAt: "2031-01-01T00:00:00Z" }) });
    await stage.pass(13 * MINUTE);
    await stage.pass(7 * MINUTE);
    expect(record.occurrences).toEqual([10, 20]);
  });

  it("S1 S4: a due occurrence that the new schedule does not have is missed", async () => {
    const record = recorder();
    const stage = new TestScheduler({ tasks: () => ({ t: task(record.note, daily) }) });
    await stage.start();
    await stage.crash();
    const edited = { schedule: "every day at 09:30 in UTC" };
    stage.script.tasks = () => ({ t: task(record.note, edited) });
    await stage.pass(9 * HOUR);
    expect(record.occurrences).toEqual([]);
    expect((await stage.info()).counts.missed).toBe(1);
    await stage.pass(30 * MINUTE);
    expect(record.occurrences).toEqual([9 * 60 + 30]);
  });
});

describe("maxRuns that is raised", () => {
  it("S3: occurrences that passed while the task was finished are neither caught up nor missed", async () => {
    const record = recorder();
    const options = { catchUp: "all", maxRuns: 1 } as const;
    const stage = new TestScheduler({ tasks: () => ({ t: task(record.note, options) }) });
    await stage.start();
    for (let i = 0; i < 4; i++) await stage.pass(10 * MINUTE);
    expect(await stage.wakesIn()).toBeNull();
    await stage.declare({ t: task(record.note, { ...options, maxRuns: 3 }) });
    expect(at((await stage.info()).next ?? 0)).toBe(50);
    await stage.pass(10 * MINUTE);
    expect(record.occurrences).toEqual([10, 50]);
    expect((await stage.info()).counts.missed).toBe(0);
  });

  it("S3: a lowered maxRuns is stored once, and can be raised again", async () => {
    const record = recorder();
    const stage = new TestScheduler({ tasks: () => ({ t: task(record.note) }) });
    await stage.start();
    for (let i = 0; i < 2; i++) await stage.pass(10 * MINUTE);
    await stage.declare({ t: task(record.note, { maxRuns: 1 }) });
    expect(await stage.info()).toMatchObject({ state: "finished", next: null });
    await stage.in(async ({ scheduler, meter }) => {
      meter.reset();
      await scheduler.reconcile();
      expect(meter.rowsWrittenBy((query) => query.includes("perdure_"))).toBe(0);
    });
    await stage.pass(20 * MINUTE);
    await stage.in(({ scheduler }) => scheduler.pause("t"));
    await stage.in(({ scheduler }) => scheduler.resume("t"));
    await stage.pass(20 * MINUTE);
    await stage.declare({ t: task(record.note) });
    await stage.wake();
    expect(record.occurrences).toEqual([10, 20]);
    expect(at((await stage.info()).next ?? 0)).toBe(70);
  });
});

describe("resume", () => {
  it("S5: a task that is resumed before the jitter of an occurrence has passed fires that occurrence", async () => {
    const record = recorder();
    const jittered = { ...daily, jitter: "8 hours" } as const;
    const stage = new TestScheduler({ tasks: () => ({ t: task(record.note, jittered) }) });
    await stage.start();
    const fires = (await stage.wakesIn()) ?? 0;
    // Otherwise there is nothing to be seen here.
    expect(fires).toBeGreaterThan(9 * HOUR + 2);
    await stage.pass(9 * HOUR + 1);
    await stage.in(({ scheduler }) => scheduler.pause("t"));
    await stage.in(({ scheduler }) => scheduler.resume("t"));
    await stage.pass(fires - 9 * HOUR - 1);
    expect(record.occurrences).toEqual([9 * 60]);
  });

  it("S5: a resumed task does not list an occurrence that skipNext() has skipped as the next one", async () => {
    const stage = new TestScheduler({ tasks: () => ({ t: task(() => {}) }) });
    await stage.start();
    await stage.in(({ scheduler }) => scheduler.skipNext("t"));
    await stage.in(({ scheduler }) => scheduler.skipNext("t"));
    await stage.in(({ scheduler }) => scheduler.pause("t"));
    await stage.in(({ scheduler }) => scheduler.resume("t"));
    expect(at((await stage.info()).next ?? 0)).toBe(30);
  });
});

it("S1: many due tasks fire in parts, and a task that an earlier one removes does not fire", async () => {
  const record = recorder();
  const ids = Array.from({ length: 64 }, (_, index) => `t${index}`);
  const tasks = Object.fromEntries(ids.map((id) => [id, task(record.note)]));
  const stage = new TestScheduler({ tasks: () => tasks });
  await stage.start();
  const fired: number[] = [];
  await stage.in(({ meter, scheduler }, { storage: { sql } }) => {
    meter.reset();
    meter.onWrite = (_, what) => {
      if (!what.includes("INTO perdure_runs")) return;
      meter.onWrite = undefined;
      setTimeout(() => {
        fired.push(sql.exec("SELECT 1 FROM perdure_runs").toArray().length);
        stage.script.tasks = () => ({ t0: task(record.note) });
        scheduler.reconcile().catch(() => fired.push(-1));
      }, 0);
    };
  });
  await stage.pass(10 * MINUTE);
  await until(() => record.came.length > 0);
  expect(fired[0]).toBeLessThan(64);
  expect(record.came.length).toBeLessThan(64);
  expect((await stage.in(({ scheduler }) => scheduler.list())).items.length).toBe(1);
  expect(await stage.wakesIn()).not.toBeNull();
});

describe("unusual input", () => {
  it.each(["\ud800", "é\udc00"])(
    "S5: a trigger key with half a character is refused: %j",
    async (key) => {
      const record = recorder();
      const stage = new TestScheduler({ tasks: () => ({ t: task(record.note) }) });
      await stage.start();
      await stage.in(async ({ scheduler }, { storage }) => {
        const error = await refusal(scheduler.trigger("t", { key }));
        expect(error).toMatchObject({ name: "InvalidOptionError", option: "key" });
        expect(storage.sql.exec("SELECT * FROM perdure_runs").toArray()).toEqual([]);
      });
    },
  );

  it("S5: pages list each run once, also those for the same time", async () => {
    const stage = new TestScheduler({ tasks: () => ({ t: task(() => {}, { overlap: "allow" }) }) });
    await stage.start();
    await stage.in(async ({ scheduler }) => {
      for (let i = 0; i < 5; i++) await scheduler.trigger("t");
    });
    await stage.pass(10 * MINUTE);
    await stage.in(async ({ scheduler }) => {
      const runs = await allOf((page) => scheduler.runs("t", page), 2);
      expect(runs.map(({ scheduledFor }) => at(scheduledFor))).toEqual([10, 0, 0, 0, 0, 0]);
      expect(new Set(runs.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(6);
    });
  });

  it("S4: a schedule that cannot be shown does not stop other tasks", async () => {
    const record = recorder();
    const odd = { schedule: Object.create(null), handler: () => {} };
    const stage = new TestScheduler({ tasks: () => ({ odd, t: task(record.note) }) });
    await stage.start();
    await stage.pass(10 * MINUTE);
    expect(record.occurrences).toEqual([10]);
    expect((await stage.info("odd")).state).toBe("invalid");
  });
});

it("S1: a run from before its task was removed stores nothing after the task was declared again", async () => {
  const ends: (() => void)[] = [];
  const slow = task(() => new Promise<void>((resolve) => void ends.push(resolve)), daily);
  const stage = new TestScheduler({});
  await stage.declare({ t: slow });
  await stage.pass(9 * HOUR);
  await stage.declare({});
  await stage.declare({ t: slow });
  const range = { from: new Date(MONDAY), to: new Date(MONDAY + DAY) };
  expect(await stage.in(({ scheduler }) => scheduler.backfill("t", range))).toMatchObject({
    queued: 1,
  });
  await until(() => ends.length === 2);
  await stage.inside(() => ends[0]?.());
  await stage.wake();
  expect(await stage.history()).toEqual([`${9 * 60} running`]);
  await stage.inside(() => ends[1]?.());
  await stage.comes("completed");
});

it("S4: a prompt whose task was removed holds no alarm while its turn runs", async () => {
  const turns = fakeTurns({
    accept: async () => ({ submissionId: "s" }),
    inspect: async () => ({ status: "running" }),
  });
  const stage = new TestScheduler({ turns });
  await stage.declare({ t: { schedule: "every 10 minutes", prompt: "report" } });
  await stage.pass(10 * MINUTE);
  await stage.declare({});
  await stage.wake();
  expect(await stage.wakesIn()).toBeNull();
});

it("S4: a task with many waiting runs takes turns with other tasks", async () => {
  const came: string[] = [];
  const note = ({ taskId }: { taskId: string }) => void came.push(taskId);
  const many = task(note, { catchUp: "all", overlap: "allow" });
  const stage = new TestScheduler({ concurrency: 1, tasks: () => ({ many, one: task(note) }) });
  await stage.start();
  await stage.crash();
  await stage.pass(12 * HOUR);
  await until(() => came.length === 73);
  expect(came.indexOf("one")).toBeLessThanOrEqual(2);
});
