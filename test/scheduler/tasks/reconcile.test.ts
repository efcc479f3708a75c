/** S4: declarations and rows; what is wrong with one, and which agents arm them. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { getAgentByName } from "agents";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { LAST_ALARM } from "../../../src/core/clock.ts";
import type { InvalidTaskError } from "../../../src/scheduler/errors.ts";
import {
  type ScheduledTask,
  type ScheduledTasks,
  Scheduler,
} from "../../../src/scheduler/index.ts";
import { refusal, until } from "../../support/given.ts";
import {
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
import { agentScopes, agentTasks, type SchedulerAgent } from "../scheduler-agent.ts";

/** What the code complains of in this test, which stays quiet. */
function complaints(kind: "error" | "warn") {
  const spy = vi.spyOn(console, kind).mockImplementation(() => {});
  onTestFinished(() => spy.mockRestore());
  return () => spy.mock.calls.map((args) => args.map(String).join(" "));
}

/** Timers of this length come at once; returns how many there were. */
function hastened(ms: number): () => number {
  const { setTimeout } = globalThis;
  let count = 0;
  const spy = vi.spyOn(globalThis, "setTimeout").mockImplementation(((
    work: () => void,
    after = 0,
  ) => {
    if (after === ms) count++;
    return setTimeout(work, after === ms ? 20 : after);
  }) as typeof setTimeout);
  onTestFinished(() => spy.mockRestore());
  return () => count;
}

const noop = () => {};

describe("an edit of a declaration", () => {
  it("S4: an edit of options other than the times writes nothing and moves nothing", async () => {
    const record = recorder();
    const stage = new TestScheduler({});
    await stage.declare({ t: task(noop) });
    await stage.pass(7 * MINUTE);
    await stage.in(({ meter }) => meter.reset());
    await stage.declare({
      t: task(record.note, {
        retry: { maxAttempts: 9 },
        metadata: { other: true },
        overlap: "allow",
        catchUp: "all",
        timeout: "1 minute",
        pauseOnFailure: true,
      }),
    });
    expect(await stage.in(({ meter }) => meter.rowsWrittenBy((q) => q.includes("perdure_")))).toBe(
      0,
    );
    await stage.pass(3 * MINUTE);
    expect(record.occurrences).toEqual([10]);
  });

  it("S4: an edit of the jitter writes no row, and applies to the next occurrence", async () => {
    const record = recorder();
    const stage = new TestScheduler({});
    await stage.declare({ t: task(record.note, { jitter: "9 minutes" }) });
    await stage.declare({ t: task(record.note) });
    expect(await stage.wakesIn()).toBe(10 * MINUTE);
    await stage.pass(10 * MINUTE);
    expect(record.occurrences).toEqual([10]);
  });

  it("S4: an edit of the times starts afresh, and keeps the history", async () => {
    const record = recorder();
    const stage = new TestScheduler({});
    await stage.declare({ t: task(record.note) });
    await stage.pass(10 * MINUTE);
    await stage.declare({ t: task(record.note, { schedule: "every 15 minutes" }) });
    await stage.pass(10 * MINUTE);
    await stage.pass(5 * MINUTE);
    expect(record.occurrences).toEqual([10, 25]);
    expect(await stage.history()).toEqual(["10 completed", "25 completed"]);
  });
});

