/** What the scheduler writes and executes, as `src/scheduler/README.md` has it in its last paragraph; and a thousand tasks. */

import { expect, it } from "vitest";
import type { ScheduledTasks } from "../../src/scheduler/index.ts";
import { until } from "../support/given.ts";
import type { SchedulerObject } from "../support/objects/scheduler-object.ts";
import { fakeTurns, MINUTE, MONDAY, recorder, TestScheduler, task } from "../support/scheduler.ts";

const isOurs = (query: string) => /perdure_(tasks|runs|schedule_owner)/.test(query);

type Cost = { readonly rows: number; readonly statements: number };

/** Rows of the scheduler's tables that `work` writes, and statements on them, until all is quiet. */
async function costOf(stage: TestScheduler, work: () => Promise<unknown>): Promise<Cost> {
  await stage.in(({ meter }) => meter.reset());
  await work();
  return stage.inside(({ meter }) => ({
    rows: meter.rowsWrittenBy(isOurs),
    statements: meter.statementsOf(isOurs),
  }));
}

it("an occurrence writes 3 rows in 4 statements, and a row for each run that is deleted", async () => {
  const record = recorder();
  const stage = new TestScheduler({
    history: { count: 16 },
    tasks: () => ({ t: task(record.note) }),
  });
  await stage.start();
  for (let index = 1; index <= 64; index++) {
    const isPruned = index % 16 === 0;
    const forgotten = isPruned && index > 16 ? 16 : 0;
    const cost = await costOf(stage, () => stage.pass(10 * MINUTE));
    expect({ index, ...cost }).toEqual({
      index,
      rows: 3 + forgotten,
      statements: isPruned ? 5 : 4,
    });
  }
  expect(record.came).toHaveLength(64);
});

it("a start without tasks reads no runs", async () => {
  const starts = async (tasks: ScheduledTasks) => {
    const stage = new TestScheduler({ tasks: () => tasks });
    await stage.start();
    await stage.crash();
    return stage.inside(async ({ lifecycle, meter }) => {
      await lifecycle.start();
      return meter.statementsOf((query) => /perdure_runs/.test(query));
    });
  };
  expect(await starts({})).toBe(0);
  expect(await starts({ t: task(() => {}) })).toBe(1);
});

it("an occurrence that fails once writes 2 rows more", async () => {
  let calls = 0;
  const once = task(() => {
    if (calls++ === 0) throw new Error("once");
  });
  const stage = new TestScheduler({ tasks: () => ({ t: once }) });
  await stage.start();
  expect(await costOf(stage, () => stage.pass(10 * MINUTE))).toEqual({ rows: 5, statements: 6 });
});

it("a prompt writes 1 row more", async () => {
  const stage = new TestScheduler({
    turns: fakeTurns({
      accept: async () => ({ submissionId: "s" }),
      inspect: async () => ({ status: "completed" }),
    }),
    tasks: () => ({ t: { schedule: "every 10 minutes", prompt: "report" } }),
  });
  await stage.start();
  expect(await costOf(stage, () => stage.pass(10 * MINUTE))).toEqual({ rows: 4, statements: 5 });
});

it("a trigger of a task that has run before writes 2 rows", async () => {
  const stage = new TestScheduler({ tasks: () => ({ t: task(() => {}) }) });
  await stage.start();
  await stage.pass(10 * MINUTE);
  stage.script.now = stage.now + 1;
  const cost = await costOf(stage, () => stage.in(({ scheduler }) => scheduler.trigger("t")));
  await stage.comes("completed");
  expect(cost.rows).toBeLessThanOrEqual(2);
});

const MANY = 1_000;
const ids = Array.from({ length: MANY }, (_, index) => `task-${index}`);

it("S4: reconciling 1,000 unchanged tasks executes no statement, and a start executes three", async () => {
  const tasks = Object.fromEntries(ids.map((id) => [id, task(() => {})]));
  const stage = new TestScheduler({ tasks: () => tasks });
  await stage.start();
  const again = () => stage.inside(({ scheduler }) => scheduler.reconcile());
  expect(await costOf(stage, again)).toEqual({ rows: 0, statements: 0 });
  await stage.crash();
  const statements = await stage.inside(async ({ lifecycle, meter, scheduler }) => {
    await lifecycle.start();
    await scheduler.reconcile();
    return meter.statementsOf(isOurs);
  });
  expect(statements).toBe(3);
});

it("S4 S5: with a long history, a start reads none of it, inspect reads one task's, and list reads each run once", async () => {
  const tasks = Object.fromEntries(ids.map((id) => [id, task(() => {})]));
  const stage = new TestScheduler({ tasks: () => tasks });
  await stage.start();
  await stage.inside((_, { storage: { sql } }) => {
    sql.exec(
      `INSERT INTO perdure_runs (task_id, occurrence, trigger_key, cause, status, fired_at, lag_ms, attempts, not_before, ended_at)
       WITH RECURSIVE n (occurrence) AS (SELECT 1 UNION ALL SELECT occurrence + 1 FROM n WHERE occurrence < 50)
       SELECT task_id, occurrence, '', 'schedule', 'completed', 0, 0, 1, 0, 5 FROM perdure_tasks, n`,
    );
    sql.exec("UPDATE perdure_tasks SET open_from = 50");
  });
  await stage.crash();
  const rowsRead = (work: (scheduler: SchedulerObject["scheduler"]) => Promise<unknown>) =>
    stage.inside(async ({ lifecycle, scheduler, meter }) => {
      meter.reset();
      await lifecycle.start();
      await work(scheduler);
      return meter.read().rowsRead;
    });
  // Each task's row twice, and the one run that may be open, looked up and read.
  expect(await rowsRead((scheduler) => scheduler.reconcile())).toBeLessThanOrEqual(4 * MANY + 50);
  expect(await rowsRead((scheduler) => scheduler.inspect("task-5"))).toBeLessThanOrEqual(60);
  expect(await rowsRead((scheduler) => scheduler.list({ limit: MANY }))).toBeLessThanOrEqual(
    55 * MANY,
  );
});

it("S1 S4: 1,000 tasks that are due at once run once each, in four rows, also after a crash in between", async () => {
  const record = recorder();
  const tasks = Object.fromEntries(ids.map((id) => [id, task(record.note)]));
  const stage = new TestScheduler({ tasks: () => tasks });
  await stage.start();
  const cost = await costOf(stage, async () => {
    await stage.pass(10 * MINUTE);
    await until(() => record.came.length === MANY);
  });
  expect(new Set(record.came.map(({ taskId }) => taskId)).size).toBe(MANY);
  // The sixteen that begin at once are written as begun.
  expect(cost.rows).toBeLessThanOrEqual(4 * MANY - 16);
  record.came.length = 0;
  stage.script.now = MONDAY + 20 * MINUTE;
  await stage.inside(({ meter }, ctx) => {
    meter.reset();
    meter.onWrite = (write) => {
      if (write === 2_500) ctx.abort("crash");
    };
  });
  await stage.wake().catch(() => false);
  await until(async () => {
    await stage.wake().catch(() => false);
    const all = await stage.in(({ scheduler }) => scheduler.list({ occurrences: 0, limit: MANY }));
    return all.items.every(({ counts }) => counts.completed === 2);
  });
  expect(new Set(record.came.map(({ taskId }) => taskId)).size).toBe(MANY);
});
