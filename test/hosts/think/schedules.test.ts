/** Scheduled tasks as DurableThink has them: declared and documented as Think's are. */

import { runInDurableObject } from "cloudflare:test";
import { Think } from "@cloudflare/think";
import fc from "fast-check";
import { describe, expect, expectTypeOf, it, onTestFinished, vi } from "vitest";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { DurableThink, defineScheduledTasks } from "../../../src/hosts/think/index.ts";
import { CAPABILITIES } from "../../../src/hosts/verbs.ts";
import type { ScheduledTaskContext } from "../../../src/scheduler/index.ts";
import { ask, modelCalls } from "../../../src/testing/index.ts";
import { givenThink, until } from "../../support/given.ts";
import { hold } from "../../support/held-model.ts";
import { wakeNow } from "../../support/think.ts";
import { type Declared, declared, ThinkAgent } from "../../support/think-agent.ts";

/** Every second, to see it within the test. */
const EACH_SECOND = "cron * * * * * *";
/** So far off that it runs by hand only. */
const YEARLY = "every year on january 1 at 00:00";

function givenTasks(tasks: Declared["tasks"], rest: Omit<Declared, "tasks"> = {}) {
  const name = `scheduled-${crypto.randomUUID()}`;
  declared.set(name, { tasks, ...rest });
  return () => givenThink(name);
}

function crash(stub: DurableObjectStub<ThinkAgent>): Promise<void> {
  return runInDurableObject(stub, (_, ctx) => ctx.abort("crash")).catch(() => {});
}

/** What Think itself has armed. */
function armedByThink(stub: DurableObjectStub<ThinkAgent>): Promise<unknown[]> {
  return runInDurableObject(stub, (agent) => agent.listSchedules());
}