describe("a task that a deploy omits", () => {
  const rows = (stage: TestScheduler) =>
    stage.in(
      (_, { storage: { sql } }) =>
        sql
          .exec("SELECT task_id FROM perdure_tasks UNION ALL SELECT task_id FROM perdure_runs")
          .toArray().length,
    );

  it("S3 S4: its open runs, history and trigger keys stay, and it continues after now when it is declared again", async () => {
    const record = recorder();
    const hold = Promise.withResolvers<void>();
    let isHeld = false;
    const t = task(
      async (context) => {
        record.note(context);
        if (isHeld) await hold.promise;
      },
      { overlap: "queue", catchUp: "all" },
    );
    const stage = new TestScheduler({});
    await stage.declare({ t });
    await stage.in(({ scheduler }) => scheduler.trigger("t", { key: "done" }));
    await stage.comes("completed");
    isHeld = true;
    await stage.in(({ scheduler }) => scheduler.trigger("t", { key: "running" }));
    await stage.in(({ scheduler }) => scheduler.trigger("t", { key: "waiting" }));
    await until(() => record.came.length === 2);
    await stage.crash();
    isHeld = false;
    stage.script.tasks = () => ({});
    await stage.pass(5 * MINUTE);
    stage.script.now = stage.now + 20 * MINUTE;
    await stage.declare({});
    await stage.crash();
    expect(record.came).toHaveLength(2);
    await stage.declare({ t });
    await until(() => record.came.length === 4);
    await stage.in(({ scheduler }) => scheduler.trigger("t", { key: "done" }));
    expect(record.came.map(({ occurrenceKey }) => occurrenceKey)).toEqual(
      ["done", "running", "running", "waiting"].map((key) => `t:trigger:${key}`),
    );
    expect(await stage.info("t")).toMatchObject({
      state: "active",
      next: MONDAY + 30 * MINUTE,
      counts: { completed: 3, missed: 0 },
    });
    await stage.pass(5 * MINUTE);
    expect(record.occurrences.at(-1)).toBe(30);
  });

  it("S3: an occurrence that was overdue when its task was omitted follows catchUp, and later ones do not run", async () => {
    for (const [catchUp, ran, missed] of [
      ["latest", [20], 1],
      ["all", [10, 20], 0],
      ["none", [], 2],
    ] as const) {
      const record = recorder();
      const t = task(record.note, { catchUp, overlap: "queue" });
      const stage = new TestScheduler({ tasks: () => ({ t }) });
      await stage.start();
      await stage.crash();
      stage.script.tasks = () => ({});
      await stage.pass(25 * MINUTE);
      stage.script.now = stage.now + 62 * MINUTE;
      await stage.declare({ t });
      await stage.wake();
      await until(() => record.came.length === ran.length);
      expect(record.occurrences).toEqual(ran);
      expect(await stage.info("t")).toMatchObject({
        next: MONDAY + 90 * MINUTE,
        counts: { missed },
      });
    }
  });

  it("S4: declared again with another schedule, it starts after now", async () => {
    const record = recorder();
    const stage = new TestScheduler({});
    await stage.declare({ t: task(record.note) });
    await stage.pass(7 * MINUTE);
    await stage.declare({});
    stage.script.now = stage.now + 30 * MINUTE;
    await stage.declare({ t: task(record.note, { schedule: "every 15 minutes" }) });
    expect(at((await stage.info()).next ?? 0)).toBe(52);
  });

  it("S1: its running attempt ends in its history, and nothing of it starts", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const stage = new TestScheduler({});
    await stage.declare({ t: task(() => promise) });
    await stage.pass(10 * MINUTE);
    await stage.declare({});
    await stage.inside(() => resolve());
    await until(async () => (await stage.history("t"))[0] === "10 completed");
    await stage.pass(10 * MINUTE);
    expect(await stage.history("t")).toEqual(["10 completed"]);
  });

  it("S4: it writes no row while it stays omitted, is not listed, and only its runs can be read", async () => {
    const stage = new TestScheduler({});
    await stage.declare({ t: task(noop) });
    await stage.pass(10 * MINUTE);
    await stage.declare({});
    const { written, listed, error } = await stage.in(async ({ scheduler, meter }) => {
      meter.reset();
      await scheduler.reconcile();
      await scheduler.reconcile();
      return {
        written: meter.rowsWrittenBy((query) => query.includes("perdure_")),
        listed: await scheduler.list(),
        error: await refusal(scheduler.resume("t")),
      };
    });
    expect({ written, listed }).toEqual({ written: 0, listed: { items: [] } });
    expect(error.name).toBe("UnknownTaskError");
    expect(await stage.history("t")).toEqual(["10 completed"]);
  });

  it("S4: with an open run it is looked for after an hour, and each day later, so that a deploy that declares it again is noticed", async () => {
    const record = recorder();
    const stage = new TestScheduler({});
    await stage.declare({ t: task(() => new Promise(() => {})) });
    await stage.in(({ scheduler }) => scheduler.trigger("t"));
    await stage.crash();
    await stage.declare({});
    // The wake for its occurrence is kept, and finds nothing.
    await stage.pass(10 * MINUTE);
    expect(await stage.wakesIn()).toBe(50 * MINUTE);
    await stage.pass(22 * HOUR);
    expect(await stage.wakesIn()).toBe(HOUR);
    await stage.pass(2 * HOUR);
    expect(await stage.wakesIn()).toBe(DAY);
    stage.script.tasks = () => ({ t: task(record.note) });
    await stage.pass(DAY);
    await until(() => record.came.length === 1);
    expect(record.came[0]).toMatchObject({ cause: "trigger", attempt: 2 });
  });

  it("S4: without an open run it holds no alarm", async () => {
    const stage = new TestScheduler({});
    await stage.declare({ t: task(noop), u: task(noop, { endAt: "2030-01-07T00:15:00Z" }) });
    await stage.pass(10 * MINUTE);
    await stage.declare({});
    await stage.wake();
    expect(await stage.wakesIn()).toBeNull();
  });

  it("S4: a pause stays, with its note", async () => {
    const stage = new TestScheduler({});
    await stage.declare({ t: task(noop) });
    await stage.pass(10 * MINUTE);
    await stage.in(({ scheduler }) => scheduler.pause("t", "a broken feed"));
    await stage.declare({});
    stage.script.now = stage.now + 364 * DAY;
    await stage.declare({ t: task(noop) });
    expect(await stage.info("t")).toMatchObject({
      state: "paused",
      paused: { by: "hand", note: "a broken feed", at: MONDAY + 10 * MINUTE },
      counts: { completed: 1 },
    });
    await stage.pass(60 * MINUTE);
    await stage.in(({ scheduler }) => scheduler.resume("t"));
    await stage.pass(10 * MINUTE);
    expect((await stage.info("t")).counts.completed).toBe(2);
  });

  it.each([
    ["without open runs as long as the history", 30, noop],
    ["with an open run for a year", 365, () => new Promise(() => {})],
  ])("S4: it is kept %s", async (_, days, handler) => {
    const warned = complaints("warn");
    const stage = new TestScheduler({});
    await stage.declare({ t: task(handler) });
    await stage.pass(10 * MINUTE);
    await stage.declare({});
    await stage.crash();
    stage.script.now = stage.now + days * DAY - 1;
    await stage.declare({});
    expect(await rows(stage)).toBe(2);
    stage.script.now = stage.now + 1;
    await stage.declare({});
    expect(await rows(stage)).toBe(0);
    expect(warned().filter((text) => text.includes("scheduler:dropped"))).toHaveLength(
      days === 365 ? 1 : 0,
    );
  });

  it("S4: of more than 1,000, those without open runs and pauses go first, the oldest first", async () => {
    const ids = Array.from({ length: 1_002 }, (_, index) => `t${index}`);
    const stage = new TestScheduler({});
    await stage.declare(Object.fromEntries(ids.map((id) => [id, task(noop)])));
    await stage.in(({ scheduler }) => scheduler.pause("t0"));
    await stage.declare(Object.fromEntries(ids.slice(2).map((id) => [id, task(noop)])));
    stage.script.now = stage.now + 1;
    await stage.declare({ t2: task(noop) });
    const kept = await stage.in((_, { storage: { sql } }) =>
      sql
        .exec<{ task_id: string }>("SELECT task_id FROM perdure_tasks WHERE omitted_at IS NOT NULL")
        .toArray(),
    );
    expect(kept).toHaveLength(1_000);
    expect(kept).toContainEqual({ task_id: "t0" });
    expect(kept).not.toContainEqual({ task_id: "t1" });
  });

  it("S4: the end of its prompt is stored, also after a crash", async () => {
    let status = "running";
    const turns = fakeTurns({
      accept: async () => ({ submissionId: "s" }),
      inspect: async () => ({ status }),
    });
    const stage = new TestScheduler({ turns });
    await stage.declare({ t: { schedule: "every 10 minutes", prompt: "report" } });
    await stage.pass(10 * MINUTE);
    await stage.declare({});
    status = "completed";
    await stage.crash();
    await until(async () => (await stage.history("t"))[0] === "10 completed");
  });

  it("S5: remove() deletes it with its runs and keys, and refuses a declared task", async () => {
    const stage = new TestScheduler({});
    await stage.declare({ t: task(() => new Promise(() => {})), u: task(noop) });
    await stage.in(({ scheduler }) => scheduler.trigger("t", { key: "k" }));
    const refused = await stage.in(({ scheduler }) => refusal(scheduler.remove("t")));
    expect(refused).toMatchObject({ name: "InvalidOptionError", option: "taskId" });
    expect(refused.message).toContain("getScheduledTasks()");
    await stage.declare({ u: task(noop) });
    expect(await rows(stage)).toBe(3);
    expect(await stage.in(({ scheduler }) => scheduler.remove("t"))).toBe(true);
    expect(await stage.in(({ scheduler }) => scheduler.remove("t"))).toBe(false);
    expect(await rows(stage)).toBe(1);
    await stage.declare({ t: task(noop), u: task(noop) });
    expect(await stage.runs("t")).toEqual([]);
    await stage.in(({ scheduler }) => scheduler.trigger("t", { key: "k" }));
    await stage.comes("completed");
  });
});

