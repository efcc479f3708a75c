/** What an app declares, checked by the compiler. */

import type { IsInterval, Schedule } from "./language/literal.ts";
import type { ScheduledTask, ScheduledTaskContext } from "./types.ts";

/**
 * The tasks as they are. A text that is known at compile time and is no schedule is an error where
 * it stands; one that is built at run time is checked at the start (S4), and by `parseSchedule()` at
 * any time.
 *
 * @example
 * defineScheduledTasks({
 *   digest: { schedule: "every weekday at 09:00 in Europe/London", handler: ({ idempotencyKey }) => { ... } },
 * })
 */
export function defineScheduledTasks<const Tasks extends AnyTasks>(
  tasks: Tasks & CheckedTasks<Tasks>,
): Tasks {
  return tasks;
}

/**
 * What the compiler infers the tasks from. As loose as can be: one task that did not fit would make it infer nothing, and
 * so hide the errors of all others.
 */
export type AnyTasks = Readonly<Record<string, object>>;

/**
 * What the tasks must also be, so that each mistake is shown where it stands.
 *
 * @example
 * function define<const Tasks extends AnyTasks>(tasks: Tasks & CheckedTasks<Tasks>): Tasks
 */
export type CheckedTasks<Tasks> = { readonly [Id in keyof Tasks]: CheckedTask<Tasks[Id]> };

/** Names of properties stand outside of all conditions: only so the compiler knows the type of a handler's argument. */
type CheckedTask<Task> = {
  readonly schedule?: CheckedSchedule<Task>;
  readonly timezone?: CheckedZone<Task>;
  readonly prompt?: CheckedPrompt<Task>;
  readonly handler?: ((context: ScheduledTaskContext) => unknown) | CheckedHandler<Task>;
} & { readonly [Name in Missing<Task>]: string } & {
  readonly [Name in Exclude<
    keyof ScheduledTask,
    "schedule" | "timezone" | "prompt" | "handler"
  >]?: CheckedOption<Task, Name>;
};

/**
 * The sentence in an object: two literals that exclude each other would make
 * a `never` of the whole task, and the compiler would say no more than that.
 */
type Mistake<Sentence> = { readonly mistake: Sentence };

type CheckedSchedule<Task> = Task extends { readonly schedule: infer Text extends string }
  ? Schedule<Text> extends Text
    ? Task extends { readonly prompt: unknown } | { readonly handler: unknown }
      ? Text
      : Mistake<"a task has a prompt or a handler">
    : Mistake<Exclude<Schedule<Text>, Text>>
  : // The compiler asks for it before it knows the task, too.
    Task extends { readonly schedule: number | boolean | object | null | undefined }
    ? Mistake<"a schedule is a text">
    : unknown;

/** An interval has a use for a zone only where there are dates. */
type CheckedZone<Task> = Task extends {
  readonly schedule: infer Text extends string;
  readonly timezone: string;
}
  ? IsInterval<Text> extends true
    ? Task extends { readonly except: readonly string[] }
      ? unknown
      : Mistake<"an interval counts real time: remove timezone">
    : unknown
  : CheckedOption<Task, "timezone">;

type CheckedPrompt<Task> = Task extends { readonly prompt: unknown; readonly handler: unknown }
  ? Mistake<"a task has a prompt or a handler, and not both">
  : CheckedOption<Task, "prompt">;

/** Anything, as long as the compiler does not know the task; else it has to be a function. */
type CheckedHandler<Task> = Task extends { readonly handler: infer Handler }
  ? unknown extends Handler
    ? NonNullable<unknown>
    : never
  : NonNullable<unknown>;

/** A property that has to be there: one by itself, for its name stands in a condition. */
type Missing<Task> = object extends Task
  ? never
  : "schedule" extends keyof Task
    ? never
    : "schedule";

type CheckedOption<Task, Name extends keyof ScheduledTask> = Task extends {
  readonly [Key in Name]?: ScheduledTask[Name] | undefined;
}
  ? unknown
  : Mistake<ScheduledTask[Name]>;