describe("a prompt task", () => {
  it("S1: a prompt task becomes a submission under the occurrence's key, with Think's metadata", async () => {
    const prompt = ask({ text: `digest ${crypto.randomUUID()}` });
    const agent = givenTasks(() =>
      defineScheduledTasks({
        digest: {
          schedule: YEARLY,
          prompt,
          metadata: { team: "sales" },
          retry: { maxAttempts: Number.POSITIVE_INFINITY },
        },
      }),
    );
    const run = await capabilitiesOf(agent()).schedules.trigger("digest", { key: "once" });
    const again = await capabilitiesOf(agent()).schedules.trigger("digest", { key: "once" });
    expect(again.idempotencyKey).toBe(run.idempotencyKey);
    const ended = await until(async () => {
      const {
        items: [latest],
      } = await capabilitiesOf(agent()).schedules.runs("digest");
      return latest?.status === "completed" && latest;
    });
    const [submission, ...others] = await agent().listSubmissions();
    expect(others).toEqual([]);
    expect(submission).toMatchObject({
      submissionId: ended.submissionId,
      idempotencyKey: run.idempotencyKey,
      status: "completed",
      metadata: {
        team: "sales",
        source: "scheduled-task",
        taskId: "digest",
        ownerKey: expect.any(String),
        scheduledFor: run.scheduledFor,
        schedule: YEARLY,
      },
    });
    expect(await agent().texts()).toContain(`user: ${prompt}`);
    expect(modelCalls.get(prompt)).toBe(1);
  });

  it("S1: a prompt task runs once for each occurrence", async () => {
    const agent = givenTasks(() =>
      defineScheduledTasks({
        tick: { schedule: EACH_SECOND, prompt: () => ask({ text: "tick" }), overlap: "allow" },
      }),
    );
    await capabilitiesOf(agent()).schedules.list();
    await until(async () => (await agent().listSubmissions()).length >= 3);
    await capabilitiesOf(agent()).schedules.pause("tick", "seen enough");
    const submissions = await agent().listSubmissions();
    const { items: runs } = await capabilitiesOf(agent()).schedules.runs("tick");
    const keys = new Set(submissions.map(({ idempotencyKey }) => idempotencyKey));
    expect(keys.size).toBe(submissions.length);
    expect(runs.map(({ idempotencyKey }) => idempotencyKey)).toEqual(
      expect.arrayContaining([...keys]),
    );
    const times = runs.map(({ scheduledFor }) => scheduledFor);
    expect(times.every((time) => time % 1_000 === 0)).toBe(true);
    expect(await capabilitiesOf(agent()).schedules.inspect("tick")).toMatchObject({
      state: "paused",
      paused: { by: "hand", note: "seen enough" },
      next: null,
    });
  });

  it("S3: an occurrence is skipped while the turn of the previous one runs, also after a crash", async () => {
    const { script, release } = hold();
    const prompt = ask(script);
    const agent = givenTasks(() =>
      defineScheduledTasks({ slow: { schedule: YEARLY, prompt, overlap: "skip" } }),
    );
    await capabilitiesOf(agent()).schedules.trigger("slow", { key: "first" });
    await until(() => modelCalls.get(prompt));
    expect(
      (await capabilitiesOf(agent()).schedules.trigger("slow", { key: "second" })).status,
    ).toBe("skipped");
    await crash(agent());
    expect((await capabilitiesOf(agent()).schedules.trigger("slow", { key: "third" })).status).toBe(
      "skipped",
    );
    release();
    const runs = await until(async () => {
      const { items: all } = await capabilitiesOf(agent()).schedules.runs("slow");
      return all.some(({ status }) => status === "completed") && all;
    });
    expect(runs.map(({ status }) => status).sort()).toEqual(["completed", "skipped", "skipped"]);
    expect(await agent().listSubmissions()).toHaveLength(1);
  });

  it("S3: with overlap: cancel, the next occurrence cancels the run and its turn", async () => {
    const prompt = ask({ delayMs: 600_000, text: `endless ${crypto.randomUUID()}` });
    const agent = givenTasks(() =>
      defineScheduledTasks({ endless: { schedule: YEARLY, prompt, overlap: "cancelPrevious" } }),
    );
    await capabilitiesOf(agent()).schedules.trigger("endless", { key: "first" });
    await until(() => modelCalls.get(prompt));
    await capabilitiesOf(agent()).schedules.trigger("endless", { key: "second" });
    const statuses = await until(async () => {
      const all = (await agent().listSubmissions()).map(({ status }) => status).sort();
      return all.includes("aborted") && all;
    });
    expect(statuses).toHaveLength(2);
    await runInDurableObject(agent(), async (own) => {
      for (const { submissionId } of await own.listSubmissions()) {
        await own.cancelSubmission(submissionId);
      }
    });
  });
});

describe("a handler task", () => {
  it("S1: a handler gets Think's context, and a key that is a valid Workflow instance id", async () => {
    const came: ScheduledTaskContext[] = [];
    const agent = givenTasks(() =>
      defineScheduledTasks({
        customerDigest: {
          schedule: "every day at 09:00",
          timezone: "America/New_York",
          metadata: { workflowName: "customer-digest" },
          retry: { maxAttempts: 3 },
          handler: (context) => {
            came.push(context);
            if (came.length === 1) throw new Error("once more");
          },
        },
      }),
    );
    const { next } = (await capabilitiesOf(agent()).schedules.inspect("customerDigest")) ?? {};
    const to = new Date();
    const from = new Date(to.getTime() - 86_400_000);
    expect(
      await capabilitiesOf(agent()).schedules.backfill("customerDigest", { from, to }),
    ).toMatchObject({
      queued: 1,
    });
    await until(() => came.length === 2);
    const [first, second] = came;
    expect(second).toMatchObject({
      taskId: "customerDigest",
      scheduledForDate: new Date(first?.scheduledFor ?? 0),
      occurrenceKey: `customerDigest:${first?.scheduledFor}`,
      idempotencyKey: first?.idempotencyKey,
      schedule: "every day at 09:00",
      scheduleKind: "wall-clock",
      timezone: "America/New_York",
      metadata: { workflowName: "customer-digest" },
      attempt: 2,
      cause: "backfill",
    });
    expect(first?.idempotencyKey).toMatch(/^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/);
    const daysApart = ((next ?? 0) - (first?.scheduledFor ?? 0)) / 86_400_000;
    expect(Math.round(daysApart)).toBe(1);
  });

  it("S1: a handler that fails all its attempts is reported to onError(), and the next occurrence is armed", async () => {
    const errors: unknown[] = [];
    const agent = givenTasks(
      () =>
        defineScheduledTasks({
          broken: {
            schedule: YEARLY,
            retry: { maxAttempts: 1 },
            handler: () => {
              throw new Error("not today");
            },
          },
        }),
      { onError: (error) => void errors.push(error) },
    );
    await capabilitiesOf(agent()).schedules.trigger("broken");
    await until(() => errors.length > 0);
    expect(errors).toMatchObject([{ message: "not today" }]);
    expect(await capabilitiesOf(agent()).schedules.inspect("broken")).toMatchObject({
      state: "active",
      next: expect.any(Number),
      counts: { failed: 1 },
      lastRun: { status: "failed", error: { message: "not today" } },
    });
  });
});