describe("one invalid task", () => {
  it("S4: an invalid task is listed with its error, the others are armed, and repaired it continues", async () => {
    const logged = complaints("error");
    const record = recorder();
    const stage = new TestScheduler({});
    await stage.declare({ good: task(record.note), bad: task(noop) });
    await stage.declare({ good: task(record.note), bad: task(noop, { schedule: "at dawn" }) });
    await stage.pass(10 * MINUTE);
    expect(record.occurrences).toEqual([10]);
    const info = await stage.info("bad");
    expect(info).toMatchObject({ state: "invalid", schedule: "at dawn", next: null });
    expect(info.error).toMatchObject({ name: "ScheduleSyntaxError" });
    expect(info.error?.message).toContain("at dawn");
    expect(logged().filter((text) => text.includes('"bad"'))).toHaveLength(1);
    const refused = await stage.in(({ scheduler }) => refusal(scheduler.trigger("bad")));
    expect(refused).toMatchObject({ name: "InvalidTaskError", taskId: "bad" });
    const bad = recorder();
    await stage.declare({ good: task(record.note), bad: task(bad.note) });
    await stage.wake();
    expect(bad.occurrences).toEqual([10]);
  });

  const wrong: [string, unknown, string][] = [
    ["no action", { schedule: "every 10 minutes" }, "neither a prompt nor a handler"],
    [
      "two actions",
      { schedule: "every 10 minutes", handler: noop, prompt: "p" },
      "a prompt and a handler",
    ],
    ["a prompt without a host", { schedule: "every 10 minutes", prompt: "p" }, "schedules()"],
    ["an invalid retry", task(noop, { retry: 3 as never }), "Invalid retry 3"],
    [
      "two zones",
      task(noop, { schedule: "every day at 09:00 in UTC", timezone: "Asia/Tokyo" }),
      "Asia/Tokyo",
    ],
    [
      "two offsets",
      task(noop, { schedule: "every day at 09:00 in +02:00", timezone: "+01:00" }),
      'Invalid timezone "+01:00": the schedule says "+02:00"',
    ],
    ["no zone", task(noop, { schedule: "every day at 09:00" }), "timezone"],
    ["an invalid date", task(noop, { timezone: "UTC", except: ["2030-02-30"] }), "2030-02-30"],
    ["dates without a zone", task(noop, { except: ["2030-02-03"] }), "zone"],
    ["a startAt on some wall", task(noop, { startAt: "2030-01-01T09:00" }), "2030-01-01T09:00"],
    [
      "an endAt before its startAt",
      task(noop, { startAt: "2030-01-02T00:00:00Z", endAt: "2030-01-01T00:00:00Z" }),
      "after startAt",
    ],
    ["an invalid overlap", task(noop, { overlap: "queued" as "queue" }), '"queued"'],
    ["an invalid catchUp", task(noop, { catchUp: "some" as "all" }), '"some"'],
    ["an invalid jitter", task(noop, { jitter: "soon" as "1 day" }), '"soon"'],
    ["a timeout beyond all timers", task(noop, { timeout: "30 days" }), "24 days"],
    ["nothing", undefined, "undefined"],
    [
      "L9: once after the last alarm",
      task(noop, { schedule: "once at 9998-01-01 09:00 in UTC" }),
      "before the year 2189",
    ],
    [
      "L9: a start after the last alarm",
      task(noop, { schedule: "every day at 09:00 in UTC starting 2200-01-01" }),
      "before the year 2189",
    ],
    [
      "L9: an interval that starts after the last alarm",
      task(noop, { schedule: "every 3 hours starting 2200-01-01 in UTC" }),
      "before the year 2189",
    ],
    [
      "L9: a startAt after the last alarm",
      task(noop, { startAt: "2189-01-01T00:00:00Z" }),
      "startAt",
    ],
    ["L9: a jitter of centuries", task(noop, { jitter: 1e15 }), "365 days"],
    ["L9: a delay of centuries", task(noop, { retry: { baseDelayMs: 1e15 } }), "365 days"],
  ];
  it.each(wrong)("%s", async (_, declared, says) => {
    complaints("error");
    const stage = new TestScheduler({
      tasks: () => ({ t: declared as ScheduledTask, ok: task(noop) }),
    });
    await stage.start();
    const info = await stage.info();
    expect(info.state).toBe("invalid");
    expect(info.error?.message).toContain(says);
    expect((await stage.info("ok")).state).toBe("active");
  });

  it("L9: an occurrence after the last possible alarm is armed for that alarm, and fails no call", async () => {
    const schedule = "once at 2188-12-31 23:30 in America/Los_Angeles";
    const stage = new TestScheduler({ tasks: () => ({ t: task(noop, { schedule }) }) });
    await stage.start();
    expect(await stage.info()).toMatchObject({ state: "active" });
    expect(await stage.inside((_, { storage }) => storage.getAlarm())).toBe(LAST_ALARM);
  });

  it("S4: a default zone that is invalid stops only the tasks that need one, each with its own error", async () => {
    complaints("error");
    const record = recorder();
    const reported: InvalidTaskError[] = [];
    const london = "Europe/London";
    const stage = new TestScheduler({
      defaultTimezone: () => "Mars/Phobos",
      onInvalid: (error) => void reported.push(error),
      tasks: () => ({
        interval: task(record.note),
        text: task(noop, { schedule: `every day at 09:00 in ${london}` }),
        option: task(noop, { schedule: "every day at 09:00", timezone: london }),
        dates: task(noop, { schedule: `every hour until 2040-01-01 in ${london}` }),
        excepted: task(noop, { except: ["2030-01-08"], timezone: london }),
        wall: task(noop, { schedule: "every day at 09:00" }),
        limited: task(noop, { schedule: "every hour until 2040-01-01" }),
        bare: task(noop, { except: ["2030-01-08"] }),
        wrong: task(noop, { schedule: "every dya at 09:00" }),
      }),
    });
    const { items: infos } = await stage.in(({ scheduler }) => scheduler.list());
    const active = infos.filter(({ state }) => state === "active").map(({ taskId }) => taskId);
    expect(active).toEqual(["dates", "excepted", "interval", "option", "text"]);
    const invalid = infos.filter(({ state }) => state === "invalid");
    expect(invalid.map(({ taskId, error }) => [taskId, error?.name])).toEqual([
      ["bare", "InvalidOptionError"],
      ["limited", "InvalidOptionError"],
      ["wall", "InvalidOptionError"],
      ["wrong", "ScheduleSyntaxError"],
    ]);
    expect(invalid[0]?.error?.message).toContain('Invalid defaultTimezone "Mars/Phobos"');
    await until(() => reported.length === 4);
    expect(reported.map(({ name, taskId }) => [name, taskId])).toEqual(
      ["wall", "limited", "bare", "wrong"].map((id) => ["InvalidTaskError", id]),
    );
    expect(reported[0]?.message).toContain('"wall"');
    await stage.pass(10 * MINUTE);
    expect(record.occurrences).toEqual([10]);
    await stage.in(({ scheduler }) => scheduler.reconcile());
    expect(reported).toHaveLength(4);
  });

  it.each(["a b", "", "é", "a".repeat(1_001)])(
    "S4: an invalid id is an error of its task: %#",
    async (id) => {
      complaints("error");
      const stage = new TestScheduler({ tasks: () => ({ [id]: task(noop), ok: task(noop) }) });
      await stage.start();
      expect((await stage.info(id)).error?.message).toContain("1 to 1000 letters, digits, _ and -");
      expect((await stage.info("ok")).state).toBe("active");
    },
  );

  it("S4: the error of a task has all of its problems", async () => {
    complaints("error");
    const reported: InvalidTaskError[] = [];
    const wrong = task(noop, {
      schedule: "every day at 25:00",
      overlap: "queued" as "queue",
      maxWaiting: 0,
      retry: { maxAttempts: 0, baseDelayMs: -1 },
    });
    const stage = new TestScheduler({
      tasks: () => ({ t: wrong }),
      onInvalid: (error) => void reported.push(error),
    });
    await stage.start();
    await until(() => reported.length > 0);
    const { error } = await stage.info();
    for (const message of [reported[0]?.message, error?.message]) {
      expect(message).toContain('"every day at 25:00"');
      expect(message).toContain('Invalid overlap "queued"');
      expect(message).toContain("Invalid maxWaiting 0");
      expect(message).toContain("Invalid retry.maxAttempts 0");
    }
    expect(reported[0]).toMatchObject({ name: "InvalidTaskError", taskId: "t" });
    expect(reported[0]?.cause).toBeInstanceOf(AggregateError);
  });

  it("S4: a task that cannot be fired is tried later, and the others fire", async () => {
    complaints("error");
    const record = recorder();
    const stage = new TestScheduler({ tasks: () => ({ a: task(noop), b: task(record.note) }) });
    await stage.start();
    await stage.in(({ meter }) => {
      meter.onWrite = (_, what) => {
        if (!what.includes("INTO perdure_runs")) return;
        meter.onWrite = undefined;
        throw new Error("disk full");
      };
    });
    await stage.pass(10 * MINUTE);
    expect(record.occurrences).toEqual([10]);
    expect(await stage.history("a")).toEqual([]);
    await stage.pass(30_000);
    expect(await stage.history("a")).toEqual(["10 completed"]);
  });
});

