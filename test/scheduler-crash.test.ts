/**
 * A crash at every single write of what a scheduler does. Whatever was
 * committed when, no slot is lost, none has two runs, and no attempt is made
 * twice under the same number. After a crash the object has its alarm and
 * nothing else. Before and after a write, everything since the last wait is
 * lost with it; soon after, the write has been committed.
 * `VITE_PERDURE_SCHEDULER_CRASHES=1` plays all three.
 */

import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { PromptPort, ScheduledTaskContext, ScheduledTasks } from "../src/scheduler/index.ts";
import { until } from "./support/given.ts";
import { knob } from "./support/knobs.ts";
import { forever, sleep } from "./support/ledger.ts";
import { at, MINUTE, MONDAY, Stage, task } from "./support/scheduler.ts";
import type { SchedulerObject } from "./support/scheduler-object.ts";

type Moment = "before" | "after" | "soon after";
type Point = { readonly write: number; readonly moment: Moment };
const MOMENTS: readonly Moment[] =
  knob("SCHEDULER_CRASHES", 0) === 1 ? ["before", "after", "soon after"] : ["before", "soon after"];

/** What happens to a scheduler, and what it is to have done by the end. */
type Way = () => {
  readonly tasks: (note: (context: ScheduledTaskContext) => Promise<void>) => ScheduledTasks;
  readonly prompts?: PromptPort;
  /** Each is repeated by its caller until it has returned. */
  readonly steps: readonly (number | ((object: SchedulerObject) => Promise<unknown>))[];
  /** The slots, in minutes, and how their runs have ended. */
  readonly history: readonly string[];
  /** The run of the first slot never ends by itself: while it is the newest, there is nothing to wait for. */
  readonly hangs?: boolean;
};

const verb = (work: (scheduler: SchedulerObject["scheduler"]) => Promise<unknown>) => {
  return ({ scheduler }: SchedulerObject) => work(scheduler);
};
const minutes = (count: number) => new Date(MONDAY + count * MINUTE);

const WAYS: Record<string, Way> = {
  "two occurrences": () => ({
    tasks: (note) => ({ t: task(note) }),
    steps: [10, 20],
    history: ["10 completed", "20 completed"],
  }),
  "an attempt that fails": () => {
    const failed = new Set<number>();
    return {
      tasks: (note) => ({
        t: task(async (context) => {
          await note(context);
          if (failed.has(context.scheduledFor)) return;
          failed.add(context.scheduledFor);
          throw new Error("once");
        }),
      }),
      steps: [10],
      history: ["10 completed"],
    };
  },
  "three caught up": () => ({
    tasks: (note) => ({ t: task(note, { catchUp: "all" }) }),
    steps: [35],
    history: ["10 completed", "20 completed", "30 completed"],
  }),
  "one that makes room": () => ({
    tasks: (note) => ({
      t: task(
        async (context) => {
          await note(context);
          if (at(context.scheduledFor) === 10) await forever();
        },
        { overlap: "cancelPrevious" },
      ),
    }),
    steps: [10, 20],
    history: ["10 cancelled", "20 completed"],
    hangs: true,
  }),
  "a trigger": () => ({
    tasks: (note) => ({ t: task(note) }),
    steps: [verb((scheduler) => scheduler.trigger("t", { key: "k" })), 10],
    history: ["0 completed", "10 completed"],
  }),
  "a backfill": () => {
    const range = { from: minutes(0), to: minutes(35) };
    return {
      tasks: (note) => ({ t: task(note, { catchUp: "none" }) }),
      steps: [35, verb((scheduler) => scheduler.backfill("t", range))],
      history: ["10 completed", "20 completed", "30 completed"],
    };
  },
  "a pause": () => ({
    tasks: (note) => ({ t: task(note) }),
    steps: [
      verb((scheduler) => scheduler.pause("t")),
      25,
      verb((scheduler) => scheduler.resume("t")),
      30,
    ],
    history: ["30 completed"],
  }),
  "a prompt": () => {
    const known = new Set<string>();
    return {
      tasks: () => ({ t: { schedule: "every 10 minutes", prompt: "report" } }),
      prompts: {
        submit: async (_, { idempotencyKey }) => {
          known.add(idempotencyKey);
          return { submissionId: idempotencyKey };
        },
        ended: async (id) => (known.has(id) ? { status: "completed" } : null),
        cancel: async () => {},
      },
      steps: [10],
      history: ["10 completed"],
    };
  },
  "an edit of the times": () => {
    let schedule = "every 10 minutes";
    return {
      tasks: (note) => ({ t: task(note, { schedule }), fresh: task(() => {}) }),
      steps: [
        10,
        ({ scheduler }) => {
          schedule = "every 25 minutes";
          return scheduler.reconcile();
        },
        35,
      ],
      history: ["10 completed", "35 completed"],
    };
  },
};

