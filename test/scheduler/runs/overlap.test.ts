/** S3: what passed unseen, and what meets a run that has not ended. */

import { describe, expect, it } from "vitest";
import type { CatchUp, Overlap, ScheduledTaskContext } from "../../../src/scheduler/index.ts";
import { until } from "../../support/given.ts";
import { forever } from "../../support/ledger.ts";
import {
  at,
  HOUR,
  MINUTE,
  MONDAY,
  recorder,
  TestScheduler,
  task,
} from "../../support/scheduler.ts";

/** A handler whose calls wait, each until the test lets it go. */
function waiting() {
  const record = recorder();
  const waiting = new Map<number, () => void>();
  const aborted: number[] = [];
  const handler = async (context: ScheduledTaskContext) => {
    record.note(context);
    const occurrence = at(context.scheduledFor);
    context.signal.addEventListener("abort", () => void aborted.push(occurrence));
    await new Promise<void>((resolve) => waiting.set(occurrence, resolve));
  };
  const release = async (stage: TestScheduler, occurrence: number) => {
    await until(() => waiting.has(occurrence));
    await stage.inside(() => waiting.get(occurrence)?.());
  };
  return { record, handler, release, aborted };
}

const OCCURRENCES = [10, 20, 30, 40, 50, 60];

/** After 64 minutes unseen: 60 is late by four minutes, and the others have been followed. */
const CAUGHT_UP: [CatchUp, number[]][] = [
  ["latest", [60]],
  ["none", []],
  ["all", OCCURRENCES],
  [{ all: "25 minutes" }, [40, 50, 60]],
];
const OVERLAPS: Overlap[] = ["skip", "queue", "cancelPrevious", "allow"];

describe("catchUp with every overlap, when the object was away", () => {
  const cases = CAUGHT_UP.flatMap(([catchUp, occurrences]) =>
    OVERLAPS.map((overlap) => ({ catchUp, overlap, occurrences, name: JSON.stringify(catchUp) })),
  );
  it.each(cases)("$name and $overlap", async ({ catchUp, overlap, occurrences }) => {
    const { record, handler, release, aborted } = waiting();
    const stage = new TestScheduler({ tasks: () => ({ t: task(handler, { catchUp, overlap }) }) });
    await stage.start();
    await stage.crash();
    await stage.pass(64 * MINUTE);
    expect((await stage.info()).counts.missed).toBe(6 - occurrences.length);
    expect(at((await stage.info()).next ?? 0)).toBe(70);
    if (overlap === "allow") {
      await until(() => record.occurrences.length === occurrences.length);
      expect(record.occurrences.toSorted((a, b) => a - b)).toEqual(occurrences);
    }
    for (const [index, occurrence] of occurrences.entries()) {
      // One after the other, in their order.
      if (overlap !== "allow") {
        await until(() => record.occurrences.length === index + 1);
        expect(record.occurrences).toEqual(occurrences.slice(0, index + 1));
      }
      await release(stage, occurrence);
    }
    await until(async () => (await stage.info()).counts.completed === occurrences.length);
    expect(await stage.history()).toEqual(
      occurrences.map((occurrence) => `${occurrence} completed`),
    );
    expect(record.came.map(({ cause }) => cause)).toEqual(occurrences.map(() => "catch-up"));
    expect(aborted).toEqual([]);
  });

  it("S3: a latest occurrence that is on time is no catch-up, and runs with catchUp none", async () => {
    const record = recorder();
    const stage = new TestScheduler({
      tasks: () => ({ t: task(record.note, { catchUp: "none" }) }),
    });
    await stage.start();
    await stage.pass(30 * MINUTE + 60_000);
    expect(record.occurrences).toEqual([30]);
    expect(record.came[0]?.cause).toBe("schedule");
    expect((await stage.info()).counts).toMatchObject({ completed: 1, missed: 2 });
    await stage.pass(10 * MINUTE + 1);
    expect(record.occurrences).toEqual([30]);
    expect((await stage.info()).counts.missed).toBe(3);
  });

  it("S3: occurrences that a later one has followed are catch-ups, however late they are", async () => {
    const record = recorder();
    const every = { schedule: "every 1 minute", catchUp: "all" } as const;
    const stage = new TestScheduler({ tasks: () => ({ t: task(record.note, every) }) });
    await stage.start();
    await stage.pass(2 * MINUTE + 30_000);
    await until(() => record.came.length === 2);
    expect(record.came.map(({ cause }) => cause)).toEqual(["catch-up", "schedule"]);
  });

  it("S3: with catchUp all, a new occurrence runs after the missed ones", async () => {
    const { record, handler, release } = waiting();
    const stage = new TestScheduler({ tasks: () => ({ t: task(handler, { catchUp: "all" }) }) });
    await stage.start();
    await stage.pass(24 * MINUTE);
    await until(() => record.occurrences.length === 1);
    await stage.pass(10 * MINUTE);
    expect(await stage.history()).toEqual(["10 running", "20 waiting", "30 waiting"]);
    for (const occurrence of [10, 20, 30]) await release(stage, occurrence);
    await until(async () => (await stage.info()).counts.completed === 3);
    expect(record.occurrences).toEqual([10, 20, 30]);
  });

  it("S3: with catchUp all, the newest 1,000 run, and older ones are counted", async () => {
    const record = recorder();
    const all = { catchUp: { all: "30 days" } as const, schedule: "every 10 minutes" };
    const stage = new TestScheduler({ tasks: () => ({ t: task(record.note, all) }) });
    await stage.start();
    await stage.crash();
    await stage.pass(1_200 * 10 * MINUTE);
    await until(() => record.came.length === 1_000);
    expect(record.occurrences[0]).toBe(2_010);
    expect(record.occurrences).toEqual(record.occurrences.toSorted((a, b) => a - b));
    expect((await stage.info()).counts.missed).toBe(200);
  });

  it("S3: at most 10,000 missed occurrences are counted at once", async () => {
    const stage = new TestScheduler({ tasks: () => ({ t: task(() => {}, { catchUp: "none" }) }) });
    await stage.start();
    await stage.pass(100 * 24 * HOUR + 5 * MINUTE);
    expect((await stage.info()).counts.missed).toBe(10_000);
    expect(at((await stage.info()).next ?? 0)).toBe(100 * 24 * 60 + 10);
  });
});