describe("declarations that Think accepts", () => {
  it.each<[string, ScheduledTask]>([
    [
      "an alias of the zone in the text",
      task(noop, { schedule: "every day at 09:00 in US/Pacific", timezone: "America/Los_Angeles" }),
    ],
    ["an offset as the zone", task(noop, { schedule: "every day at 09:00", timezone: "+02:00" })],
    ["an interval of three years", task(noop, { schedule: "every 26280 hours" })],
    ["an interval of a century", task(noop, { schedule: "every 52596000 minutes" })],
    ["fields of the app's own", task(noop, { owner: "sales", enabled: true } as object)],
    [
      "null for what is left out",
      task(noop, { timezone: null, metadata: null, retry: null } as object),
    ],
  ])("S4: %s is armed", async (_, declared) => {
    const logged = complaints("warn");
    const stage = new TestScheduler({ tasks: () => ({ t: declared }) });
    await stage.start();
    expect(await stage.info()).toMatchObject({ state: "active", next: expect.any(Number) });
    expect(logged()).toEqual([]);
  });

  it("S4: an id of 1,000 characters is armed, runs, and has a valid key", async () => {
    const id = "a".repeat(1_000);
    const record = recorder();
    const stage = new TestScheduler({ tasks: () => ({ [id]: task(record.note) }) });
    await stage.start();
    await stage.pass(10 * MINUTE);
    expect(record.came).toMatchObject([{ taskId: id, occurrenceKey: `${id}:${MONDAY + 600_000}` }]);
    expect(record.came[0]?.idempotencyKey).toMatch(/^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/);
    expect(await stage.history(id)).toEqual(["10 completed"]);
  });

  it("S4: an edit of a description writes nothing, and the description is listed", async () => {
    const stage = new TestScheduler({});
    await stage.declare({ t: task(noop, { description: "Writes the digest." }) });
    expect((await stage.info()).description).toBe("Writes the digest.");
    await stage.in(({ meter }) => meter.reset());
    await stage.declare({ t: task(noop, { description: "Sends the digest." }) });
    expect(await stage.in(({ meter }) => meter.read().rowsWritten)).toBe(0);
    expect((await stage.info()).description).toBe("Sends the digest.");
    expect((await stage.in(({ scheduler }) => scheduler.list())).items[0]?.description).toBe(
      "Sends the digest.",
    );
  });

  it("S4: a field that looks like a mistyped option is ignored, and logged once", async () => {
    const logged = complaints("warn");
    const mistyped = { catchup: "none", retry: { attempts: 1 }, owner: "sales" } as object;
    const stage = new TestScheduler({ tasks: () => ({ t: task(noop, mistyped) }) });
    await stage.start();
    await stage.in(({ scheduler }) => scheduler.reconcile());
    expect((await stage.info()).state).toBe("active");
    expect(logged()).toEqual([
      '[perdure] the scheduled task "t" has unknown options, which are ignored: "catchup" (did you mean "catchUp"?), "retry.attempts".',
    ]);
  });
});