type Outcome = {
  readonly writes: readonly string[];
  readonly lives: number;
  readonly problems: readonly string[];
};

function crashAt({ meter }: SchedulerObject, ctx: DurableObjectState, point: Point): void {
  const { write, moment } = point;
  meter.reset();
  meter[moment === "before" ? "onWrite" : "onWritten"] = (now) => {
    if (now !== write) return;
    if (moment === "soon after") setTimeout(() => ctx.abort("crash"), 0);
    else ctx.abort("crash");
  };
}

async function live(way: Way, crash: Point | undefined): Promise<Outcome> {
  const writes: string[] = [];
  const calls: string[] = [];
  let lives = 0;
  let storage: DurableObjectStorage | undefined;
  const note = async ({ occurrenceKey, attempt }: ScheduledTaskContext) => {
    // What leaves an object waits until all that was written before is durable.
    await storage?.sync();
    calls.push(`${occurrenceKey} #${attempt}`);
  };
  const { tasks, prompts, steps, history, hangs = false } = way();
  const stage = new Stage({
    ...(prompts && { prompts }),
    tasks: () => tasks(note),
    born: (_, ctx) => {
      lives++;
      storage = ctx.storage;
    },
  });
  await stage.inside((object, ctx) => {
    if (crash) crashAt(object, ctx, crash);
    else object.meter.onWrite = (_, what) => writes.push(what);
  });
  const problems: string[] = [];
  try {
    await patiently(() => stage.start());
    // A crash may be on its way still, and nothing may have been stored before.
    await sleep(15);
    await patiently(() => stage.start());
    for (const step of steps) {
      if (typeof step === "number") stage.script.now = MONDAY + step * MINUTE;
      else await patiently(() => stage.in(step));
      await rest(stage, typeof step === "number", hangs);
    }
    const found = await stage.history();
    if (JSON.stringify(found) !== JSON.stringify(history)) problems.push(found.join(", "));
    if (new Set(calls).size < calls.length) problems.push(`called twice: ${calls.join(", ")}`);
  } catch (error) {
    problems.push(String(error));
  }
  return { writes, lives, problems };
}

/** A caller that was not told asks again. */
async function patiently(work: () => Promise<unknown>): Promise<void> {
  await until(
    () =>
      work().then(
        () => true,
        () => false,
      ),
    5_000,
  );
}

/** The alarm comes until nothing is left to do; a run that hangs is nothing to wait for. */
async function rest(stage: Stage, mustWake: boolean, hangs: boolean): Promise<void> {
  const isAtRest = () =>
    stage
      .inside((_, { storage: { sql } }) => {
        const due = sql.exec(
          "SELECT 1 FROM perdure_tasks WHERE paused_at IS NULL AND next_at <= ?",
          stage.now,
        );
        const open = sql.exec(
          "SELECT 1 FROM perdure_runs WHERE ended_at IS NULL AND NOT (? AND status = 'running' AND slot = ? AND fired_at = ?)",
          hangs ? 1 : 0,
          MONDAY + 10 * MINUTE,
          stage.now,
        );
        return due.toArray().length + open.toArray().length === 0;
      })
      .catch(() => false);
  if (mustWake) await stage.wake().catch(() => false);
  for (let wake = 0; wake < 10; wake++) {
    const isQuiet = await until(isAtRest, 120).catch(() => false);
    // A crash may be on its way still.
    await sleep(10);
    if (isQuiet && (await isAtRest())) return;
    await stage.wake().catch(() => false);
  }
  throw new Error("It never came to rest");
}

const tried: Record<string, number> = {};
afterAll(() => console.log("crash points tried:", tried));

// Not `silence()`: these tests run side by side.
beforeAll(() => void vi.spyOn(console, "error").mockImplementation(() => {}));
afterAll(() => void vi.restoreAllMocks());

describe.concurrent("S1 S3 S5 whenever the object crashes, no slot is lost or runs twice", () => {
  it.each(Object.keys(WAYS))(
    "%s",
    async (name) => {
      const way = WAYS[name] as Way;
      const { writes, problems, lives } = await live(way, undefined);
      expect({ problems, lives }).toEqual({ problems: [], lives: 1 });
      const points = writes.flatMap((_, index) =>
        MOMENTS.map((moment): Point => ({ write: index + 1, moment })),
      );
      const wrong: string[] = [];
      const reached: number[] = [];
      for (const point of points) {
        const outcome = await live(way, point);
        reached.push(outcome.lives);
        const what = writes[point.write - 1]?.replaceAll(/\s+/g, " ").slice(0, 60);
        if (outcome.problems.length > 0) {
          wrong.push(`${point.moment} write ${point.write} (${what}): ${outcome.problems}`);
        }
      }
      expect(wrong).toEqual([]);
      expect(new Set(reached)).toEqual(new Set([2]));
      tried[name] = points.length;
    },
    180_000,
  );
});