describe("the declared tasks", () => {
  it("S4: each invalid task is reported to onError() with its name, and the others are armed", async () => {
    const errors: unknown[] = [];
    const agent = givenTasks(
      () =>
        ({
          bad: { schedule: "at dawn", handler: () => {} },
          good: { schedule: YEARLY, handler: () => {} },
        }) as never,
      { onError: (error) => void errors.push(error) },
    );
    expect(await capabilitiesOf(agent()).schedules.inspect("good")).toMatchObject({
      state: "active",
    });
    await until(() => errors.length > 0);
    expect(errors).toMatchObject([{ name: "InvalidTaskError", taskId: "bad" }]);
    expect(String(errors[0])).toContain('"bad"');
  });

  it("S4: Think arms no task, and disarms those that it had armed before", async () => {
    const agent = givenTasks(() => ({
      old: { schedule: "every day at 09:00", handler: () => {} },
    }));
    await capabilitiesOf(agent()).schedules.list();
    expect(await armedByThink(agent())).toEqual([]);
    // As if the app had extended Think until now.
    await runInDurableObject(agent(), (own) =>
      Think.prototype.internal_reconcileScheduledTasks.call(own),
    );
    expect(await armedByThink(agent())).toHaveLength(1);
    await crash(agent());
    expect((await capabilitiesOf(agent()).schedules.list()).items).toMatchObject([
      { taskId: "old", state: "active" },
    ]);
    expect(await armedByThink(agent())).toEqual([]);
    await runInDurableObject(agent(), async (own) => {
      expect(Object.keys(await own.getScheduledTasks())).toEqual(["old"]);
    });
  });

  it("S4: the declarations can read what onStart() has made, and onStart() can reconcile", async () => {
    const agent = givenTasks(
      (own) => {
        const rows = own.sql<{ id: string }>`SELECT id FROM reminders`;
        return Object.fromEntries(
          rows.map(({ id }) => [id, { schedule: "every 1 hour", handler: () => {} }]),
        );
      },
      {
        onStart: async (own) => {
          own.sql`CREATE TABLE IF NOT EXISTS reminders (id TEXT PRIMARY KEY)`;
          own.sql`INSERT OR IGNORE INTO reminders (id) VALUES ('first')`;
          await own.internal_reconcileScheduledTasks();
        },
      },
    );
    const ids = async () =>
      (await capabilitiesOf(agent()).schedules.list()).items.map(({ taskId }) => taskId);
    expect(await ids()).toEqual(["first"]);
    await runInDurableObject(agent(), async (own) => {
      own.sql`INSERT INTO reminders (id) VALUES ('second')`;
      await own.internal_reconcileScheduledTasks();
    });
    expect(await ids()).toEqual(["first", "second"]);
    await crash(agent());
    expect(await ids()).toEqual(["first", "second"]);
  });

  it("S4: an agent starts even if getScheduledTasks() fails", async () => {
    const agent = givenTasks(() => {
      throw new Error("the database of reminders is away");
    });
    expect(await agent().listSubmissions()).toEqual([]);
    await runInDurableObject(agent(), async (own) => {
      await expect(own.internal_reconcileScheduledTasks()).rejects.toThrow("is away");
    });
  });

  it("L9: a getScheduledTasks() that never resolves delays the agent's start by at most 10 seconds", async () => {
    const { setTimeout } = globalThis;
    const spy = vi
      .spyOn(globalThis, "setTimeout")
      .mockImplementation(((work: () => void, after = 0) =>
        setTimeout(work, after === 10_000 ? 20 : after)) as typeof setTimeout);
    onTestFinished(() => spy.mockRestore());
    const agent = givenTasks(() => new Promise(() => {}));
    expect(await agent().listSubmissions()).toEqual([]);
    await runInDurableObject(agent(), async (own) => {
      await expect(own.internal_reconcileScheduledTasks()).rejects.toThrow(
        "getScheduledTasks() did not resolve within 10 seconds",
      );
    });
  });

  it("S4: the tasks of a sub-agent are armed only if its scope is all", async () => {
    const tasks = () => ({
      nightly: { schedule: "every day at 03:00" as const, handler: () => {} },
    });
    const parent = givenTasks(tasks);
    declared.set("child-of-root", { tasks });
    declared.set("child-of-all", { tasks, scope: "all" });
    expect(await parent().tasksOfChild("child-of-root")).toEqual([]);
    expect(await parent().tasksOfChild("child-of-all")).toMatchObject([
      { taskId: "nightly", state: "active", next: expect.any(Number) },
    ]);
  });
});

