/** An alarm that the platform lost, as after six failed starts. Each module sets it again at its next start. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import type { Lifecycle } from "agents/lifecycle";
import { describe, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { type Meter, virtualClock } from "../../src/testing/index.ts";
import { agentScopes, agentTasks } from "../scheduler/scheduler-agent.ts";
import { givenLedger, message, until } from "../support/given.ts";
import { jobOf, sleep, within } from "../support/ledger.ts";
import { waitsScripts } from "../support/objects/waits-object.ts";
import { givenListening, inside, putAll, workflowNamed } from "../support/outbox.ts";
import { recorder, silence, TestScheduler, task } from "../support/scheduler.ts";
import { HANG_MS } from "../support/sizes.ts";
import { ask, givenWaits, open } from "../support/waits.ts";

const HOUR_MS = 3_600_000;
/** What is due comes when the test advances the clock, and at no moment of its own. */
const NIGHT = new Date(Date.now() + 86_400_000).setUTCHours(8, 30, 0, 0);

type Host = DurableObject & { readonly lifecycle: Lifecycle; readonly meter: Meter };

/** An object with work that is due within an hour, and whether that work has been done. */
type Given = {
  readonly find: () => DurableObjectStub;
  readonly isDone: () => boolean | Promise<boolean>;
};

const MODULES: Record<string, { given: () => Promise<Given> }> = {
  "a submission": {
    given: async () => {
      const stub = givenLedger();
      const notBefore = new Date(Date.now() + HOUR_MS);
      const submissionId = "s";
      await within(stub, ({ submissions }) =>
        submissions.submit([message("later")], { submissionId, notBefore }),
      );
      const find = () => env.LedgerObject.getByName(stub.name ?? "");
      // Read from its row: a verb would start the object.
      const query = "SELECT 1 FROM perdure_submissions WHERE status = 'completed'";
      return { find, isDone: () => has(find, query) };
    },
  },
  "a delivery": {
    given: async () => {
      const { box, came } = givenListening({
        clock: { ...systemClock, random: () => 0.99 },
        deliver: () => {
          if (came.length === 1) throw new Error("not yet");
        },
      });
      await inside(box, ({ lifecycle }) => lifecycle.start());
      await putAll(box, ["a"], workflowNamed("w", { backoff: { base: HOUR_MS } }));
      await until(() => came.length === 1);
      await sleep(50);
      return {
        find: () => env.OutboxObject.getByName(box.name ?? ""),
        isDone: () => came.length === 2,
      };
    },
  },
  "a wait": {
    given: async () => {
      let isDone = false;
      const stub = givenWaits();
      waitsScripts.set(stub.name ?? "", {
        kinds: () => ({
          codemode: {
            answersLaterRuns: () => true,
            drive: async ({ createdAt }) => {
              isDone = Date.now() >= createdAt + HOUR_MS;
              return isDone ? null : createdAt + HOUR_MS;
            },
          },
        }),
      });
      await open(stub, ask({ kind: "codemode" }));
      await sleep(50);
      return { find: () => env.WaitsObject.getByName(stub.name ?? ""), isDone: () => isDone };
    },
  },
  "a schedule": {
    given: async () => {
      const { came, note } = recorder();
      const stage = new TestScheduler({
        tasks: () => ({ t: task(note, { schedule: "every day at 09:00", timezone: "UTC" }) }),
      });
      delete stage.script.now;
      await stage.start();
      return {
        find: () => env.SchedulerObject.getByName(stage.name),
        isDone: () => came.length > 0,
      };
    },
  },
};

function has(find: () => DurableObjectStub, query: string): Promise<boolean> {
  return runInDurableObject(
    find(),
    (_, { storage }) => storage.sql.exec(query).toArray().length > 0,
  );
}

/** The alarm is gone, and the object with it. What is stored stays. */
async function lose(find: () => DurableObjectStub): Promise<void> {
  await runInDurableObject(find(), async (_, ctx) => {
    await ctx.storage.deleteAlarm();
    await ctx.storage.sync();
    ctx.abort("crash");
  }).catch(() => {});
}

