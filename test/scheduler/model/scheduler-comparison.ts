/** The real scheduler beside its model: how a command is performed on both, and what must be equal after it. */

import type {
  ScheduledRun,
  ScheduledTaskContext,
  ScheduledTaskInfo,
  ScheduledTasks,
  Scheduler,
} from "../../../src/scheduler/index.ts";
import { sleep } from "../../support/ledger.ts";
import type { Action, Compared, Subject } from "../../support/model-test.ts";
import type { SchedulerObject } from "../../support/objects/scheduler-object.ts";
import { MINUTE, MONDAY, TestScheduler, task } from "../../support/scheduler.ts";
import { IDS, type SchedulerCommand, SchedulerModel } from "./scheduler-model.ts";

/** A caller that got no reply calls again. */
const MAX_CALLS = 4;
const MAX_WAKES = 40;

type Snapshot = {
  readonly tasks: readonly ScheduledTaskInfo[];
  readonly runs: readonly (readonly ScheduledRun[])[];
  readonly wakesIn: number | null;
  readonly alarm: number | null;
};

export class SchedulerComparison implements Subject<SchedulerCommand, Snapshot> {
  readonly #model = new SchedulerModel();
  #hasCrashed = false;
  /** Every call of a handler, by occurrence and attempt. */
  readonly #calls = new Set<string>();
  readonly #calledTwice: string[] = [];
  #storage: DurableObjectStorage | undefined;
  readonly #stage = new TestScheduler({
    history: { count: 1_000_000, age: "1000 days" },
    tasks: () => this.#declared(),
    born: (_, ctx) => {
      this.#storage = ctx.storage;
    },
  });

  #declared(): ScheduledTasks {
    const options = { catchUp: "all", overlap: "queue", retry: { maxAttempts: 2 } } as const;
    const handler = (context: ScheduledTaskContext) => this.#handle(context);
    return Object.fromEntries(
      [...this.#model.tasks].map(([id, { every }]) => [
        id,
        task(handler, { ...options, schedule: `every ${every} minutes` }),
      ]),
    );
  }

  async #handle({ occurrenceKey, attempt }: ScheduledTaskContext): Promise<void> {
    const { fails } = this.#model;
    // A call that leaves the object waits until everything written before is durable.
    await this.#storage?.sync();
    const call = `${occurrenceKey} #${attempt}`;
    if (this.#calls.has(call)) this.#calledTwice.push(call);
    this.#calls.add(call);
    if (fails === "always" || (fails === "once" && attempt === 1)) throw new Error(fails);
  }

  async setUp(): Promise<void> {
    for (const id of IDS) this.#model.declare(id, 10, this.#stage.now);
    await this.#stage.start();
  }

  async crash(hasCrashed: boolean): Promise<void> {
    this.#hasCrashed = true;
    if (!hasCrashed) await this.#stage.crash();
  }

  inside(work: (object: SchedulerObject, ctx: DurableObjectState) => void): Promise<void> {
    return this.#stage.inside(work);
  }

  actionOf(command: SchedulerCommand): Action {
    const { now } = this.#stage;
    return {
      expect: () => this.#model.apply(command, now),
      act: () => this.#perform(command, now),
    };
  }

  async #perform(command: SchedulerCommand, now: number): Promise<void> {
    const stage = this.#stage;
    switch (command.op) {
      case "fail":
        return;
      case "wait":
        stage.script.now = now + command.minutes * MINUTE;
        await stage.wake().catch(() => false);
        return;
      case "lose alarm":
        this.#hasCrashed = true;
        await stage.inside((_, { storage }) => storage.deleteAlarm());
        return stage.crash();
      case "declare":
        return this.#call((scheduler) => scheduler.reconcile());
      default: {
        const { op, id } = command;
        if (!this.#model.tasks.has(id)) return;
        const range = { from: new Date(MONDAY), to: new Date(now + 1) };
        return this.#call((scheduler) => {
          if (op === "trigger") return scheduler.trigger(id, { key: String(now) });
          return op === "backfill" ? scheduler.backfill(id, range) : scheduler[op](id);
        });
      }
    }
  }

  async #call(work: (scheduler: Scheduler) => Promise<unknown>): Promise<void> {
    for (let calls = 1; ; calls++) {
      try {
        await this.#stage.in(({ scheduler }) => work(scheduler));
        return;
      } catch (error) {
        if (calls >= MAX_CALLS) throw error;
      }
    }
  }

  async look(): Promise<Snapshot> {
    await this.#rest();
    const found = await this.#stage.in(async ({ scheduler }) => {
      const { items: tasks } = await scheduler.list();
      const runs = tasks.map(async ({ taskId }) => {
        const { items } = await scheduler.runs(taskId, { limit: 1_000 });
        return items;
      });
      return { tasks, runs: await Promise.all(runs) };
    });
    const alarm = await this.#stage.inside((_, { storage }) => storage.getAlarm());
    return { ...found, alarm, wakesIn: await this.#stage.wakesIn() };
  }

  /** Wakes the object until no run is open and no task is due. */
  async #rest(): Promise<void> {
    for (let wakes = 0; wakes < MAX_WAKES; wakes++) {
      const isQuiet = await this.#stage
        .in((_, { storage: { sql } }) => {
          const open = sql.exec("SELECT 1 FROM perdure_runs WHERE ended_at IS NULL").toArray();
          const due = sql
            .exec(
              "SELECT 1 FROM perdure_tasks WHERE paused_at IS NULL AND omitted_at IS NULL AND next_at <= ?",
              this.#stage.now,
            )
            .toArray();
          return open.length + due.length === 0;
        })
        .catch(() => false);
      if (isQuiet) return;
      if (wakes > 2) await this.#stage.wake().catch(() => false);
      await sleep(5);
    }
    throw new Error("Runs stay open, or tasks stay due");
  }

  compare({ tasks, runs, alarm, wakesIn }: Snapshot): Compared {
    const declared = [...this.#model.tasks].toSorted(([a], [b]) => a.localeCompare(b));
    const isArmed = declared.some(([, { isPaused }]) => !isPaused);
    const seen = tasks.map(({ taskId, next, counts }, index) => ({
      taskId,
      next,
      missed: counts.missed,
      runs: (runs[index] ?? []).map((run) => this.#runOf(run)).toSorted(),
    }));
    return {
      seen: {
        tasks: seen.toSorted((a, b) => a.taskId.localeCompare(b.taskId)),
        calledTwice: this.#calledTwice,
        hasWake: isArmed ? wakesIn !== null : "either",
        // L1: the object has started since it lost its alarm.
        hasAlarm: wakesIn === null ? "either" : alarm !== null,
      },
      expected: {
        tasks: declared.map(([taskId, { next, isPaused, runs: occurrences, triggers }]) => ({
          taskId,
          next: isPaused ? null : next,
          missed: 0,
          runs: [
            ...[...occurrences].map(([occurrence, how]) => `${occurrence} ${how}`),
            ...[...triggers].map((time) => `trigger ${time} ran`),
          ].toSorted(),
        })),
        calledTwice: [],
        hasWake: isArmed ? true : "either",
        hasAlarm: wakesIn === null ? "either" : true,
      },
    };
  }

  #runOf({ scheduledFor, status, cause }: ScheduledRun): string {
    const mayFail = this.#model.fails !== "never" || this.#hasCrashed;
    const hasRun = status === "completed" || (status === "failed" && mayFail);
    return `${cause === "trigger" ? "trigger " : ""}${Number(scheduledFor)} ${hasRun ? "ran" : status}`;
  }
}