describe("schedules that Think accepts", () => {
  const noop = () => {};
  const prompt = "Write the digest.";

  /** When each of the two runs a task next, or why it does not arm it. */
  async function bothArm(agent: DurableObjectStub<ThinkAgent>, id: string, task: unknown) {
    declared.set(agent.name ?? "", { tasks: () => ({ [id]: task }) as never });
    return runInDurableObject(agent, async (own) => {
      for (const { id: before } of await own.listSchedules()) await own.cancelSchedule(before);
      const refused = await Think.prototype.internal_reconcileScheduledTasks
        .call(own)
        .then(() => undefined, String);
      const [schedule] = refused === undefined ? await own.listSchedules() : [];
      await own.internal_reconcileScheduledTasks();
      const found = await own.schedules.inspect(id);
      const { taskId, scheduledFor } = (schedule?.payload ?? {}) as Record<string, unknown>;
      return {
        think: taskId === id ? Number(scheduledFor) : (refused ?? "not armed"),
        perdure: found?.next ?? found?.error?.message ?? "not declared",
      };
    });
  }

  /** Intervals count from when each of the two was asked. */
  function expectSame({ think, perdure }: Awaited<ReturnType<typeof bothArm>>) {
    expect(perdure).toBeTypeOf("number");
    expect(Math.abs(Number(perdure) - Number(think))).toBeLessThan(5_000);
  }

  const agent = givenTasks(() => ({}))();

  it.each<[string, unknown, string?]>([
    ["an interval", { schedule: "every 15 minutes", prompt }],
    ["one minute", { schedule: "every 1 minute", prompt }],
    ["an interval of more than a year", { schedule: "every 10000 hours", prompt }],
    ["an interval of a century", { schedule: "every 52596000 minutes", prompt }],
    ["upper case and white space", { schedule: "  EVERY  Day\n at 09:00 ", prompt }],
    ["the default zone", { schedule: "every weekday at 23:30", prompt }],
    ["a zone in the text", { schedule: "every day at 09:00 in asia/kolkata", prompt }],
    ["a zone as an option", { schedule: "every day at 09:00", timezone: "Asia/Tokyo", prompt }],
    ["the same zone in both", { schedule: "every day at 09:00 in UTC", timezone: "utc", prompt }],
    [
      "an alias in the text",
      { schedule: "every day at 09:00 in US/Pacific", timezone: "America/Los_Angeles", prompt },
    ],
    [
      "an alias as an option",
      { schedule: "every day at 09:00 in Europe/Kyiv", timezone: "Europe/Kiev", prompt },
    ],
    ["an offset", { schedule: "every day at 09:00", timezone: "+02:00", prompt }],
    ["an offset without a colon", { schedule: "every day at 09:00", timezone: "-0330", prompt }],
    ["a zone by its rule", { schedule: "every day at 09:00 in EST5EDT", prompt }],
    ["short names of days", { schedule: "every week on sun,  tue at 06:05", prompt }],
    ["a handler", { schedule: "every 2 hours", handler: noop }],
    ["a prompt that is a function", { schedule: "every 2 hours", prompt: () => prompt }],
    ["an absent handler", { schedule: "every 2 hours", prompt, handler: undefined }],
    [
      "retry and metadata",
      { schedule: "every 2 hours", prompt, retry: { maxAttempts: 5 }, metadata: { a: [1] } },
    ],
    ["a description", { schedule: "every 2 hours", prompt, description: "Writes it." }],
    ["fields of the app's own", { schedule: "every 2 hours", prompt, owner: "x", enabled: false }],
    ["fields in retry", { schedule: "every 2 hours", prompt, retry: { attempts: 2 } }],
    ["null for the zone", { schedule: "every day at 09:00", timezone: null, prompt }],
    ["null for the metadata", { schedule: "every 2 hours", metadata: null, prompt }],
    ["null for the retries", { schedule: "every 2 hours", retry: null, prompt }],
    ["a long id", { schedule: "every 2 hours", prompt }, "i".repeat(200)],
    ["an id of one character", { schedule: "every 2 hours", prompt }, "-"],
  ])("S4: %s is armed as in Think", async (_, task, id = "t") => {
    expectSame(await bothArm(agent, id, task));
  });

  it("S2: each schedule of Think's five forms has the same next occurrence as in Think", async () => {
    const zones = [
      "Europe/London",
      "US/Pacific",
      "Asia/Kathmandu",
      "+05:45",
      "Etc/GMT+12",
      "Pacific/Apia",
    ];
    const names = ["monday", "tue", "wednesday", "thu", "friday", "sat", "sunday"];
    const form = fc.oneof(
      fc.constantFrom("every day", "every weekday"),
      fc.subarray(names, { minLength: 1 }).map((days) => `every week on ${days.join(",")}`),
    );
    const time = fc.tuple(fc.nat(23), fc.nat(59));
    const pad = (value: number) => String(value).padStart(2, "0");
    const cases = fc.sample(fc.tuple(form, time, fc.constantFrom(...zones)), {
      numRuns: 30,
      seed: 7,
    });
    for (const [days, [hour, minute], timezone] of cases) {
      const schedule = `${days} at ${pad(hour)}:${pad(minute)}`;
      const { think, perdure } = await bothArm(agent, "t", { schedule, timezone, prompt });
      expect({ schedule, timezone, next: perdure }).toEqual({ schedule, timezone, next: think });
    }
  });

  it.each<[string, unknown, string?]>([
    ["no schedule", { schedule: "at dawn", prompt }],
    ["an invalid time", { schedule: "every day at 25:00", prompt }],
    ["a plural", { schedule: "every 1 minutes", prompt }],
    ["a day twice", { schedule: "every week on monday,mon at 09:00", prompt }],
    ["an invalid zone", { schedule: "every day at 09:00 in Mars/Phobos", prompt }],
    ["two zones", { schedule: "every day at 09:00 in UTC", timezone: "Europe/London", prompt }],
    ["neither a prompt nor a handler", { schedule: "every 2 hours" }],
    ["both", { schedule: "every 2 hours", prompt, handler: noop }],
    ["no object", undefined],
    ["an id with a space", { schedule: "every 2 hours", prompt }, "a b"],
  ])("S4: %s is refused as in Think", async (_, task, id = "t") => {
    const { think, perdure } = await bothArm(agent, id, task);
    expect([typeof think, typeof perdure]).toEqual(["string", "string"]);
  });

  it.each<[string, unknown, string?]>([
    // Each of its runs would fail.
    ["a prompt without text", { schedule: "every 2 hours", prompt: " " }],
    ["a prompt that is a number", { schedule: "every 2 hours", prompt: 5 }],
    ["a handler that is no function", { schedule: "every 2 hours", handler: 5 }],
    ["no attempts", { schedule: "every 2 hours", prompt, retry: { maxAttempts: 0 } }],
    // What a submission stores as metadata is an object.
    ["metadata that is a list", { schedule: "every 2 hours", prompt, metadata: ["a"] }],
    // Its first run would be after the last time that an alarm can have.
    ["an interval of 200 years", { schedule: "every 1753200 hours", prompt }],
    ["an id of 1,001 characters", { schedule: "every 2 hours", prompt }, "i".repeat(1_001)],
  ])(
    "S4: %s is armed by Think alone, and refused here with a clear error",
    async (_, task, id = "t") => {
      const { think, perdure } = await bothArm(agent, id, task);
      expect(think).toBeTypeOf("number");
      expect(perdure).toMatch(/expected|Expected/);
    },
  );
});

