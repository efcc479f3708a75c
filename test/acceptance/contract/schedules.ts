/** S1 to S5: scheduled tasks, on the virtual clock. */

import { type VirtualClock, virtualClock } from "perdure/testing";
import { expect, it } from "vitest";
import { BOUND_MS, type GivenAgent, givenAgent, until } from "../app/given.ts";
import type { Host } from "../app/hosts.ts";
import { taskRuns } from "../app/receivers.ts";
import { defaultTimezones, deployedTasks, makeTasks, SCHEDULED } from "../app/tasks.ts";

export function schedulesContract(host: Host): void {
  /** An agent whose tasks are armed. */
  const given = async (): Promise<GivenAgent> => {
    const agent = givenAgent(host, `${SCHEDULED}${crypto.randomUUID()}`);
    await (await agent.capabilities()).schedules.list();
    return agent;
  };

  it("S1 S4: each occurrence fires once under its key, and a task that fails is armed again and stops no other", async () => {
    using clock = virtualClock({ patience: BOUND_MS });
    const agent = await given();
    const countKeys = (task: string) => new Set(taskRuns.get(`${agent.name} ${task}`)).size;
    for (const runs of [1, 2]) {
      await clock.advance("24 hours", agent.root);
      // No verb is called before both have run.
      await untilDone(clock, agent, () => countKeys("note") >= runs && countKeys("fails") >= runs);
      for (const [task, status] of [
        ["note", "completed"],
        ["fails", "failed"],
      ] as const)
        await untilDone(clock, agent, async () => {
          const { items } = await (await agent.capabilities()).schedules.runs(task);
          return items.length === runs && items.every((run) => run.status === status);
        });
      if (runs === 1) await agent.crash();
    }
    expect([countKeys("note"), countKeys("fails")]).toEqual([2, 2]);
    const { items } = await (await agent.capabilities()).schedules.list();
    for (const { next } of items) expect(next).toBeGreaterThan(clock.now());
  });

  it("S1 S5: a triggered task runs once for its key, and its prompt is a submission", async () => {
    const agent = await given();
    const { schedules } = await agent.capabilities();
    await schedules.trigger("note", { key: "k" });
    await schedules.trigger("note", { key: "k" });
    await schedules.trigger("ask", { key: "k" });
    const [asked] = await until(async () => {
      const found = await (await agent.verbs()).listSubmissions({ status: "completed" });
      return found.length > 0 && found;
    });
    expect(asked).toMatchObject({ output: "You said: Write the digest." });
    await until(() => taskRuns.count(`${agent.name} note`) > 0);
    await until(async () => (await schedules.runs("ask")).items[0]?.status === "completed");
    const { items } = await schedules.runs("note");
    expect(items).toMatchObject([{ status: "completed", attempts: 1, cause: "trigger" }]);
    expect(taskRuns.count(`${agent.name} note`)).toBe(1);
  });

  it("S5: the key of a trigger names its run behind 110 newer ones", async () => {
    const agent = await given();
    const { schedules } = await agent.capabilities();
    const { idempotencyKey } = await schedules.trigger("note", { key: "k" });
    await until(async () => (await schedules.runs("note")).items[0]?.status === "completed");
    for (let newer = 0; newer < 110; newer++) await schedules.trigger("note");
    expect(await schedules.trigger("note", { key: "k" })).toMatchObject({
      idempotencyKey,
      status: "completed",
    });
    const ran = taskRuns.get(`${agent.name} note`).filter((key) => key === idempotencyKey);
    expect(ran).toHaveLength(1);
  });

  it("S2: a daily task fires at the first instant after a gap, and once in a fold", async () => {
    using clock = virtualClock({ at: "2027-03-27T12:00:00Z", patience: BOUND_MS });
    const agent = await given();
    const { schedules } = await agent.capabilities();
    // On March 28, 2027, clocks in Paris go from 02:00 to 03:00, at 01:00 UTC.
    await clock.advance("24 hours", agent.root);
    await untilDone(
      clock,
      agent,
      async () => (await schedules.runs("note")).items[0]?.status === "completed",
    );
    const [inGap] = (await schedules.runs("note")).items;
    expect(new Date(inGap?.scheduledFor ?? 0).toISOString()).toBe("2027-03-28T01:00:00.000Z");
    // On October 31 they go from 03:00 to 02:00, at 01:00 UTC. Missed runs are caught up by the latest one.
    await clock.set("2027-10-30T12:00:00Z");
    await clock.advance("24 hours", agent.root);
    const inFold = await untilDone(clock, agent, async () => {
      const [last] = (await schedules.runs("note")).items;
      return last && last.scheduledFor > Date.parse("2027-10-31T00:00:00Z") && last;
    });
    expect(new Date(inFold.scheduledFor).toISOString()).toBe("2027-10-31T00:30:00.000Z");
    await clock.advance("1 hour", agent.root);
    expect((await schedules.runs("note")).items[0]?.scheduledFor).toBe(inFold.scheduledFor);
  });

  it("S3: of missed occurrences the latest runs, or none, as the task says", async () => {
    using clock = virtualClock({ patience: BOUND_MS });
    const agent = await given();
    const { schedules } = await agent.capabilities();
    await clock.advance("132 hours");
    await untilDone(
      clock,
      agent,
      async () => (await schedules.runs("note")).items[0]?.status === "completed",
    );
    expect((await schedules.runs("note")).items).toHaveLength(1);
    expect((await schedules.runs("note")).items[0]).toMatchObject({ cause: "catch-up" });
    expect(taskRuns.count(`${agent.name} missed`)).toBe(0);
  });

  it.each([
    ["latest", 1],
    ["none", 0],
  ] as const)(
    "S3 S4: an occurrence that is overdue when a deploy moves its task obeys catchUp: %s",
    async (catchUp, runs) => {
      using clock = virtualClock({ at: "2027-01-11T00:00:00Z", patience: BOUND_MS });
      const agent = await given();
      await clock.advance("12 hours");
      const { note, ...others } = makeTasks(agent.name);
      const schedule = "every day at 12:00 in Asia/Tokyo";
      deployedTasks.set(agent.name, { ...others, note: { ...note, schedule, catchUp } } as never);
      await agent.crash();
      await untilDone(clock, agent, () => taskRuns.count(`${agent.name} fails`) > 0);
      const { schedules } = await agent.capabilities();
      const { next } = (await schedules.inspect("note")) ?? {};
      expect(new Date(next ?? 0).toISOString()).toContain("T03:00:00.000Z");
      expect(taskRuns.count(`${agent.name} note`)).toBe(runs);
      expect((await schedules.inspect("note"))?.counts.missed).toBe(1 - runs);
    },
  );

  it("S1 S4: a task that a deploy omits keeps its accepted runs and its keys, and continues when it is declared again", async () => {
    const agent = await given();
    const effects = `${agent.name} omitted`;
    let isHeld = false;
    const omitted = {
      schedule: "every day at 02:30 in Europe/Paris",
      overlap: "queue",
      handler: async ({ idempotencyKey }: { idempotencyKey: string }) => {
        taskRuns.receive(effects, idempotencyKey);
        // Until the crash.
        if (isHeld) await new Promise(() => {});
      },
    };
    const deploy = async (tasks: object) => {
      deployedTasks.set(agent.name, tasks as never);
      await agent.crash();
      return (await agent.capabilities()).schedules;
    };
    const before = await deploy({ omitted });
    await before.trigger("omitted", { key: "done" });
    await until(async () => (await before.runs("omitted")).items[0]?.status === "completed");
    isHeld = true;
    await before.trigger("omitted", { key: "running" });
    await before.trigger("omitted", { key: "waiting" });
    await until(() => taskRuns.count(effects) === 2);
    isHeld = false;
    const without = await deploy({});
    expect((await without.list()).items).toEqual([]);
    expect((await without.runs("omitted")).items).toHaveLength(3);
    const after = await deploy({ omitted });
    await until(async () =>
      (await after.runs("omitted")).items.every(({ status }) => status === "completed"),
    );
    await after.trigger("omitted", { key: "done" });
    const { items } = await after.runs("omitted");
    expect(items).toHaveLength(3);
    // The running one was tried again.
    expect(taskRuns.count(effects)).toBe(4);
    expect(new Set(taskRuns.get(effects))).toEqual(new Set(items.map((run) => run.idempotencyKey)));
    await deploy({});
    const last = (await agent.capabilities()).schedules;
    expect(await last.remove("omitted")).toBe(true);
    expect(await last.remove("omitted")).toBe(false);
  });

  it.runIf(host.entry !== "perdure/object")(
    "S4: a changed getDefaultTimezone() moves the next occurrence without a restart",
    async () => {
      using clock = virtualClock({ at: "2027-01-11T00:00:00Z", patience: BOUND_MS });
      const agent = await given();
      const { note } = makeTasks(agent.name);
      defaultTimezones.set(agent.name, "Asia/Tokyo");
      deployedTasks.set(agent.name, {
        note: { ...note, schedule: "every day at 12:00" },
      } as never);
      await agent.crash();
      const { schedules } = await agent.capabilities();
      const next = async () => new Date((await schedules.inspect("note"))?.next ?? 0).toISOString();
      expect(await next()).toBe("2027-01-11T03:00:00.000Z");
      defaultTimezones.set(agent.name, "America/New_York");
      expect(await next()).toBe("2027-01-11T17:00:00.000Z");
      await clock.advance("18 hours", agent.root);
      await untilDone(clock, agent, () => taskRuns.count(`${agent.name} note`) === 1);
      // A wake reads it, too.
      defaultTimezones.set(agent.name, "Asia/Tokyo");
      await clock.advance("24 hours", agent.root);
      await untilDone(clock, agent, () => taskRuns.count(`${agent.name} note`) === 2);
      expect(await next()).toBe("2027-01-13T03:00:00.000Z");
    },
  );

  it("S4: an invalid task of a deploy is a problem of that task only", async () => {
    using clock = virtualClock({ patience: BOUND_MS });
    const agent = await given();
    const { note, ...others } = makeTasks(agent.name);
    const invalid = { ...note, schedule: "every day at 25:00 in Europe/Paris" };
    deployedTasks.set(agent.name, { ...others, note: invalid } as never);
    await agent.crash();
    const { schedules } = await agent.capabilities();
    const { items } = await schedules.list();
    expect(items.find(({ taskId }) => taskId === "note")).toMatchObject({
      state: "invalid",
      error: { message: expect.stringContaining("25:00") },
    });
    expect(items.find(({ taskId }) => taskId === "fails")).toMatchObject({ state: "active" });
    await clock.advance("24 hours", agent.root);
    await untilDone(clock, agent, () => taskRuns.count(`${agent.name} fails`) > 0);
  });

  it("S5: a pause, a skip and a backfill survive a crash", async () => {
    using clock = virtualClock({ patience: BOUND_MS });
    const agent = await given();
    const key = `${agent.name} note`;
    const before = (await agent.capabilities()).schedules;
    await before.pause("note", "on holiday");
    await before.skipNext("ask");
    await agent.crash();
    const { schedules } = await agent.capabilities();
    expect(await schedules.inspect("note")).toMatchObject({ state: "paused" });
    const from = clock.now();
    await clock.advance("24 hours", agent.root);
    await untilDone(clock, agent, () => taskRuns.count(`${agent.name} fails`) > 0);
    expect(taskRuns.count(key)).toBe(0);
    expect(await (await agent.verbs()).listSubmissions()).toEqual([]);
    await schedules.resume("note");
    await schedules.backfill("note", { from, to: clock.now() });
    await untilDone(clock, agent, () => taskRuns.count(key) === 1);
    expect((await schedules.runs("note")).items[0]).toMatchObject({ cause: "backfill" });
  });
}

/** Waits while the virtual clock goes on: alarms run by it only. */
function untilDone<Value>(
  clock: VirtualClock,
  agent: GivenAgent,
  probe: () => Value | Promise<Value>,
): ReturnType<typeof until<Value>> {
  return until(
    async () => {
      await clock.advance("1 second", agent.root);
      return probe();
    },
    () => String(probe),
  );
}
