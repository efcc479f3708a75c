/** `defineScheduledTasks()`: the compiler checks the declared tasks. */

import type { IsInterval, Schedule } from "./language/literal.ts";
import type { ScheduledTask, ScheduledTaskContext } from "./types.ts";

/**
 * Returns the tasks as they are. An invalid literal schedule is a type error at its place; a schedule that is built at run
 * time is checked at the start, and by `parseSchedule()` at any time.
 *
 * @example
 * defineScheduledTasks({
 *   digest: { schedule: "every weekday at 09:00 in Europe/London", handler: ({ idempotencyKey }) => { ... } },
 * })
 */
export function defineScheduledTasks<const Tasks extends AnyTasks>(
  tasks: Tasks & CheckedTasks<Tasks>,
): Tasks & DefinedTasks {
  return tasks as Tasks & DefinedTasks;
}

declare const DEFINED: unique symbol;
/** Only in types: what the compiler has checked. */
export type DefinedTasks = { readonly [DEFINED]: "pass the tasks to defineScheduledTasks()" };

/** What the compiler infers the tasks from. Loose: one task that did not fit would hide the errors of all others. */
export type AnyTasks = Readonly<Record<string, object>>;

/**
 * What the tasks must be, so that each mistake is shown at its place.
 *
 * @example
 * function define<const Tasks extends AnyTasks>(tasks: Tasks & CheckedTasks<Tasks>): Tasks
 */
export type CheckedTasks<Tasks> = { readonly [Id in keyof Tasks]: CheckedTask<Tasks[Id]> };

/** Property names are outside of all conditions: else the compiler does not infer the type of a handler's argument. */
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

/** A sentence in an object. A plain literal would make the whole task `never`, and hide the sentence. */
type Mistake<Sentence> = { readonly mistake: Sentence };

type CheckedSchedule<Task> = Task extends { readonly schedule: infer Text extends string }
  ? Schedule<Text> extends Text
    ? Task extends { readonly prompt: unknown; readonly handler: unknown }
      ? Mistake<"a task has a prompt or a handler, and not both">
      : Task extends { readonly prompt: unknown } | { readonly handler: unknown }
        ? Text
        : Mistake<"a task has a prompt or a handler">
    : Mistake<Exclude<Schedule<Text>, Text>>
  : // The compiler also evaluates it before it knows the task.
    Task extends { readonly schedule: number | boolean | object | null | undefined }
    ? Mistake<"a schedule is a text">
    : unknown;

/** An interval needs a zone only for dates. */
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

type CheckedPrompt<Task> = Task extends { readonly prompt: (...args: infer Args) => unknown }
  ? Args extends readonly []
    ? ScheduledTask["prompt"]
    : Mistake<"a prompt takes no arguments: use a handler, which gets the occurrence">
  : ScheduledTask["prompt"];

/** Anything while the compiler does not know the task; then a function. */
type CheckedHandler<Task> = Task extends { readonly handler: infer Handler }
  ? unknown extends Handler
    ? NonNullable<unknown>
    : never
  : NonNullable<unknown>;

/** A required property, separate because its name is in a condition. */
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
