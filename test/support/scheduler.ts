/** A scheduler on a plain object: inspected, woken and crashed, with a clock of its own. */

import { env } from "cloudflare:workers";
import type { UIMessage } from "ai";
import { expect, onTestFinished, vi } from "vitest";
import type { Page, PageOptions } from "../../src/engine/page.ts";
import type {
  ScheduledRun,
  ScheduledTask,
  ScheduledTaskContext,
  ScheduledTasks,
} from "../../src/scheduler/index.ts";
import type { Turns } from "../../src/scheduler/types.ts";
import type { Asked } from "../../src/submissions/intake/intake.ts";
import type { InternalSubmitOptions } from "../../src/submissions/submit-options.ts";
import { until } from "./given.ts";
import { jobOf, sleep } from "./ledger.ts";
import { accessTo } from "./objects/objects.ts";
import {
  type SchedulerObject,
  type SchedulerScript,
  schedulerScripts,
} from "./objects/scheduler-object.ts";

export const MINUTE = 60_000;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** A Monday far in the future, so that no alarm comes by itself: 2030-01-07T00:00Z. */
export const MONDAY = Date.UTC(2030, 0, 7);

type Handler = NonNullable<Extract<ScheduledTask, { prompt?: never }>["handler"]>;
type Options = Omit<ScheduledTask, "prompt" | "handler" | "schedule"> & { schedule?: string };

/** A task every ten minutes with this handler. */
export function task(handler: Handler, options: Options = {}): ScheduledTask {
  return { schedule: "every 10 minutes", ...options, handler };
}

/** A ledger for which a test answers. */
export function fakeTurns(
  verbs: {
    readonly [Verb in "inspect" | "cancel"]?: (
      ...args: Required<Parameters<Turns[Verb]>>
    ) => Promise<unknown>;
  } & {
    accept(
      messages: UIMessage[],
      options: InternalSubmitOptions,
    ): Promise<{ submissionId: string | undefined }>;
  },
): Turns {
  const accept = async ([asked]: readonly Asked[], commit: (taken: object[]) => void) => {
    const { messages, options = {} } = asked as Extract<Asked, { messages: unknown }>;
    commit([{ submission: await verbs.accept(messages, options), accepted: true }]);
  };
  return { ...verbs, accept, checkOwner: () => {} } as unknown as Turns;
}

const access = accessTo(() => env.SchedulerObject);

export class TestScheduler {
  readonly script: SchedulerScript;
  readonly name = `scheduler-${crypto.randomUUID()}`;

  constructor(script: Partial<SchedulerScript>) {
    this.script = { tasks: () => ({}), now: MONDAY, ...script };
    schedulerScripts.set(this.name, this.script);
  }

  get now(): number {
    return this.script.now ?? Date.now();
  }

  /** Runs `work` in the object without starting its modules. */
  inside<T>(
    work: (object: SchedulerObject, ctx: DurableObjectState) => T | Promise<T>,
  ): Promise<T> {
    return access.inside(this, work);
  }

  /** Runs `work` in the object after its start, with its declarations read. */
  in<T>(work: (object: SchedulerObject, ctx: DurableObjectState) => T | Promise<T>): Promise<T> {
    return this.inside(async (object, ctx) => {
      await object.lifecycle.start();
      await object.scheduler.list({ occurrences: 0 }).catch(() => {});
      return work(object, ctx);
    });
  }

  start(): Promise<void> {
    return this.in(() => {});
  }

  /** Declares these from now on. */
  async declare(tasks: ScheduledTasks): Promise<void> {
    this.script.tasks = () => tasks;
    await this.in(({ scheduler }) => scheduler.reconcile());
  }

  /** Lets time pass and the alarm come. */
  async pass(ms: number): Promise<void> {
    this.script.now = this.now + ms;
    await this.wake();
  }

  /** The alarm comes, due or not. Returns false when there is none. */
  async wake(): Promise<boolean> {
    const hasRun = await access.wake(this);
    // A scenario may crash the object in its wake.
    await this.#settled().catch(() => {});
    return hasRun;
  }

  /** Waits until nothing has run a statement for a moment: what a wake has started goes on after it. */
  async #settled(): Promise<void> {
    const count = () =>
      this.inside(async ({ meter }, { storage }) => {
        await storage.sync();
        await sleep(5);
        return meter.statementsOf(() => true);
      });
    let [before, now] = [-1, await count()];
    while (now !== before) [before, now] = [now, await count()];
  }

  /** The object crashes. What it has committed stays. */
  crash(): Promise<void> {
    return access.crash(this);
  }

  /** When the job of its wake is due, in milliseconds from now; null when it holds none. */
  async wakesIn(): Promise<number | null> {
    const time = await this.inside((_, ctx) => jobOf(ctx));
    return time === null ? null : time - this.now;
  }

  async runs(taskId = "t"): Promise<ScheduledRun[]> {
    const { items } = await this.in(({ scheduler }) => scheduler.runs(taskId));
    return [...items];
  }

  /** `status` of each run, oldest first, with its occurrence in minutes after MONDAY. */
  async history(taskId = "t"): Promise<string[]> {
    const runs = await this.runs(taskId);
    return runs.reverse().map(({ scheduledFor, status }) => `${at(scheduledFor)} ${status}`);
  }

  info(taskId = "t") {
    return this.in(async ({ scheduler }) => {
      const info = await scheduler.inspect(taskId);
      if (!info) throw new Error(`${taskId} is not declared`);
      return info;
    });
  }

  /** Waits until the newest run of a task has this status. */
  async comes(status: ScheduledRun["status"], taskId = "t"): Promise<ScheduledRun> {
    return until(async () => {
      const [run] = await this.runs(taskId);
      return run?.status === status && run;
    });
  }
}

/** All items of a list, read in pages. */
export async function allOf<Item>(
  list: (page: PageOptions) => Promise<Page<Item>>,
  limit: number,
): Promise<Item[]> {
  const all: Item[] = [];
  let cursor: string | undefined;
  do {
    const page = await list({ limit, cursor });
    expect(page.items.length).toBeLessThanOrEqual(limit);
    all.push(...page.items);
    cursor = page.cursor;
  } while (cursor !== undefined);
  return all;
}

/** Minutes after MONDAY. */
export function at(time: Date | number): number {
  return (Number(time) - MONDAY) / MINUTE;
}

/**
 * Drops what objects log until the test is over. Vitest hears of a log by a timer of the object that has logged, and waits
 * forever if the object crashes before.
 */
export function silence(): void {
  const spy = vi.spyOn(console, "error").mockImplementation(() => {});
  onTestFinished(() => spy.mockRestore());
}

/** Records the calls of a handler. */
export function recorder() {
  const came: ScheduledTaskContext[] = [];
  return {
    came,
    /** The occurrences in minutes after MONDAY. */
    get occurrences() {
      return came.map(({ scheduledFor }) => at(scheduledFor));
    },
    note: (context: ScheduledTaskContext) => void came.push(context),
  };
}