describe("tasks() that throws", () => {
  it("S4: a tasks() that throws is reported and called again, and the tasks read before continue", async () => {
    const logged = complaints("error");
    const record = recorder();
    const stage = new TestScheduler({});
    await stage.declare({ t: task(record.note) });
    stage.script.tasks = () => {
      throw new Error("no database");
    };
    const error = await stage.in(({ scheduler }) => refusal(scheduler.reconcile()));
    expect(error.message).toBe("no database");
    expect(logged().some((text) => text.includes("no database"))).toBe(true);
    expect(await stage.wakesIn()).toBe(60_000);
    await stage.pass(10 * MINUTE);
    expect(record.occurrences).toEqual([10]);
    stage.script.tasks = () => ({ t: task(record.note), other: task(noop) });
    await stage.pass(MINUTE);
    expect((await stage.info("other")).state).toBe("active");
  });

  it("S4: a tasks() that throws at the start loses nothing, and due tasks fire later", async () => {
    complaints("error");
    const record = recorder();
    const stage = new TestScheduler({});
    await stage.declare({ t: task(record.note) });
    const { tasks } = stage.script;
    stage.script.tasks = () => Promise.reject(new Error("not yet"));
    await stage.crash();
    await stage.pass(10 * MINUTE);
    expect(record.occurrences).toEqual([]);
    stage.script.tasks = tasks;
    await stage.pass(MINUTE);
    expect(record.occurrences).toEqual([10]);
  });
});

