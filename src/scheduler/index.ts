/** `perdure/scheduler`: the schedule language and its calendar, which run anywhere, and the Scheduler of recurring tasks. */

export type { Clock } from "../core/clock.ts";
export { logProblem, type OnProblem, type Problem, type ProblemType } from "../core/problems.ts";
export { NewerSchemaError } from "../engine/migrations.ts";
export type { Page, PageOptions } from "../engine/page.ts";
export { createOnce } from "./create-once.ts";
export {
  InvalidTaskError,
  PromptLostError,
  RunCancelledError,
  RunInterruptedError,
  RunTimeoutError,
  UnknownTaskError,
} from "./errors.ts";
export type { SchedulerSettings } from "./options.ts";
export * from "./pure.ts";
export { Scheduler, type SchedulerOptions } from "./scheduler.ts";
export { type SchedulesOptions, schedules } from "./schedules.ts";
export { type SleepUntilNextOptions, sleepUntilNext } from "./sleep-until-next.ts";
export type { ArmedOccurrence } from "./tasks/reconcile.ts";
export type {
  CatchUp,
  Overlap,
  RetryOptions,
  RunCause,
  RunStatus,
  ScheduledRun,
  ScheduledTask,
  ScheduledTaskContext,
  ScheduledTaskInfo,
  ScheduledTasks,
} from "./types.ts";
