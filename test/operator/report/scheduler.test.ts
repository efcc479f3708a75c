/** What the report finds wrong with scheduled tasks, and with the alarm. */

import { describe, expect, it } from "vitest";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { until } from "../../support/given.ts";
import { type Agent, again, submit } from "../../support/think.ts";
import {
  apply,
  codesIn,
  crashed,
  found,
  givenAgent,
  gone,
  HOUR,
  inside,
  MINUTE,
  reportOf,
} from "./support.ts";

const YEARLY = "every year on january 1 at 00:00";
const HOURLY = "every hour";

/** The object was away for that long, and crashes. */
async function moveBack(agent: Agent, time: number): Promise<void> {
  const change = "UPDATE perdure_tasks SET anchor = anchor - ?1, next_at = next_at - ?1";
  await inside(agent, async (_, { storage }) => {
    storage.sql.exec(change, time);
    await storage.sync();
  });
  await crashed(agent);
}

describe("findings of scheduled tasks", () => {
  it("task-paused: a task that was paused by hand is an information, and resuming it fixes it", async () => {
    const agent = givenAgent({}, () => ({ digest: { schedule: YEARLY, handler: () => {} } }));
    expect(codesIn(await reportOf(agent))).toEqual([]);
    await capabilitiesOf(agent).schedules.pause("digest", "holidays");
    const finding = await found(agent, "task-paused");
    expect(finding.severity).toBe("info");
    expect(finding.title).toMatch(/^The task "digest" is paused since .* UTC by hand: holidays\.$/);
    const report = await reportOf(agent);
    expect(report.verdicts.onTime).toBe(true);
    expect(report.counts.tasks).toMatchObject({ active: 0, paused: 1 });
    await apply(agent, finding.fix.action);
    await gone(agent, "task-paused");
  });

  it("task-paused: a pause of more than a week is a warning, and resuming it fixes it", async () => {
    const agent = givenAgent({}, () => ({ digest: { schedule: YEARLY, handler: () => {} } }));
    await capabilitiesOf(agent).schedules.pause("digest");
    const severityAfter = async (days: number) =>
      (await found(agent, "task-paused", { later: days * 24 * HOUR })).severity;
    expect([await severityAfter(6.9), await severityAfter(7.1)]).toEqual(["info", "warning"]);
    const finding = await found(agent, "task-paused", { later: 8 * 24 * HOUR });
    expect(finding.fix.text).toContain("remove it from getScheduledTasks()");
    await apply(agent, finding.fix.action);
    await gone(agent, "task-paused", { later: 8 * 24 * HOUR });
  });

  it("task-omitted: open runs of a task that a deploy omits are an error, which its declaration or its removal ends", async () => {
    let isHeld = true;
    const digest = {
      schedule: YEARLY,
      handler: () => isHeld && new Promise<void>(() => {}),
    };
    let tasks: Record<string, typeof digest> = { digest };
    const agent = givenAgent({}, () => tasks);
    await capabilitiesOf(agent).schedules.trigger("digest");
    tasks = {};
    await crashed(agent);
    const finding = await found(again(agent), "task-omitted");
    expect(finding).toMatchObject({
      about: "digest",
      severity: "error",
      evidence: { count: 1, ids: ["digest"] },
    });
    expect(finding.title).toMatch(
      /^The task "digest" is not declared since .* UTC, and 1 accepted run waits\.$/,
    );
    expect((await reportOf(again(agent))).verdicts.onTime).toBe(false);
    tasks = { digest };
    await crashed(again(agent));
    await gone(again(agent), "task-omitted");
    tasks = {};
    await crashed(again(agent));
    await apply(again(agent), (await found(again(agent), "task-omitted")).fix.action);
    expect(codesIn(await reportOf(again(agent)))).toEqual([]);
    isHeld = false;
  });

  it("task-omitted: tasks without open runs are one information, and finished ones are none", async () => {
    const recurring = { schedule: YEARLY, handler: () => {} };
    const over = { ...recurring, endAt: "2020-01-01T00:00:00Z" };
    let tasks: Record<string, typeof recurring> = { a: recurring, b: recurring, over };
    const agent = givenAgent({}, () => tasks);
    await capabilitiesOf(agent).schedules.list();
    tasks = {};
    await crashed(agent);
    const finding = await found(again(agent), "task-omitted");
    expect(finding).toMatchObject({ severity: "info", evidence: { count: 2, ids: ["a", "b"] } });
    expect(finding.title).toMatch(
      /^2 tasks are no longer declared, the first since .* UTC: "a", "b"\.$/,
    );
    const report = await reportOf(again(agent));
    expect(codesIn(report)).toEqual(["task-omitted"]);
    expect(report.verdicts.onTime).toBe(true);
  });

  it("task-paused: a task that its failures have paused is an error with the failure", async () => {
    const fail = () => {
      throw new Error("no database");
    };
    const retry = { maxAttempts: 1 };
    const agent = givenAgent({}, () => ({
      digest: { schedule: YEARLY, handler: fail, pauseOnFailure: true, retry },
    }));
    await capabilitiesOf(agent).schedules.trigger("digest");
    const finding = await found(agent, "task-paused");
    expect(finding).toMatchObject({
      severity: "error",
      evidence: { count: 1, ids: ["digest"], lastError: "no database" },
    });
    const report = await reportOf(agent);
    expect(codesIn(report)).toEqual(["task-paused"]);
    expect(report.verdicts.onTime).toBe(false);
    await apply(agent, finding.fix.action);
    await gone(agent, "task-paused");
  });

  it("task-invalid: an invalid schedule is found with what is wrong with it", async () => {
    const agent = givenAgent({}, () => ({
      digest: { schedule: "every day at 25:00", handler: () => {} },
    }));
    const finding = await found(agent, "task-invalid");
    expect(finding.evidence.lastError).toContain("25:00");
    expect((await reportOf(agent)).counts.tasks.invalid).toBe(1);
  });

  it("task-failing: a task whose latest run failed is found, and a run that succeeds fixes it", async () => {
    let isBroken = true;
    const handler = () => {
      if (isBroken) throw new Error("no database");
    };
    const agent = givenAgent({}, () => ({
      digest: { schedule: YEARLY, handler, retry: { maxAttempts: 1 } },
    }));
    await capabilitiesOf(agent).schedules.trigger("digest");
    const finding = await found(agent, "task-failing");
    expect(finding).toMatchObject({ severity: "warning", evidence: { lastError: "no database" } });
    isBroken = false;
    await apply(agent, finding.fix.action);
    await gone(agent, "task-failing");
  });

  it("task-late: a task that is due and does not start is found", async () => {
    const agent = givenAgent({}, () => ({ digest: { schedule: HOURLY, handler: () => {} } }));
    expect(codesIn(await reportOf(agent))).toEqual([]);
    const finding = await found(agent, "task-late", { later: HOUR + 3 * MINUTE });
    expect(finding.title).toMatch(/^The task "digest" is due since \d\d:\d\d UTC and has not/);
    expect(finding.fix.action).toEqual({ do: "trigger-task", taskId: "digest" });
  });

  it("task-late: a run that waits for an earlier one is found as such", async () => {
    const end = Promise.withResolvers<void>();
    const agent = givenAgent({}, () => ({
      digest: { schedule: YEARLY, handler: () => end.promise, overlap: "queue" },
    }));
    await capabilitiesOf(agent).schedules.trigger("digest");
    await capabilitiesOf(agent).schedules.trigger("digest");
    const finding = await found(agent, "task-late", { later: 3 * MINUTE });
    expect(finding.cause).toContain("earlier run");
    end.resolve();
    await gone(agent, "task-late", { later: 3 * MINUTE });
  });

  it("task-missed: occurrences that the agent has slept through are found, and a backfill fixes it", async () => {
    const handler = () => {};
    const agent = givenAgent({}, () => ({ digest: { schedule: HOURLY, handler } }));
    await capabilitiesOf(agent).schedules.list();
    // The object was away for five hours, and comes back.
    const change = "UPDATE perdure_tasks SET anchor = anchor - ?1, next_at = next_at - ?1";
    await inside(agent, async (_, { storage }) => {
      storage.sql.exec(change, 5 * HOUR + 10 * MINUTE);
      await storage.sync();
    });
    const awake = await crashed(agent);
    await until(
      async () => (await capabilitiesOf(awake).schedules.runs("digest")).items.length > 0,
    );
    const finding = await found(awake, "task-missed");
    expect(finding.evidence.count).toBe(4);
    await apply(awake, finding.fix.action);
    await gone(awake, "task-missed");
  });

  it("task-skips: a task that skips more runs than it completes is found, until it completes more", async () => {
    const end = Promise.withResolvers<void>();
    const agent = givenAgent({}, () => ({
      digest: {
        schedule: HOURLY,
        catchUp: "all",
        retry: { maxAttempts: 9 },
        handler: () => end.promise,
      },
    }));
    await capabilitiesOf(agent).schedules.trigger("digest");
    await moveBack(agent, 3.5 * HOUR);
    const awake = again(agent);
    await until(
      async () => (await capabilitiesOf(awake).schedules.runs("digest")).items.length === 4,
    );
    expect(codesIn(await reportOf(awake))).toEqual([]);
    await moveBack(awake, 3.25 * HOUR);
    const later = again(agent);
    const finding = await found(later, "task-skips");
    expect(finding).toMatchObject({ severity: "warning", evidence: { count: 6, ids: ["digest"] } });
    expect(finding.title).toMatch(/skipped 6 of its latest 7 runs since .* and completed 0\.$/);
    end.resolve();
    await until(
      async () =>
        (await capabilitiesOf(later).schedules.runs("digest")).items[0]?.status === "completed",
    );
    for (let run = 0; run < 5; run++) await capabilitiesOf(later).schedules.trigger("digest");
    await gone(later, "task-skips");
    await capabilitiesOf(later).schedules.skipNext("digest");
    expect(codesIn(await reportOf(later))).toEqual([]);
  });

  it("task-never-runs: a task whose schedule has no occurrence left is found", async () => {
    const agent = givenAgent({}, () => ({
      digest: { schedule: YEARLY, endAt: "2020-01-01T00:00:00Z", handler: () => {} },
    }));
    const finding = await found(agent, "task-never-runs");
    expect(finding.evidence.ids).toEqual(["digest"]);
    expect((await reportOf(agent)).counts.tasks.finished).toBe(1);
  });

  it("task-never-runs: a task that has run, and whose new schedule never comes, is found with its zone", async () => {
    let schedule = HOURLY;
    const agent = givenAgent({}, () => ({ digest: { schedule, handler: () => {} } }));
    await capabilitiesOf(agent).schedules.list();
    await moveBack(agent, HOUR);
    const awake = again(agent);
    await until(
      async () =>
        (await capabilitiesOf(awake).schedules.runs("digest")).items[0]?.status === "completed",
    );
    expect(codesIn(await reportOf(awake))).toEqual([]);
    schedule = "cron 0 9 30 2 *";
    const finding = await found(await crashed(awake), "task-never-runs");
    expect(finding).toMatchObject({ severity: "warning", evidence: { ids: ["digest"] } });
    expect(finding.cause).toContain("in Europe/London");
  });

  it("task-never-runs: a task that has run until its end is an information, and one with a single date is none", async () => {
    const past = new Date(Date.now() - HOUR).toISOString();
    const agent = givenAgent({}, () => ({
      ended: { schedule: HOURLY, endAt: past, handler: () => {} },
      once: { schedule: `once at ${past.slice(0, 16)} in UTC`, handler: () => {} },
    }));
    await capabilitiesOf(agent).schedules.list();
    // As if they were declared earlier, and had fired since.
    const change = "UPDATE perdure_tasks SET fired = 1, anchor = anchor - ?";
    await inside(agent, async (_, { storage }) => {
      storage.sql.exec(change, 3 * HOUR);
      await storage.sync();
    });
    const report = await reportOf(await crashed(agent));
    expect(report.findings).toMatchObject([
      { code: "task-never-runs", severity: "info", evidence: { ids: ["ended"] } },
    ]);
  });
});