describe("tasks() that never resolves", () => {
  it("L9: a tasks() that never resolves fails after 10 seconds, and the tasks read before continue", async () => {
    const logged = complaints("error");
    const waits = hastened(10_000);
    const record = recorder();
    const stage = new TestScheduler({});
    await stage.declare({ t: task(record.note) });
    const before = waits();
    const { tasks } = stage.script;
    stage.script.tasks = () => new Promise(() => {});
    const error = await stage.in(({ scheduler }) => refusal(scheduler.reconcile()));
    expect(error.name).toBe("TimeoutError");
    expect(error.message).toMatch(/^getScheduledTasks\(\) did not resolve within 10 seconds/);
    expect(waits()).toBe(before + 1);
    expect(logged().some((text) => text.includes("getScheduledTasks() did not resolve"))).toBe(
      true,
    );
    expect(await stage.wakesIn()).toBe(60_000);
    await stage.pass(10 * MINUTE);
    expect(record.occurrences).toEqual([10]);
    stage.script.tasks = async () => ({ ...(await tasks()), other: task(noop) });
    await stage.pass(MINUTE);
    expect((await stage.info("other")).state).toBe("active");
  });

  it("L9: a default zone that never resolves fails after 10 seconds", async () => {
    complaints("error");
    hastened(10_000);
    const stage = new TestScheduler({ defaultTimezone: () => new Promise(() => {}) });
    const error = await stage.in(({ scheduler }) => refusal(scheduler.reconcile()));
    expect(error.message).toMatch(/^getDefaultTimezone\(\) did not resolve within 10 seconds/);
  });
});

