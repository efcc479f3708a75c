/**
 * What of `perdure/scheduler` runs anywhere: the language, its arithmetic, and names. In Node it is all of it
 * (`package.json` has a condition for that), because the room's base class can be loaded by Workers only.
 */

export type { Duration } from "../core/duration.ts";
export type { Instant } from "../core/instant.ts";
export { InvalidOptionError } from "../core/options.ts";
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
export { type AnyTasks, type CheckedTasks, defineScheduledTasks } from "./define.ts";
export { instanceIdFor } from "./keys.ts";
export { ScheduleSyntaxError } from "./language/errors.ts";
export type { Schedule } from "./language/literal.ts";
export { type ParseOptions, parseSchedule } from "./language/parse.ts";
export type { ParsedSchedule } from "./rule.ts";
