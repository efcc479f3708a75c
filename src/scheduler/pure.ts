/**
 * The part of `perdure/scheduler` that runs anywhere: the schedule language, the calendar, and ids. In Node it is all of
 * `perdure/scheduler` (a condition in package.json), because Workers alone can load the Scheduler's base class.
 */

export type { Instant } from "../core/options/instant.ts";
export type { Duration } from "../core/options/options.ts";
export { InvalidOptionError } from "../core/options/options.ts";
export {
  type ExplainedOccurrence,
  type ExplainOptions,
  explainSchedule,
  type ScheduleExplanation,
} from "./calendar/explain.ts";
export {
  nextOccurrence,
  type OccurrencesOptions,
  occurrences,
  TooManyOccurrencesError,
} from "./calendar/occurrences.ts";
export type { CalendarOptions } from "./calendar/options.ts";
export {
  type AnyTasks,
  type CheckedTasks,
  type DefinedTasks,
  defineScheduledTasks,
} from "./define.ts";
export { instanceIdFor } from "./keys.ts";
export { ScheduleSyntaxError } from "./language/errors.ts";
export type { Schedule } from "./language/literal.ts";
export { type ParseOptions, parseSchedule } from "./language/parse.ts";
export type { ParsedSchedule } from "./rule.ts";
