/** The key of an occurrence is the same on every attempt, whatever the app's code has become in between. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it, onTestFinished } from "vitest";
import { forever, jobOf } from "../support/ledger.ts";
import { MINUTE, MONDAY, recorder, silence, TestScheduler, task } from "../support/scheduler.ts";
import { agentScopes, agentTasks } from "./scheduler-agent.ts";

/** The class of the object has another name from its next start on, as after a deploy that minifies names. */
async function rename(stage: TestScheduler, name: string): Promise<void> {
  await stage.inside((object) => {
    const made = Object.getPrototypeOf(object).constructor as object;
    const old = Object.getOwnPropertyDescriptor(made, "name");
    Object.defineProperty(made, "name", { value: name, configurable: true });
    onTestFinished(() => void (old && Object.defineProperty(made, "name", old)));
  });
  await stage.crash();
  expect(await stage.inside((object) => object.constructor.name)).toBe(name);
}

describe("the idempotencyKey of a run", () => {
  it("S1: an interrupted handler is tried again under the same key when its class was renamed", async () => {
    silence();
    const { came, note } = recorder();
    const stage = new TestScheduler({
      tasks: () => ({
        t: task(async (context) => {
          note(context);
          if (context.attempt === 1) await forever();
        }),
      }),
    });
    await stage.start();
    await stage.pass(10 * MINUTE);
    expect(came).toHaveLength(1);
    await rename(stage, "t");
    await stage.start();
    await stage.comes("completed");
    expect(came.map(({ attempt }) => attempt)).toEqual([1, 2]);
    expect(came[1]?.idempotencyKey).toBe(came[0]?.idempotencyKey);
    expect((await stage.runs())[0]?.idempotencyKey).toBe(came[0]?.idempotencyKey);
  });

  it("S1: two objects with the same names have different keys when one class has taken the other's name", async () => {
    const keys = new Set<string>();
    const stage = new TestScheduler({ tasks: () => ({ t: task(() => {}) }) });
    for (let start = 0; start < 2; start++) {
      await stage.start();
      const run = await stage.in(({ scheduler }) => scheduler.trigger("t", { key: "k" }));
      keys.add(run.idempotencyKey);
      // Another class's object of that name begins with an empty storage.
      await stage.inside((_, { storage }) => storage.deleteAll());
      await stage.crash();
    }
    expect(keys.size).toBe(2);
  });

  it("S1: a sub-agent keeps its keys over a restart, and a task that was omitted and declared again too", async () => {
    silence();
    const [root, child] = [crypto.randomUUID(), crypto.randomUUID()];
    const tasks = { t: { schedule: "every day at 09:00 in UTC", handler: () => {} } };
    agentTasks.set(child, () => tasks);
    agentScopes.set(child, "all");
    const find = () => env.SchedulerAgent.getByName(root);
    const first = await find().triggerIn(child, "t", "k");
    agentTasks.set(child, () => ({}));
    await find().reconcileIn(child);
    await runInDurableObject(find(), async (_, ctx) => {
      await ctx.storage.sync();
      ctx.abort("crash");
    }).catch(() => {});
    agentTasks.set(child, () => tasks);
    expect(await find().triggerIn(child, "t", "k")).toBe(first);
  });

  it("S4: a scheduler without tasks stores no owner, and one with tasks stores one", async () => {
    const stage = new TestScheduler({});
    const owners = () =>
      stage.inside((_, { storage: { sql } }) =>
        sql.exec("SELECT * FROM perdure_schedule_owner").toArray(),
      );
    await stage.start();
    await stage.in(({ scheduler }) => scheduler.reconcile());
    expect(await owners()).toEqual([]);
    await stage.declare({ t: task(() => {}) });
    await stage.crash();
    await stage.declare({ t: task(() => {}), u: task(() => {}) });
    expect(await owners()).toHaveLength(1);
    expect(await stage.inside((_, ctx) => jobOf(ctx))).toBe(MONDAY + 10 * MINUTE);
  });
});
