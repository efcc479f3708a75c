/**
 * Random sequences of what happens to a scheduler, beside a model that knows
 * which slots have to have run: all that have passed while their task was
 * declared and not paused, each once. The tasks catch up all and queue, so
 * that nothing is lost by policy.
 */

import fc from "fast-check";
import type { ScheduledTaskContext, ScheduledTasks } from "../../../src/scheduler/index.ts";
import { sleep } from "../../support/ledger.ts";
import { MINUTE, MONDAY, Stage, task } from "../../support/scheduler.ts";

const IDS = ["a", "b"] as const;
type Id = (typeof IDS)[number];
type Fail = "never" | "once" | "always";

export type Step = (
  | { readonly kind: "pass"; readonly minutes: number }
  | { readonly kind: "declare"; readonly id: Id; readonly every: number | undefined }
  | { readonly kind: "pause" | "resume" | "trigger" | "backfill" | "skipNext"; readonly id: Id }
  | { readonly kind: "fail"; readonly fail: Fail }
  /** With its alarm, as the platform loses it. */
  | { readonly kind: "crash"; readonly losesAlarm: boolean }
) & {
  /** The object dies before the nth write of this step. */
  readonly crashAt?: number | undefined;
};

const id = fc.constantFrom(...IDS);
const crashAt = fc.option(fc.integer({ min: 1, max: 14 }), { nil: undefined, freq: 3 });
export const STEP: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("pass" as const),
      minutes: fc.integer({ min: 1, max: 60 }),
      crashAt,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("declare" as const),
      id,
      every: fc.constantFrom(undefined, 10, 15, 25),
      crashAt,
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constantFrom("pause", "resume", "trigger", "backfill" as const),
      id,
      crashAt,
    }),
  },
  // Called again after a crash, it would leave out another one.
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("skipNext" as const), id }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("fail" as const),
      fail: fc.constantFrom<Fail[]>("never", "once", "always"),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("crash" as const), losesAlarm: fc.boolean() }),
  },
);

type Model = {
  every: number;
  anchor: number;
  next: number;
  isPaused: boolean;
  /** By slot. */
  runs: Map<number, "ran" | "skipped">;
  triggers: Set<number>;
};