describe("a deleted sub-agent", () => {
  const nightly = () => ({
    nightly: { schedule: "every day at 03:00" as const, handler: () => {} },
  });

  /** The wakes that the root keeps for its sub-agents: the module, and the last part of the sub-agent's path. */
  const wakesAt = (root: DurableObjectStub<ThinkAgent>) =>
    runInDurableObject(root, (_, { storage }) =>
      storage.sql
        .exec<{ id: string; time: number }>(
          "SELECT id, time FROM cf_agents_jobs WHERE id LIKE 'perdure.%:wake:%' ORDER BY id",
        )
        .toArray()
        .map(({ id, time }) => ({ wake: id.replace(/:wake:.*:/, " of "), time })),
    );

  /** A root with a sub-agent of this name, which has one, too: with tasks, and each with a turn that is due later. */
  async function givenFamily(): Promise<{ root: DurableObjectStub<ThinkAgent>; child: string }> {
    const root = givenTasks(() => ({}))();
    const child = `child-${crypto.randomUUID()}`;
    declared.set(child, { tasks: nightly, scope: "all" });
    declared.set(`${child}-2`, { tasks: nightly, scope: "all" });
    await root.tasksOfChild(child);
    await root.tasksOfGrandchild(child, `${child}-2`);
    const wakes = await wakesAt(root);
    expect(wakes.map(({ wake }) => wake)).toEqual([
      `perdure.outbox of ${child}`,
      `perdure.outbox of ${child}-2`,
    ]);
    return { root, child };
  }

  it.each(["dynamicAgents", "deleteSubAgent"] as const)(
    "S4: a sub-agent deleted by %s leaves no wake at the root agent, and neither do its own sub-agents",
    async (by) => {
      const { root, child } = await givenFamily();
      const other = `other-${child}`;
      declared.set(other, { tasks: nightly, scope: "all" });
      await root.tasksOfChild(other);
      await root.deleteChild(child, by);
      expect((await wakesAt(root)).map(({ wake }) => wake)).toEqual([`perdure.outbox of ${other}`]);
      // Made anew, it is armed anew.
      expect(await root.tasksOfChild(child)).toMatchObject([{ state: "active" }]);
      expect(await wakesAt(root)).toHaveLength(2);
    },
  );

  it("S4: a sub-agent that deletes one of its own removes that one's wakes from the root agent", async () => {
    const { root, child } = await givenFamily();
    await root.deleteGrandchild(child, `${child}-2`);
    expect((await wakesAt(root)).map(({ wake }) => wake)).toEqual([`perdure.outbox of ${child}`]);
  });

  it("S4: a sub-agent that destroys itself leaves wakes that lapse within half a minute", async () => {
    const { root, child } = await givenFamily();
    await root.deleteChild(child, "destroy");
    const wakes = await wakesAt(root);
    expect(wakes.every(({ time }) => time <= Date.now() + 30_000)).toBe(true);
    await wakeNow(root);
    expect(await wakesAt(root)).toEqual([]);
  });

  it("S4: a sub-agent is deleted even if its wakes cannot be removed, which is logged once", async () => {
    const spy = vi.spyOn(console, "error").mockImplementation(() => {});
    onTestFinished(() => spy.mockRestore());
    const { root, child } = await givenFamily();
    await runInDurableObject(root, async (own) => {
      own[CAPABILITIES].outbox.changeWakesOf = (_, verb) =>
        verb === "expedite" ? Promise.reject(new Error("no root")) : Promise.resolve();
      await own.dynamicAgents.delete(ThinkAgent, child);
      expect(own.hasSubAgent("ThinkAgent", child)).toBe(false);
    });
    expect(spy.mock.calls).toHaveLength(1);
    expect(String(spy.mock.calls[0]?.[0])).toContain(`wakes of the sub-agent "${child}"`);
  });

  it("S4: an aborted sub-agent keeps its wakes", async () => {
    const { root, child } = await givenFamily();
    const before = await wakesAt(root);
    await root.abortChild(child);
    expect(await wakesAt(root)).toEqual(before);
  });

  it("S4: a crash at any write of the deletion leaves wakes that lapse within half a minute, or none", async () => {
    let crashes = 0;
    for (let isOver = false; !isOver; ) {
      const { root, child } = await givenFamily();
      const deletion = runInDurableObject(root, async (own, ctx) => {
        let left = crashes + 1;
        own.meter.onWrite = () => {
          left--;
          if (left === 0) ctx.abort("crash");
        };
        await own.dynamicAgents.delete(ThinkAgent, child);
        own.meter.onWrite = undefined;
      });
      isOver = await deletion.then(
        () => true,
        () => false,
      );
      if (!isOver) crashes++;
      const next = givenThink(root.name ?? "");
      const isThere = await runInDurableObject(next, async (own) => {
        await own.listSubmissions();
        return own.hasSubAgent("ThinkAgent", child);
      });
      if (isThere) await next.deleteChild(child, "dynamicAgents");
      const late = (await wakesAt(next)).filter(({ time }) => time > Date.now() + 30_000);
      expect({ crashes, late }).toEqual({ crashes, late: [] });
      await wakeNow(next);
      expect({ crashes, wakes: await wakesAt(next) }).toEqual({ crashes, wakes: [] });
    }
    expect(crashes).toBeGreaterThan(4);
  });
});