function start(find: () => DurableObjectStub): Promise<void> {
  return runInDurableObject(find(), ({ lifecycle }: Host) => lifecycle.start().then(() => {}));
}

describe.each(Object.entries(MODULES))("%s whose alarm was lost", (what, { given }) => {
  it(`L1: ${what} is done in time when the alarm was lost and the object starts again`, async () => {
    silence();
    using clock = virtualClock({ at: NIGHT, patience: HANG_MS });
    const { find, isDone } = await given();
    await lose(find);
    expect(await isDone()).toBe(false);
    await start(find);
    await clock.advance("61 minutes", find());
    await until(isDone);
  });

  it(`L1: ${what} is done when its job is overdue and has no alarm`, async () => {
    silence();
    using clock = virtualClock({ at: NIGHT, patience: HANG_MS });
    const { find, isDone } = await given();
    await lose(find);
    await clock.advance("61 minutes");
    expect(await runInDurableObject(find(), (_, ctx) => isOverdue(ctx))).toBe(true);
    expect(await isDone()).toBe(false);
    await start(find);
    await clock.advance("1 minute", find());
    await until(isDone);
  });

  it(`L1: ${what} is done when its alarm is a minute overdue and did not fire`, async () => {
    silence();
    using clock = virtualClock({ at: NIGHT, patience: HANG_MS });
    const { find, isDone } = await given();
    await lose(find);
    // The platform dropped it, and the object's storage still has it.
    const past = { ms: Date.now() - 60_000 };
    await runInDurableObject(find(), (_, { storage }) => {
      const { getAlarm } = storage;
      storage.getAlarm = async () => {
        storage.getAlarm = getAlarm;
        return past.ms;
      };
    });
    await start(find);
    await clock.advance("61 minutes", find());
    await until(isDone);
  });
});

function isOverdue(ctx: DurableObjectState): boolean {
  const time = jobOf(ctx);
  return time !== null && time < Date.now();
}

describe("a start that finds its alarm", () => {
  it("L1: a start that finds its alarm writes no row and sets no alarm", async () => {
    const stub = givenLedger();
    const find = () => env.LedgerObject.getByName(stub.name ?? "");
    const writesOfStart = async () => {
      await runInDurableObject(find(), (_, ctx) => ctx.abort("crash")).catch(() => {});
      return runInDurableObject(find(), async ({ lifecycle, meter }: Host) => {
        meter.reset();
        await lifecycle.start();
        const { rowsWritten, setAlarms } = meter.read();
        return { rowsWritten, setAlarms };
      });
    };
    await start(find);
    expect(await writesOfStart()).toEqual({ rowsWritten: 0, setAlarms: 0 });
    await within(find(), ({ lifecycle, wakeCapability }) =>
      lifecycle.start().then(() => wakeCapability.wake.noLaterThan(Date.now() + HOUR_MS)),
    );
    expect(await writesOfStart()).toEqual({ rowsWritten: 0, setAlarms: 0 });
  });
});

describe("a sub-agent", () => {
  it("L1: a sub-agent runs its schedule again when the root's alarm was lost and the root starts", async () => {
    silence();
    using clock = virtualClock({ at: NIGHT, patience: HANG_MS });
    const { came, note } = recorder();
    const [root, child] = [crypto.randomUUID(), crypto.randomUUID()];
    agentTasks.set(child, () => ({
      t: task(note, { schedule: "every day at 09:00", timezone: "UTC" }),
    }));
    agentScopes.set(child, "all");
    const find = () => env.SchedulerAgent.getByName(root);
    await find().armedIn(child);
    await lose(find);
    await clock.advance("61 minutes");
    expect(came).toEqual([]);
    // Starts only the root: no call reaches the sub-agent.
    await find().armed();
    await clock.advance("1 minute", find());
    await until(() => came.length > 0);
  });
});
