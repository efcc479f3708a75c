/**
 * A model of the scheduler, and its commands: which occurrences must have run. These are all that passed while their task was
 * declared and not paused, each once. The tasks catch up all and queue, so no occurrence is left out by policy.
 */

import fc from "fast-check";
import { stepsOf } from "../../support/model-test.ts";
import { MINUTE } from "../../support/scheduler.ts";

export const IDS = ["a", "b"] as const;
export type TaskId = (typeof IDS)[number];
type Verb = "pause" | "resume" | "trigger" | "backfill" | "skipNext";

/** Whether the tasks' handlers fail. */
export type HandlerFails = "never" | "once" | "always";

export type SchedulerCommand =
  /** Time passes, and the alarm comes. */
  | { readonly op: "wait"; readonly minutes: number }
  | { readonly op: "declare"; readonly id: TaskId; readonly every: number | undefined }
  | { readonly op: Verb; readonly id: TaskId }
  | { readonly op: "fail"; readonly fails: HandlerFails }
  /** The object crashes, and the platform loses its alarm. */
  | { readonly op: "lose alarm" };

/** Mostly the same task, so that several commands are about it. */
const id = fc.constantFrom<TaskId>("a", "a", "b");
const repeatable: fc.Arbitrary<SchedulerCommand> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      op: fc.constant("wait" as const),
      minutes: fc.integer({ min: 1, max: 60 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      op: fc.constant("declare" as const),
      id,
      every: fc.constantFrom(undefined, undefined, 10, 15, 25),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      op: fc.constantFrom("pause", "resume", "trigger", "backfill" as const),
      id,
    }),
  },
);

const others: fc.Arbitrary<SchedulerCommand> = fc.oneof(
  // Called again after a crash, it would skip another occurrence: it is never crashed.
  { weight: 2, arbitrary: fc.record({ op: fc.constant("skipNext" as const), id }) },
  {
    weight: 2,
    arbitrary: fc.record({
      op: fc.constant("fail" as const),
      fails: fc.constantFrom<HandlerFails[]>("never", "once", "always"),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ op: "lose alarm" as const }) },
);

export const schedulerSteps = fc.oneof(
  {
    weight: 25,
    arbitrary: stepsOf(repeatable, {
      weights: { command: 8, crash: 1, pass: 0, crashIn: 16 },
      times: [0],
      maxWrite: 14,
    }),
  },
  { weight: 5, arbitrary: others },
);

type Task = {
  every: number;
  anchor: number;
  next: number;
  isPaused: boolean;
  /** By occurrence. */
  runs: Map<number, "ran" | "skipped">;
  triggers: Set<number>;
};

export class SchedulerModel {
  readonly tasks = new Map<TaskId, Task>();
  fails: HandlerFails = "never";
  /** Tasks that are not declared: they keep their runs and their pause (S4). */
  readonly #omitted = new Map<TaskId, Task>();

  /** @param now before the command, epoch milliseconds */
  apply(command: SchedulerCommand, now: number): void {
    if (command.op === "wait") this.#pass(now + command.minutes * MINUTE);
    else if (command.op === "declare") this.declare(command.id, command.every, now);
    else if (command.op === "fail") this.fails = command.fails;
    else if (command.op !== "lose alarm") this.#verb(command.op, command.id, now);
  }

  declare(id: TaskId, every: number | undefined, now: number): void {
    const task = this.tasks.get(id);
    const omitted = this.#omitted.get(id);
    if (every === undefined) {
      if (task) this.#omitted.set(id, task);
      this.tasks.delete(id);
    } else if (omitted) {
      this.#omitted.delete(id);
      this.tasks.set(id, omitted);
      if (omitted.every === every)
        omitted.next = Math.max(omitted.next, occurrenceAfter(omitted, now));
      else Object.assign(omitted, { every, anchor: now, next: now + every * MINUTE });
    } else if (!task) {
      const fresh = { every, anchor: now, next: now + every * MINUTE, isPaused: false };
      this.tasks.set(id, { ...fresh, runs: new Map(), triggers: new Set() });
    } else if (task.every !== every) {
      Object.assign(task, { every, anchor: now, next: now + every * MINUTE });
    }
  }

  #verb(verb: Verb, id: TaskId, now: number): void {
    const task = this.tasks.get(id);
    if (!task) return;
    if (verb === "pause") task.isPaused = true;
    else if (verb === "resume") {
      if (task.isPaused) task.next = occurrenceAfter(task, now);
      task.isPaused = false;
    } else if (verb === "trigger") task.triggers.add(now);
    else if (verb === "backfill") {
      const end = task.isPaused ? now : Math.min(now, task.next - 1);
      for (
        let occurrence = occurrenceAfter(task, task.anchor);
        occurrence <= end;
        occurrence = occurrenceAfter(task, occurrence)
      ) {
        task.runs.set(occurrence, "ran");
      }
    } else if (!task.isPaused) {
      // An occurrence that an edit has brought back may have its run already.
      if (!task.runs.has(task.next)) task.runs.set(task.next, "skipped");
      task.next = occurrenceAfter(task, task.next);
    }
  }

  #pass(now: number): void {
    for (const task of this.tasks.values()) {
      if (task.isPaused) continue;
      for (; task.next <= now; task.next = occurrenceAfter(task, task.next)) {
        if (!task.runs.has(task.next)) task.runs.set(task.next, "ran");
      }
    }
  }
}

/** The first occurrence of the task's grid after a time. */
function occurrenceAfter({ anchor, every }: Task, time: number): number {
  const ms = every * MINUTE;
  return anchor + Math.max(1, Math.floor((time - anchor) / ms) + 1) * ms;
}