describe("a default zone that changes while the object runs", () => {
  const nine = { schedule: "every day at 09:00" };

  function givenZones(zones: { now: string | (() => never) }) {
    const record = recorder();
    let reads = 0;
    const stage = new TestScheduler({
      defaultTimezone: () => (typeof zones.now === "string" ? zones.now : zones.now()),
      tasks: () => {
        reads++;
        return { t: task(record.note, nine) };
      },
    });
    return { stage, record, reads: () => reads };
  }

  it("S4: it moves the next occurrence at the next verb, and an unchanged one reads and writes nothing", async () => {
    const zones = { now: "Asia/Tokyo" };
    const { stage, reads } = givenZones(zones);
    expect(at((await stage.info()).next ?? 0)).toBe(24 * 60);
    const before = reads();
    const written = await stage.in(async ({ scheduler, meter }) => {
      meter.reset();
      await scheduler.inspect("t");
      await scheduler.list();
      return meter.rowsWrittenBy((query) => query.includes("perdure_"));
    });
    expect([written, reads()]).toEqual([0, before]);
    zones.now = "America/New_York";
    expect(at((await stage.info()).next ?? 0)).toBe(14 * 60);
    expect((await stage.info()).timezone).toBe("America/New_York");
    expect(await stage.wakesIn()).toBe(14 * HOUR);
  });

  it("S3 S4: a wake reads it before it fires, and what is due runs once", async () => {
    const zones = { now: "UTC" };
    const { stage, record } = givenZones(zones);
    await stage.start();
    zones.now = "America/New_York";
    await stage.pass(9 * HOUR);
    await stage.pass(5 * HOUR);
    expect(record.occurrences).toEqual([9 * 60, 14 * 60]);
  });

  it("S4: if it cannot be read, the zone that was read before stays, and it is read again after a minute", async () => {
    const logged = complaints("error");
    const zones: { now: string | (() => never) } = { now: "Asia/Tokyo" };
    const { stage } = givenZones(zones);
    await stage.start();
    zones.now = () => {
      throw new Error("no database");
    };
    expect(at((await stage.info()).next ?? 0)).toBe(24 * 60);
    await stage.info();
    expect(logged().filter((text) => text.includes("no database"))).toHaveLength(1);
    expect(await stage.wakesIn()).toBe(MINUTE);
    zones.now = "America/New_York";
    await stage.pass(MINUTE);
    expect(at((await stage.info()).next ?? 0)).toBe(14 * 60);
  });

  it("S4: getDefaultTimezone() that waits for its own scheduler does not hold its verbs forever", async () => {
    complaints("error");
    let object: { readonly scheduler: Scheduler } | undefined;
    let isWaiting = false;
    const stage = new TestScheduler({
      born: (born) => {
        object = born;
      },
      defaultTimezone: async () => {
        if (isWaiting) await object?.scheduler.list();
        return "UTC";
      },
      tasks: () => ({ t: task(noop, nine) }),
    });
    await stage.start();
    const timeouts = hastened(10_000);
    isWaiting = true;
    expect((await stage.info()).state).toBe("active");
    expect(timeouts()).toBeGreaterThan(0);
    isWaiting = false;
  });
});