export class Play {
  crashes = 0;
  #hasCrashed = false;
  #fail: Fail = "never";
  readonly #tasks = new Map<Id, Model>();
  readonly #pausedOnes = new Set<Id>();
  readonly #calls = new Set<string>();
  readonly #problems: string[] = [];
  #storage: DurableObjectStorage | undefined;
  readonly #stage = new Stage({
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
      [...this.#tasks].map(([taskId, { every }]) => [
        taskId,
        task(handler, { ...options, schedule: `every ${every} minutes` }),
      ]),
    );
  }

  async #handle({ occurrenceKey, attempt }: ScheduledTaskContext): Promise<void> {
    const fail = this.#fail;
    // What leaves an object waits until all that was written before is durable.
    await this.#storage?.sync();
    const call = `${occurrenceKey} of ${this.#lives(occurrenceKey)} #${attempt}`;
    if (this.#calls.has(call)) this.#problems.push(`called twice: ${call}`);
    this.#calls.add(call);
    if (fail === "always" || (fail === "once" && attempt === 1)) throw new Error(fail);
  }

  /** A task that is declared again is a new one, and may backfill what the old one has run. */
  #lives(occurrenceKey: string): string {
    const model = this.#tasks.get(occurrenceKey.split(":")[0] as Id);
    return String(model?.anchor ?? "gone");
  }

  async play(steps: readonly Step[]): Promise<void> {
    for (const taskId of IDS) this.#declare(taskId, 10, this.#stage.now);
    await this.#stage.start();
    for (const [index, step] of steps.entries()) {
      await this.#step(step);
      await this.#settle();
      await this.#compare(`step ${index} (${JSON.stringify(step)})`);
    }
  }

  async #step(step: Step): Promise<void> {
    const stage = this.#stage;
    const { now } = stage;
    if (step.crashAt !== undefined) await this.#armCrash(step.crashAt);
    switch (step.kind) {
      case "pass":
        stage.script.now = now + step.minutes * MINUTE;
        this.#pass(stage.now);
        await stage.wake().catch(() => false);
        break;
      case "declare":
        this.#declare(step.id, step.every, now);
        await this.#call((scheduler) => scheduler.reconcile());
        break;
      case "fail":
        this.#fail = step.fail;
        break;
      case "crash":
        this.#noteCrash();
        if (step.losesAlarm) await stage.inside((_, { storage }) => storage.deleteAlarm());
        await stage.crash();
        break;
      default:
        await this.#verb(step.kind, step.id, now);
    }
    const callOff = stage.inside(({ meter }) => {
      meter.onWrite = undefined;
    });
    // One that dies now has nothing to be called off.
    await callOff.catch(() => {});
  }

  async #verb(
    kind: "pause" | "resume" | "trigger" | "backfill" | "skipNext",
    taskId: Id,
    now: number,
  ): Promise<void> {
    const model = this.#tasks.get(taskId);
    if (!model) return;
    if (kind === "pause") {
      model.isPaused = true;
      await this.#call((scheduler) => scheduler.pause(taskId));
    } else if (kind === "resume") {
      if (model.isPaused) model.next = after(model, now);
      model.isPaused = false;
      await this.#call((scheduler) => scheduler.resume(taskId));
    } else if (kind === "trigger") {
      model.triggers.add(now);
      await this.#call((scheduler) => scheduler.trigger(taskId, { key: String(now) }));
    } else if (kind === "backfill") {
      const end = model.isPaused ? now : Math.min(now, model.next - 1);
      for (let slot = after(model, model.anchor); slot <= end; slot = after(model, slot)) {
        model.runs.set(slot, "ran");
      }
      const range = { from: new Date(MONDAY), to: new Date(now + 1) };
      await this.#call((scheduler) => scheduler.backfill(taskId, range));
    } else {
      if (!model.isPaused) {
        // A slot that an edit has brought back may have its run already.
        if (!model.runs.has(model.next)) model.runs.set(model.next, "skipped");
        model.next = after(model, model.next);
      }
      await this.#call((scheduler) => scheduler.skipNext(taskId));
    }
  }

  #declare(taskId: Id, every: number | undefined, now: number): void {
    const model = this.#tasks.get(taskId);
    if (every === undefined) {
      if (model?.isPaused) this.#pausedOnes.add(taskId);
      this.#tasks.delete(taskId);
    } else if (!model) {
      // A pause survives a deploy that leaves the task out (S4).
      const isPaused = this.#pausedOnes.delete(taskId);
      const fresh = { every, anchor: now, next: now + every * MINUTE, isPaused };
      this.#tasks.set(taskId, { ...fresh, runs: new Map(), triggers: new Set() });
    } else if (model.every !== every) {
      Object.assign(model, { every, anchor: now, next: now + every * MINUTE });
    }
  }

  #pass(now: number): void {
    for (const model of this.#tasks.values()) {
      if (model.isPaused) continue;
      for (; model.next <= now; model.next = after(model, model.next)) {
        if (!model.runs.has(model.next)) model.runs.set(model.next, "ran");
      }
    }
  }

  /** A caller that was not told asks again. */
  async #call(
    work: (scheduler: Parameters<Parameters<Stage["in"]>[0]>[0]["scheduler"]) => Promise<unknown>,
  ): Promise<void> {
    for (let tries = 0; ; tries++) {
      try {
        await this.#stage.in(({ scheduler }) => work(scheduler));
        return;
      } catch (error) {
        if (tries >= 3) throw error;
      }
    }
  }

  #armCrash(write: number): Promise<void> {
    return this.#stage.inside(({ meter }, ctx) => {
      meter.reset();
      meter.onWrite = (at) => {
        if (at !== write) return;
        this.#noteCrash();
        ctx.abort("crash");
      };
    });
  }

  #noteCrash(): void {
    this.crashes++;
    this.#hasCrashed = true;
  }

  /** Until nothing is open. */
  async #settle(): Promise<void> {
    for (let tries = 0; tries < 40; tries++) {
      const isQuiet = await this.#stage
        .in((_, { storage: { sql } }) => {
          const open = sql.exec("SELECT 1 FROM perdure_runs WHERE ended_at IS NULL").toArray();
          const due = sql
            .exec(
              "SELECT 1 FROM perdure_tasks WHERE paused_at IS NULL AND next_at <= ?",
              this.#stage.now,
            )
            .toArray();
          return open.length + due.length === 0;
        })
        .catch(() => false);
      if (isQuiet) return;
      if (tries > 2) await this.#stage.wake().catch(() => false);
      await sleep(5);
    }
    throw new Error("It never came to rest");
  }

  async #compare(where: string): Promise<void> {
    const found = await this.#stage.in(async ({ scheduler }) => {
      const tasks = await scheduler.list();
      const runs = await Promise.all(
        tasks.map(({ taskId }) => scheduler.runs(taskId, { limit: 1_000 })),
      );
      return { tasks, runs };
    });
    const problems = [...this.#problems];
    const ids = found.tasks.map(({ taskId }) => taskId).toSorted();
    if (String(ids) !== String([...this.#tasks.keys()].toSorted())) problems.push(`tasks ${ids}`);
    for (const [index, info] of found.tasks.entries()) {
      const model = this.#tasks.get(info.taskId as Id);
      if (!model) continue;
      const next = model.isPaused ? null : model.next;
      if (info.next !== next) {
        problems.push(`${info.taskId}: next is ${info.next}, not ${next && new Date(next)}`);
      }
      const runs = (found.runs[index] ?? []).map(({ scheduledFor, status, cause }) => {
        const isFailed = status === "failed" && (this.#fail !== "never" || this.#hasCrashed);
        const how = status === "completed" || isFailed ? "ran" : status;
        return `${cause === "trigger" ? "trigger " : ""}${scheduledFor} ${how}`;
      });
      const expected = [
        ...[...model.runs].map(([slot, how]) => `${slot} ${how}`),
        ...[...model.triggers].map((time) => `trigger ${time} ran`),
      ];
      const difference = [
        ...runs.filter((run) => !expected.includes(run)).map((run) => `+${run}`),
        ...expected.filter((run) => !runs.includes(run)).map((run) => `-${run}`),
      ];
      if (difference.length > 0) problems.push(`${info.taskId}: ${difference.join(", ")}`);
      if (info.counts.missed > 0) problems.push(`${info.taskId}: ${info.counts.missed} missed`);
    }
    const wakes = await this.#stage.wakesIn();
    const isArmed = [...this.#tasks.values()].some(({ isPaused }) => !isPaused);
    if (isArmed && wakes === null) problems.push("no wake");
    // L1: the object has started since it lost its alarm.
    const alarm = await this.#stage.inside((_, { storage }) => storage.getAlarm());
    if (wakes !== null && alarm === null) problems.push("no alarm");
    if (problems.length > 0) throw new Error(`${where}: ${problems.join("; ")}`);
  }
}

/** The first slot of the model's grid after a time. */
function after({ anchor, every }: Model, time: number): number {
  const ms = every * MINUTE;
  return anchor + Math.max(1, Math.floor((time - anchor) / ms) + 1) * ms;
}