/** The documentation's example, with nothing but its base class changed. */
class DigestAgent extends DurableThink<Cloudflare.Env> {
  override getDefaultTimezone() {
    return "Europe/London";
  }

  override getScheduledTasks() {
    return defineScheduledTasks({
      weeklyCommitReport: {
        schedule: "every week on monday at 09:00",
        prompt: "Compile all my GitHub commits for the last week and send a concise summary.",
      },
      workout: { schedule: "every day at 08:00 in Europe/London", prompt: "Start my workout." },
      customerDigest: {
        schedule: "every month on last weekday at 17:00",
        timezone: "America/New_York",
        metadata: { workflowName: "customer-digest" },
        retry: { maxAttempts: 3 },
        overlap: "queue",
        handler: async ({ idempotencyKey, scheduledFor, scheduleKind, timezone }) => {
          expectTypeOf(scheduleKind).toEqualTypeOf<"interval" | "wall-clock">();
          await this.env.PROMPT_WORKFLOW.create({
            id: idempotencyKey,
            params: { scheduledFor, scheduleKind, timezone },
          });
        },
      },
    });
  }
}

it("S4: the types accept the documented example and refuse an invalid schedule", () => {
  expectTypeOf<DigestAgent>().toExtend<Think<Cloudflare.Env>>();
  defineScheduledTasks({
    // @ts-expect-error 25:00 is not a valid time
    wrong: { schedule: "every day at 25:00", prompt: "never" },
    right: { schedule: "every 15 minutes", prompt: "often" },
  });
});