describe("overlap", () => {
  async function met(overlap: Overlap) {
    const wait = waiting();
    const stage = new TestScheduler({ tasks: () => ({ t: task(wait.handler, { overlap }) }) });
    await stage.start();
    for (let occurrence = 0; occurrence < 3; occurrence++) await stage.pass(10 * MINUTE);
    return { ...wait, stage };
  }

  it("S3: with overlap skip, the history has the reason", async () => {
    const { record, stage, release } = await met("skip");
    expect(await stage.history()).toEqual(["10 running", "20 skipped", "30 skipped"]);
    expect((await stage.runs())[0]?.reason).toContain("2030-01-07T00:10:00.000Z");
    await release(stage, 10);
    await stage.pass(10 * MINUTE);
    expect(record.occurrences).toEqual([10, 40]);
    expect((await stage.info()).counts.skipped).toBe(2);
  });

  it("S3: with overlap queue, runs start one after the other", async () => {
    const { record, stage, release } = await met("queue");
    expect(await stage.history()).toEqual(["10 running", "20 waiting", "30 waiting"]);
    await release(stage, 10);
    await release(stage, 20);
    await release(stage, 30);
    await until(async () => (await stage.info()).counts.completed === 3);
    expect(record.occurrences).toEqual([10, 20, 30]);
  });

  it("S3: with overlap cancelPrevious, the run's signal is aborted, and its end changes nothing", async () => {
    const { record, stage, release, aborted } = await met("cancelPrevious");
    expect(await stage.history()).toEqual(["10 cancelled", "20 cancelled", "30 running"]);
    expect(aborted).toEqual([10, 20]);
    await release(stage, 10);
    await release(stage, 30);
    await until(async () => (await stage.info()).counts.completed === 1);
    expect(await stage.history()).toEqual(["10 cancelled", "20 cancelled", "30 completed"]);
    expect(record.occurrences).toEqual([10, 20, 30]);
  });

  it("S3: with overlap allow, runs run side by side", async () => {
    const { stage, release } = await met("allow");
    expect(await stage.history()).toEqual(["10 running", "20 running", "30 running"]);
    await release(stage, 20);
    await until(async () => (await stage.history())[1] === "20 completed");
    expect(await stage.history()).toEqual(["10 running", "20 completed", "30 running"]);
  });

  it("S3: at most maxWaiting runs queue, later ones are skipped, and the app is notified once", async () => {
    const problems: unknown[] = [];
    const options = { overlap: "queue", timeout: "20 days", maxWaiting: 2 } as const;
    const stage = new TestScheduler({
      onProblem: (problem) => void problems.push(problem),
      tasks: () => ({ t: task(forever, options) }),
    });
    await stage.start();
    for (let occurrence = 0; occurrence < 5; occurrence++) await stage.pass(10 * MINUTE);
    const [last, previous, before] = await stage.runs();
    const reason = "2 runs were waiting, and maxWaiting is 2";
    expect(last).toMatchObject({ status: "skipped", reason });
    expect([previous?.status, before?.status]).toEqual(["skipped", "waiting"]);
    expect((await stage.info()).counts.skipped).toBe(2);
    const message = `An occurrence is skipped: ${reason}`;
    expect(problems).toEqual([
      { type: "scheduler:full", level: "warn", message, ids: { taskId: "t" } },
    ]);
  });

  it("S3: a queue holds more than a day of missed runs by default, and the next ones", async () => {
    const options = { overlap: "queue", catchUp: "all", timeout: "20 days" } as const;
    const stage = new TestScheduler({ tasks: () => ({ t: task(forever, options) }) });
    await stage.start();
    await stage.pass(24 * HOUR);
    for (let occurrence = 0; occurrence < 3; occurrence++) await stage.pass(10 * MINUTE);
    const { counts } = await stage.info();
    expect([counts.skipped, counts.missed]).toEqual([0, 0]);
  });

  it.each(["queue", "skip"] as const)(
    "S3: missed runs count against maxWaiting, with overlap %s",
    async (overlap) => {
      const options = { overlap, catchUp: "all", timeout: "20 days", maxWaiting: 2 } as const;
      const stage = new TestScheduler({ tasks: () => ({ t: task(forever, options) }) });
      await stage.start();
      await stage.pass(50 * MINUTE);
      const expected = ["10 running", "20 waiting", "30 waiting", "40 skipped", "50 skipped"];
      expect(await stage.history()).toEqual(expected);
    },
  );

  it("S3: a run between two attempts keeps its place", async () => {
    const record = recorder();
    let failures = 1;
    const once = task(
      (context) => {
        record.note(context);
        if (failures-- > 0) throw new Error("once");
      },
      { overlap: "queue", retry: { baseDelayMs: 15 * MINUTE, maxDelayMs: 15 * MINUTE } },
    );
    const stage = new TestScheduler({ chance: 0.9999999, tasks: () => ({ t: once }) });
    await stage.start();
    await stage.pass(10 * MINUTE);
    await stage.pass(10 * MINUTE);
    expect(await stage.history()).toEqual(["10 waiting", "20 waiting"]);
    await stage.pass(5 * MINUTE);
    await until(() => record.occurrences.length === 3);
    expect(record.occurrences).toEqual([10, 10, 20]);
  });
});

it("S3: no more attempts than the limit run at once, and all runs end", async () => {
  let now = 0;
  let most = 0;
  const work = async () => {
    most = Math.max(most, ++now);
    await new Promise((resolve) => setTimeout(resolve, 2));
    now--;
  };
  const tasks = Object.fromEntries(Array.from({ length: 60 }, (_, id) => [`t${id}`, task(work)]));
  const stage = new TestScheduler({ concurrency: 4, tasks: () => tasks });
  await stage.start();
  await stage.pass(10 * MINUTE);
  await until(async () =>
    (await stage.in(({ scheduler }) => scheduler.list())).items.every(
      ({ counts }) => counts.completed === 1,
    ),
  );
  expect(most).toBe(4);
  expect(stage.now).toBe(MONDAY + 10 * MINUTE);
});
