/** What a scheduler meets seldom: edits that a sleeping object learns of by the wake for an occurrence, limits that are moved, and odd input. */

import { describe, expect, it } from "vitest";
import { refusal, until } from "../../support/given.ts";
import {
  allOf,
  at,
  DAY,
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

  /** A task that is edited while its object sleeps, until `lateMs` after 09:00. */
  async function editedAsleep(
    before: Options,
    after: Options,
    { lateMs = 10 * MINUTE, zones = ["UTC", "UTC"] } = {},
  ) {
    const record = recorder();
    let [zone, changed] = zones;
    const stage = new TestScheduler({
      defaultTimezone: () => zone,
      tasks: () => ({ t: task(record.note, before) }),
    });
    await stage.start();
    await stage.crash();
    zone = changed;
    stage.script.tasks = () => ({ t: task(record.note, after) });
    await stage.pass(9 * HOUR + lateMs);
    const { counts, next } = await stage.info();
    return { ran: record.occurrences, missed: counts.missed, next: at(next ?? 0) };
  }
  type Options = Parameters<typeof task>[1];
  const NINE = 9 * 60;

  it.each([
    ["a later time", { schedule: "every day at 17:00 in UTC" }, 17 * 60],
    ["an earlier time", { schedule: "every day at 08:59 in UTC" }, (24 + 8) * 60 + 59],
    ["a zone to the west", { schedule: "every day at 09:00 in America/New_York" }, 14 * 60],
    ["a zone to the east", { schedule: "every day at 09:00 in Asia/Tokyo" }, 24 * 60],
    ["the option timezone", { schedule: "every day at 09:00", timezone: "Asia/Tokyo" }, 24 * 60],
    ["an interval", { schedule: "every 50 minutes" }, NINE + 60],
    ["a weekday", { schedule: "every tuesday at 09:00 in UTC" }, 33 * 60],
  ])("S3 S4: an overdue occurrence is caught up after an edit to %s", async (_, after, next) => {
    expect(await editedAsleep(daily, after)).toEqual({ ran: [NINE], missed: 0, next });
  });

  it("S3 S4: an overdue occurrence is caught up after a change of the default zone", async () => {
    const bare = { schedule: "every day at 09:00" };
    const zones = ["UTC", "America/New_York"];
    expect(await editedAsleep(bare, bare, { zones })).toEqual({
      ran: [NINE],
      missed: 0,
      next: 14 * 60,
    });
  });

  it.each([
    ["latest", 10, 1],
    ["all", 10, 1],
    [{ all: "20 minutes" }, 10, 1],
    [{ all: "5 minutes" }, 10, 0],
    ["none", 10, 0],
    // Less than a minute late is on time.
    ["none", 0.5, 1],
  ] as const)(
    "S3 S4: an edit obeys catchUp %j, %d minutes after its time",
    async (catchUp, minutes, runs) => {
      const after = { schedule: "every day at 17:00 in UTC", catchUp } as const;
      const seen = await editedAsleep(daily, after, { lateMs: minutes * MINUTE });
      const ran = runs === 1 ? [NINE] : [];
      expect(seen).toEqual({ ran, missed: 1 - runs, next: 17 * 60 });
    },
  );

  it.each([
    ["latest", [NINE], 2],
    ["all", [7 * 60, 8 * 60, NINE], 0],
    ["none", [], 3],
  ] as const)(
    "S3 S4: of several overdue occurrences, an edit runs those of the old schedule: %s",
    async (catchUp, ran, missed) => {
      const before = {
        schedule: "every day at 07:00, 08:00, 09:00 in UTC",
        overlap: "queue",
      } as const;
      const after = {
        schedule: "every day at 09:05, 17:00 in UTC",
        overlap: "queue",
        catchUp,
      } as const;
      expect(await editedAsleep(before, after)).toEqual({ ran, missed, next: 17 * 60 });
    },
  );

  it.each([
    ["except", { ...daily, except: ["2030-01-07"] }],
    ["endAt", { ...daily, endAt: "2030-01-07T08:00:00Z" }],
    ["startAt", { ...daily, startAt: "2030-01-08T00:00:00Z" }],
    ["the text", { schedule: "every day at 09:30 in UTC except 2030-01-07" }],
    ["the text of an interval", { schedule: "every hour starting 2030-01-08 in UTC" }],
  ])(
    "S3 S4: an edit that leaves out an overdue occurrence by %s counts it as missed",
    async (_, after) => {
      expect(await editedAsleep(daily, after)).toMatchObject({ ran: [], missed: 1 });
    },
  );

  it("S3 S4: an overdue occurrence of a schedule too long to store is caught up", async () => {
    const except = Array.from({ length: 300 }, (_, day) =>
      new Date(MONDAY + (day + 9) * DAY).toISOString().slice(0, 10),
    );
    const seen = await editedAsleep(
      { ...daily, except },
      { schedule: "every day at 17:00 in UTC" },
    );
    expect(seen).toEqual({ ran: [NINE], missed: 0, next: 17 * 60 });
  });

  it("S4: an edit of a paused interval counts from the edit, also at a time of both", async () => {
    const stage = new TestScheduler({});
    await stage.declare({ t: task(() => {}, { schedule: "every 25 minutes" }) });
    await stage.pass(25 * MINUTE);
    await stage.in(({ scheduler }) => scheduler.pause("t"));
    stage.script.now = stage.now + 25 * MINUTE;
    await stage.declare({ t: task(() => {}) });
    const range = { from: new Date(MONDAY), to: new Date(MONDAY + 51 * MINUTE) };
    expect(await stage.in(({ scheduler }) => scheduler.backfill("t", range))).toMatchObject({
      queued: 0,
    });
  });

  it("S4: an edit during the delay of the jitter fires at the end of the delay", async () => {
    const record = recorder();
    const jitter = { jitter: "8 hours" } as const;
    const stage = new TestScheduler({
      tasks: () => ({ t: task(record.note, { ...daily, ...jitter }) }),
    });
    await stage.start();
    const fires = (await stage.wakesIn()) ?? 0;
    expect(fires).toBeGreaterThan(9 * HOUR + 2);
    await stage.crash();
    stage.script.now = stage.now + 9 * HOUR + 1;
    await stage.declare({
      t: task(record.note, { schedule: "every day at 23:00 in UTC", ...jitter }),
    });
    expect(record.occurrences).toEqual([]);
    await stage.pass(fires - 9 * HOUR - 1);
    expect(record.occurrences).toEqual([NINE]);
    expect(at((await stage.info()).next ?? 0)).toBe(23 * 60);
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
  await stage.in(({ scheduler }) => scheduler.remove("t"));
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
