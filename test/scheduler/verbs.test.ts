/** S5: what is seen of tasks and runs, and what an operator does to them; over crashes, too. */

import { describe, expect, it } from "vitest";
import { InvalidOptionError, Scheduler } from "../../src/scheduler/index.ts";
import { refusal, until } from "../support/given.ts";
import { forever } from "../support/ledger.ts";
import type { SchedulerObject } from "../support/objects/scheduler-object.ts";
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
} from "../support/scheduler.ts";

type Verbs = SchedulerObject["scheduler"];

async function given(options: Parameters<typeof task>[1] = {}) {
  const record = recorder();
  const stage = new TestScheduler({ tasks: () => ({ t: task(record.note, options) }) });
  await stage.start();
  const call = <T>(work: (scheduler: Verbs) => Promise<T>) =>
    stage.in(({ scheduler }) => work(scheduler));
  return { record, stage, call };
}

const minutes = (count: number) => MONDAY + count * MINUTE;

describe("pause and resume", () => {
  it("S5: a pause survives a crash, and resume continues from now without catching up", async () => {
    const { record, stage, call } = await given({ catchUp: "all" });
    await stage.pass(10 * MINUTE);
    await call((scheduler) => scheduler.pause("t", "too loud"));
    await stage.crash();
    await stage.pass(25 * MINUTE);
    const info = await stage.info();
    expect(info).toMatchObject({ state: "paused", next: null, nextOccurrences: [] });
    expect(info.paused).toEqual({ at: minutes(10), by: "hand", note: "too loud" });
    expect(await stage.wakesIn()).toBeNull();
    await call((scheduler) => scheduler.resume("t"));
    await stage.crash();
    await stage.start();
    expect(await stage.info()).toMatchObject({ state: "active", next: minutes(40) });
    await stage.pass(5 * MINUTE);
    expect(record.occurrences).toEqual([10, 40]);
    expect((await stage.info()).counts.missed).toBe(0);
  });

  it("S5: resume does nothing to a task that is not paused", async () => {
    const { stage, call } = await given();
    await stage.pass(9 * MINUTE);
    const next = (await stage.info()).next;
    await call((scheduler) => scheduler.resume("t"));
    expect((await stage.info()).next).toEqual(next);
  });
});