describe("the first reconcile", () => {
  it("S4: the first reconcile follows the host's own start", async () => {
    const found: ScheduledTasks = { t: task(noop) };
    let tasks: ScheduledTasks | undefined;
    const stage = new TestScheduler({
      started: async () => {
        await Promise.resolve();
        tasks = found;
      },
      tasks: () => tasks ?? Promise.reject(new Error("too early")),
    });
    await stage.inside(({ lifecycle }) => lifecycle.start());
    await until(async () => (await stage.wakesIn()) === 10 * MINUTE);
  });

  it("S4: a reconcile that the host calls replaces the first one", async () => {
    let asked = 0;
    const stage = new TestScheduler({
      started: ({ scheduler }) => scheduler.reconcile(),
      tasks: () => {
        asked++;
        return { t: task(noop) };
      },
    });
    await stage.inside(({ lifecycle }) => lifecycle.start());
    expect(await stage.wakesIn()).toBe(10 * MINUTE);
    await stage.start();
    expect(asked).toBe(1);
  });
});

describe("which agents arm their tasks", () => {
  const daily = { schedule: "every day at 09:00 in UTC", handler: noop };
  const agent = (name: string) => getAgentByName(env.SchedulerAgent, name);
  const inAgent = <T>(
    stub: DurableObjectStub<SchedulerAgent>,
    work: (object: SchedulerAgent) => Promise<T>,
  ) => runInDurableObject(stub, work);

  it("S4: the root alone arms tasks by default, and a sub-agent logs that once", async () => {
    const warned = complaints("warn");
    const [root, child] = [crypto.randomUUID(), crypto.randomUUID()];
    for (const name of [root, child]) agentTasks.set(name, () => ({ daily }));
    const stub = await agent(root);
    await inAgent(stub, async (object) => {
      expect(await object.armed()).toEqual(["daily"]);
      expect(await object.armedIn(child)).toEqual([]);
      expect(await object.armedIn(child)).toEqual([]);
    });
    const warnings = warned().filter((text) => text.includes("getScheduledTasksScope()"));
    expect(warnings).toHaveLength(1);
  });

  it('S4: with "all" each sub-agent runs its own tasks, woken through the root, with its own keys', async () => {
    const [root, child] = [crypto.randomUUID(), crypto.randomUUID()];
    for (const name of [root, child]) {
      agentTasks.set(name, () => ({ daily }));
      agentScopes.set(name, "all");
    }
    const stub = await agent(root);
    const keys = await inAgent(stub, async (object) => {
      expect(await object.armedIn(child)).toEqual(["daily"]);
      return [await object.triggered("daily"), await object.triggerIn(child, "daily")];
    });
    expect(new Set(keys).size).toBe(2);
    const jobs = await runInDurableObject(stub, (_, { storage }) =>
      storage.sql
        .exec<{ id: string }>(
          "SELECT id FROM cf_agents_jobs WHERE capability = 'perdure.scheduler'",
        )
        .toArray(),
    );
    expect(jobs).toHaveLength(2);
  });

  it(`S4: with "all" the root's alarm fires a sub-agent's tasks, until it is out of scope`, async () => {
    const [root, child] = [crypto.randomUUID(), crypto.randomUUID()];
    const came: number[] = [];
    const handler = ({ scheduledFor }: { scheduledFor: number }) => void came.push(scheduledFor);
    agentTasks.set(child, () => ({ often: { schedule: "cron * * * * * * in UTC", handler } }));
    agentScopes.set(child, "all");
    const stub = await agent(root);
    await inAgent(stub, (object) => object.armedIn(child));
    await until(() => came.length >= 2);
    expect(new Set(came).size).toBe(came.length);
    agentScopes.delete(child);
    complaints("warn");
    await inAgent(stub, (object) => object.reconcileIn(child));
    const count = came.length;
    await until(async () => {
      const alarm = await runInDurableObject(stub, (_, { storage }) => storage.getAlarm());
      return alarm === null;
    });
    expect(came.length).toBe(count);
  });
});

it("S4: invalid options are refused at construction", () => {
  const make = (options: object) => () => new Scheduler({ tasks: () => ({}), ...options });
  expect(make({ task: noop })).toThrow('Unknown option "task" in options of Scheduler');
  expect(make({ tasks: {} })).toThrow("Invalid tasks {}");
  expect(make({ scope: "all" })).toThrow('Invalid scope "all"');
  expect(make({ history: { count: 0 } })).toThrow("history.count");
  expect(make({ history: { age: "long" } })).toThrow("history.age");
  expect(make({ concurrency: 1.5 })).toThrow("concurrency");
  expect(make({ owner: "" })).toThrow("owner");
  expect(MONDAY % DAY).toBe(0);
});