describe("findings of the alarm", () => {
  it("work-without-alarm: scheduled work whose alarm the platform has dropped is found", async () => {
    const agent = givenAgent();
    await submit(agent, "later", { notBefore: Date.now() + HOUR });
    expect(codesIn(await reportOf(agent))).toEqual([]);
    await inside(agent, (_, { storage }) => storage.deleteAlarm());
    const finding = await found(agent, "work-without-alarm");
    expect(finding.title).toContain("no alarm is set");
    expect((await reportOf(agent)).verdicts.onTime).toBe(false);
    await gone(await crashed(agent), "work-without-alarm");
  });

  it("alarm-without-work: an alarm for work that was cancelled since is found, until it has fired", async () => {
    const agent = givenAgent();
    await submit(agent, "later", { notBefore: Date.now() + HOUR });
    await inside(agent, async (_, { storage }) => {
      // As by a version that did not clear it.
      storage.sql.exec("DELETE FROM perdure_submissions");
      await storage.sync();
    });
    const finding = await found(agent, "alarm-without-work");
    expect(finding.severity).toBe("info");
    expect((await reportOf(agent)).verdicts.onTime).not.toBe(false);
    expect(codesIn(await reportOf(agent, { later: HOUR }))).not.toContain("alarm-without-work");
  });
});