describe("trigger", () => {
  it("S5: a trigger runs now under its own key, and moves no occurrence", async () => {
    const { record, stage, call } = await given();
    await stage.pass(3 * MINUTE);
    const run = await call((scheduler) => scheduler.trigger("t"));
    expect(run).toMatchObject({ cause: "trigger", scheduledFor: minutes(3), lagMs: 0 });
    await until(() => record.came.length === 1);
    expect(record.came[0]?.occurrenceKey).toMatch(/^t:trigger:/);
    expect(record.came[0]?.idempotencyKey).toBe(run.idempotencyKey);
    await stage.pass(7 * MINUTE);
    expect(record.occurrences).toEqual([3, 10]);
    expect(new Set(record.came.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(2);
  });

  it("S5: the same trigger key is the same run, also after a crash", async () => {
    const { record, stage, call } = await given();
    const first = await call((scheduler) => scheduler.trigger("t", { key: "k:1" }));
    await stage.comes("completed");
    await stage.crash();
    stage.script.now = stage.now + MINUTE;
    const second = await call((scheduler) => scheduler.trigger("t", { key: "k:1" }));
    expect(second).toMatchObject({ status: "completed", idempotencyKey: first.idempotencyKey });
    expect(record.came).toHaveLength(1);
  });

  it("S5: a paused or finished task can be triggered", async () => {
    const { record, stage, call } = await given({ endAt: "2030-01-07T00:15:00Z" });
    await call((scheduler) => scheduler.pause("t"));
    await call((scheduler) => scheduler.trigger("t"));
    await call((scheduler) => scheduler.resume("t"));
    await stage.pass(10 * MINUTE);
    expect((await stage.info()).state).toBe("finished");
    await call((scheduler) => scheduler.trigger("t"));
    await until(() => record.came.length === 3);
  });

  it("S5: a trigger follows the task's overlap", async () => {
    const stage = new TestScheduler({ tasks: () => ({ t: task(forever) }) });
    await stage.start();
    const call = (key: string) => stage.in(({ scheduler }) => scheduler.trigger("t", { key }));
    expect(await call("a")).toMatchObject({ status: "running" });
    stage.script.now = stage.now + 1;
    expect(await call("b")).toMatchObject({ status: "skipped" });
  });

  it("S5: a trigger that could not start before a crash starts after it", async () => {
    const { record, stage } = await given();
    await stage
      .in(async ({ scheduler }, ctx) => {
        const stored = scheduler.trigger("t", { key: "k" });
        await stored;
        await ctx.storage.sync();
        ctx.abort("crash");
      })
      .catch(() => {});
    await stage.start();
    await stage.wake();
    await stage.comes("completed");
    expect(record.came.length).toBeGreaterThanOrEqual(1);
  });
});

describe("backfill", () => {
  it("S5: a backfill runs the occurrences that did not run, oldest first, one at a time, under their own keys", async () => {
    const { record, stage, call } = await given({ catchUp: "none" });
    await stage.pass(10 * MINUTE);
    await stage.crash();
    await stage.pass(44 * MINUTE);
    expect(record.occurrences).toEqual([10]);
    const range = { from: minutes(10), to: minutes(50) };
    const result = await call((scheduler) => scheduler.backfill("t", range));
    expect(result).toEqual({ queued: 3, alreadyRun: 1 });
    await until(async () => (await stage.info()).counts.completed === 4);
    expect(record.occurrences).toEqual([10, 20, 30, 40]);
    expect(record.came[1]).toMatchObject({
      cause: "backfill",
      occurrenceKey: `t:${MONDAY + 20 * MINUTE}`,
    });
    expect(await call((scheduler) => scheduler.backfill("t", range))).toEqual({
      queued: 0,
      alreadyRun: 4,
    });
  });

  it("S5: a backfill continues after a crash, and an occurrence waits for one of its runs only", async () => {
    const record = recorder();
    let isHeld = true;
    const held = async (context: Parameters<typeof record.note>[0]) => {
      record.note(context);
      if (isHeld) await forever();
    };
    const stage = new TestScheduler({ tasks: () => ({ t: task(held, { catchUp: "none" }) }) });
    await stage.start();
    await stage.pass(49 * MINUTE);
    const range = { from: minutes(0), to: minutes(49) };
    await stage.in(({ scheduler }) => scheduler.backfill("t", range));
    await until(() => record.occurrences.length === 1);
    await stage.pass(MINUTE);
    const backfilled = ["20 waiting", "30 waiting", "40 waiting"];
    expect(await stage.history()).toEqual(["10 running", ...backfilled, "50 waiting"]);
    await stage.crash();
    isHeld = false;
    await stage.start();
    await stage.wake();
    await until(async () => (await stage.info()).counts.completed === 5);
    expect(record.occurrences).toEqual([10, 10, 50, 20, 30, 40]);
  });

  it("S5: a backfill runs skipped occurrences, and no future ones", async () => {
    const { record, stage, call } = await given();
    await stage.pass(MINUTE);
    expect(await call((scheduler) => scheduler.skipNext("t"))).toEqual(minutes(10));
    await stage.pass(14 * MINUTE);
    const range = { from: minutes(0), to: minutes(100) };
    expect(await call((scheduler) => scheduler.backfill("t", range))).toEqual({
      queued: 1,
      alreadyRun: 0,
    });
    await stage.comes("completed");
    expect(record.occurrences).toEqual([10]);
    expect((await stage.runs())[0]).toMatchObject({ firedAt: minutes(15), lagMs: 5 * MINUTE });
    expect((await stage.info()).counts).toMatchObject({ completed: 1, skipped: 0 });
  });

  it("S5: a backfill of more than 1,000 occurrences is refused, and nothing is stored", async () => {
    const { stage, call } = await given({ catchUp: "none" });
    await stage.pass(1_000 * HOUR);
    const range = { from: minutes(0), to: new Date(stage.now) };
    const error = await stage.in(({ scheduler }) => refusal(scheduler.backfill("t", range)));
    expect(error).toMatchObject({ name: "InvalidOptionError", option: "to" });
    expect(error.message).toContain("1000");
    expect((await call((scheduler) => scheduler.runs("t"))).items).toHaveLength(1);
  });
});

describe("skipNext", () => {
  it("S5: skipNext skips one occurrence after the other, also after a crash", async () => {
    const { record, stage, call } = await given();
    expect(await call((scheduler) => scheduler.skipNext("t"))).toEqual(minutes(10));
    expect(await call((scheduler) => scheduler.skipNext("t"))).toEqual(minutes(20));
    await stage.crash();
    for (let i = 0; i < 3; i++) await stage.pass(10 * MINUTE);
    expect(record.occurrences).toEqual([30]);
    expect(await stage.history()).toEqual(["10 skipped", "20 skipped", "30 completed"]);
  });

  it("S5: an occurrence stays skipped when the task is paused and resumed before it", async () => {
    const { record, stage, call } = await given();
    await call((scheduler) => scheduler.skipNext("t"));
    await call((scheduler) => scheduler.pause("t"));
    expect(await call((scheduler) => scheduler.skipNext("t"))).toBeNull();
    await call((scheduler) => scheduler.resume("t"));
    await stage.pass(10 * MINUTE);
    await stage.pass(10 * MINUTE);
    expect(record.occurrences).toEqual([20]);
  });
});

describe("list, runs and history", () => {
  it("S5: list returns the next occurrences, the last run and the counts", async () => {
    const { stage, call } = await given({ metadata: { team: "a" } });
    await stage.pass(10 * MINUTE);
    await stage.pass(5 * MINUTE);
    const {
      items: [info],
    } = await call((scheduler) => scheduler.list({ occurrences: 3 }));
    expect(info).toMatchObject({
      taskId: "t",
      schedule: "every 10 minutes",
      scheduleKind: "interval",
      state: "active",
      next: minutes(20),
      nextOccurrences: [minutes(20), minutes(30), minutes(40)],
      lastRun: { scheduledFor: minutes(10), status: "completed" },
      counts: { completed: 1, failed: 0, skipped: 0, missed: 0 },
      metadata: { team: "a" },
    });
    expect(await call((scheduler) => scheduler.inspect("unknown"))).toBeNull();
  });

  it("S5: runs are listed newest first, in pages", async () => {
    const { stage, call } = await given();
    for (let i = 0; i < 5; i++) await stage.pass(10 * MINUTE);
    const { items, cursor } = await call((scheduler) => scheduler.runs("t", { limit: 2 }));
    expect(items.map(({ scheduledFor }) => at(scheduledFor))).toEqual([50, 40]);
    const rest = await call((scheduler) => scheduler.runs("t", { limit: 3, cursor }));
    expect(rest.items.map(({ scheduledFor }) => at(scheduledFor))).toEqual([30, 20, 10]);
    expect(rest).not.toHaveProperty("cursor");
  });

  it("S5: the cursor of one task's runs is refused for the runs of another", async () => {
    const each = task(() => {});
    const stage = new TestScheduler({ tasks: () => ({ t: each, t2: each }) });
    await stage.start();
    for (let i = 0; i < 3; i++) await stage.pass(10 * MINUTE);
    await stage.in(async ({ scheduler }) => {
      const { cursor } = await scheduler.runs("t", { limit: 1 });
      expect(cursor).toBeDefined();
      expect((await scheduler.runs("t", { cursor })).items).toHaveLength(2);
      const error = await refusal(scheduler.runs("t2", { cursor }));
      expect(error).toMatchObject({ name: "InvalidOptionError", option: "cursor" });
      expect(error.message).toContain("expected the cursor of an earlier page of this list");
    });
  });

  it.each([undefined, null, 1n, Symbol("t"), {}])(
    "S5: runs() refuses the task id %s of an untyped caller",
    async (taskId) => {
      const { stage } = await given();
      await stage.in(async ({ scheduler }) => {
        const error = await refusal(scheduler.runs(taskId as never));
        expect(error.name).toBe("UnknownTaskError");
      });
    },
  );

  it("S5: tasks are listed by id, in pages that have each task once", async () => {
    const each = task(() => {});
    const tasks = { c: each, a: each, "not an id": each, b: each };
    const stage = new TestScheduler({ tasks: () => tasks });
    await stage.in(async ({ scheduler }) => {
      for (const limit of [1, 2, 3, 4, 100]) {
        const listed = await allOf((page) => scheduler.list(page), limit);
        expect(listed.map(({ taskId }) => taskId)).toEqual(["a", "b", "c", "not an id"]);
      }
    });
  });

  it("S5: the history is bounded by count and age, and deleted runs stay counted", async () => {
    const history = { count: 5, age: "1 day" } as const;
    const stage = new TestScheduler({ history, tasks: () => ({ t: task(() => {}) }) });
    await stage.start();
    for (let i = 0; i < 40; i++) await stage.pass(10 * MINUTE);
    const kept = (await stage.runs()).length;
    expect(kept).toBeGreaterThanOrEqual(5);
    expect(kept).toBeLessThanOrEqual(5 + 16);
    expect((await stage.info()).counts.completed).toBe(40);
    await stage.pass(48 * HOUR);
    expect(await stage.runs()).toHaveLength(1);
    expect((await stage.info()).counts).toMatchObject({ completed: 41, missed: 287 });
  });

  it("S5: a trigger key names its run for the age of the history, however many runs are newer", async () => {
    const record = recorder();
    const history = { count: 5, age: "2 days" } as const;
    const stage = new TestScheduler({ history, tasks: () => ({ t: task(record.note) }) });
    await stage.start();
    const trigger = (key: string) => stage.in(({ scheduler }) => scheduler.trigger("t", { key }));
    const first = await trigger("k");
    await stage.comes("completed");
    for (let n = 0; n < 40; n++) await stage.pass(10 * MINUTE);
    for (let n = 0; n < 20; n++) {
      await trigger(`other ${n}`);
      await stage.comes("completed");
    }
    expect(await trigger("k")).toMatchObject({
      idempotencyKey: first.idempotencyKey,
      status: "completed",
    });
    expect(record.came).toHaveLength(61);
    // Occurrences are bounded by the count as before.
    const occurrences = (await stage.history()).filter((run) => !/^(0|400) /.test(run));
    expect(occurrences.length).toBeLessThanOrEqual(5 + 15);
    await stage.pass(2 * DAY);
    await stage.pass(10 * MINUTE);
    await trigger("k");
    await until(() => record.came.length === 64);
  });

  it("S5: 10,000 trigger keys of a task are kept, the newest", async () => {
    const stage = new TestScheduler({ tasks: () => ({ t: task(() => {}) }) });
    await stage.start();
    const count = await stage.in(async ({ scheduler }, { storage: { sql } }) => {
      sql.exec(
        `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10050)
         INSERT INTO perdure_runs (task_id, occurrence, trigger_key, cause, status, fired_at, lag_ms, attempts, not_before, ended_at)
         SELECT 't', ? - i, 'key ' || i, 'trigger', 'completed', ? - i, 0, 1, 0, ? - i FROM n`,
        ...[MONDAY, MONDAY, MONDAY],
      );
      await scheduler.trigger("t", { key: "newest" });
      const rows = sql.exec<{ n: number; oldest: number }>(
        "SELECT COUNT(*) AS n, MIN(occurrence) AS oldest FROM perdure_runs",
      );
      return rows.one();
    });
    expect(count).toEqual({ n: 10_000, oldest: MONDAY - 9_999 });
  });

  it("S5: every method names the declared tasks when it refuses an unknown id", async () => {
    const { stage } = await given();
    const range = { from: new Date(0), to: new Date(1) };
    await stage.in(async ({ scheduler }) => {
      const calls = [
        () => scheduler.pause("x"),
        () => scheduler.resume("x"),
        () => scheduler.trigger("x"),
        () => scheduler.backfill("x", range),
        () => scheduler.skipNext("x"),
        () => scheduler.runs("x"),
      ];
      for (const call of calls) {
        expect(await refusal(call())).toMatchObject({
          name: "UnknownTaskError",
          message: 'Unknown scheduled task "x". Declared tasks: "t".',
        });
      }
    });
  });

  it("S5: invalid arguments are refused, and nothing is stored", async () => {
    const { stage } = await given();
    await stage.in(async ({ scheduler, meter }) => {
      meter.reset();
      const day = new Date(MONDAY);
      const calls: [string, () => Promise<unknown>][] = [
        ["occurrences", () => scheduler.list({ occurrences: 101 })],
        ["limit", () => scheduler.runs("t", { limit: 0 })],
        ["cursor", () => scheduler.runs("t", { cursor: "no" })],
        ["limit", () => scheduler.list({ limit: 1_001 })],
        ["key", () => scheduler.trigger("t", { key: "" })],
        ["keys", () => scheduler.trigger("t", { keys: "a" } as object)],
        ["to", () => scheduler.backfill("t", { from: day, to: day })],
        ["from", () => scheduler.backfill("t", { from: "monday", to: day })],
        ["note", () => scheduler.pause("t", "x".repeat(1_001))],
      ];
      for (const [option, call] of calls) {
        expect(await refusal(call())).toMatchObject({ name: "InvalidOptionError", option });
      }
      expect(meter.read().rowsWritten).toBe(0);
    });
  });
});

it.each([[null], [undefined], [0], [true], ["x"], [[]], [new Date(0)]])(
  "refuses %j in place of the options of a Scheduler",
  (options) => {
    expect(() => new Scheduler(options as never)).toThrow(InvalidOptionError);
    expect(() => new Scheduler(options as never)).toThrow(/^Invalid options of Scheduler .*: exp/);
  },
);
