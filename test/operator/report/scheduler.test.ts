/** What the report finds wrong with scheduled tasks, and with the alarm. */

import { describe, expect, it } from "vitest";
import { until } from "../../support/given.ts";
import { submit } from "../../support/think.ts";
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

describe("findings of scheduled tasks", () => {
  it("task-paused: a task that was paused by hand is an information, and resuming it fixes it", async () => {
    const agent = givenAgent({}, () => ({ digest: { schedule: YEARLY, handler: () => {} } }));
    expect(codesIn(await reportOf(agent))).toEqual([]);
    await agent.pauseScheduledTask("digest", "holidays");
    const finding = await found(agent, "task-paused");
    expect(finding.severity).toBe("info");
    expect(finding.title).toMatch(/^The task "digest" is paused since .* UTC by hand: holidays\.$/);
    const report = await reportOf(agent);
    expect(report.verdicts.onTime).toBe(true);
    expect(report.counts.tasks).toMatchObject({ active: 0, paused: 1 });
    await apply(agent, finding.fix.action);
    await gone(agent, "task-paused");
  });

  it("task-paused: a task that its failures have paused is an error with the failure", async () => {
    const fail = () => {
      throw new Error("no database");
    };
    const retry = { maxAttempts: 1 };
    const agent = givenAgent({}, () => ({
      digest: { schedule: YEARLY, handler: fail, pauseOnFailure: true, retry },
    }));
    await agent.triggerScheduledTask("digest");
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
    await agent.triggerScheduledTask("digest");
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
    await agent.triggerScheduledTask("digest");
    await agent.triggerScheduledTask("digest");
    const finding = await found(agent, "task-late", { later: 3 * MINUTE });
    expect(finding.cause).toContain("earlier run");
    end.resolve();
    await gone(agent, "task-late", { later: 3 * MINUTE });
  });

  it("task-missed: occurrences that the agent has slept through are found, and a backfill fixes it", async () => {
    const handler = () => {};
    const agent = givenAgent({}, () => ({ digest: { schedule: HOURLY, handler } }));
    await agent.listScheduledTasks();
    // The object was away for five hours, and comes back.
    const change = "UPDATE perdure_tasks SET anchor = anchor - ?1, next_at = next_at - ?1";
    await inside(agent, async (_, { storage }) => {
      storage.sql.exec(change, 5 * HOUR + 10 * MINUTE);
      await storage.sync();
    });
    const awake = await crashed(agent);
    await until(async () => (await awake.listScheduledRuns("digest")).length > 0);
    const finding = await found(awake, "task-missed");
    expect(finding.evidence.count).toBe(4);
    await apply(awake, finding.fix.action);
    await gone(awake, "task-missed");
  });

  it("task-never-runs: a task whose schedule has no occurrence left is found", async () => {
    const agent = givenAgent({}, () => ({
      digest: { schedule: YEARLY, endAt: "2020-01-01T00:00:00Z", handler: () => {} },
    }));
    const finding = await found(agent, "task-never-runs");
    expect(finding.evidence.ids).toEqual(["digest"]);
    expect((await reportOf(agent)).counts.tasks.finished).toBe(1);
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
