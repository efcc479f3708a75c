/** A parsed schedule: the output of the language, and the input of the calendar. Plain, frozen data. */

/** A date in a zone's calendar, as days since 1970-01-01. */
export type LocalDate = number;

/** The time that a zone's clock shows, as the epoch milliseconds at which a UTC clock shows it. */
export type LocalTime = number;

/** By ISO 8601: 1 is Monday, 7 is Sunday. */
export type Weekday = 1 | 2 | 3 | 4 | 5 | 6 | 7;

/** A day of a month. A month without that day has no occurrence. */
export type MonthDay =
  | { readonly day: number }
  | { readonly last: "day" }
  /** -1 is the last one; `"working"` is any day from Monday to Friday. */
  | { readonly nth: 1 | 2 | 3 | 4 | 5 | -1; readonly weekday: Weekday | "working" };

/** The dates of a rule. Steps of several days or weeks count from `starting`, or from 1970-01-01 (weeks: Monday 1969-12-29). */
export type Dates =
  | { readonly by: "days"; readonly every: number }
  | { readonly by: "weeks"; readonly every: number; readonly weekdays: readonly Weekday[] }
  | { readonly by: "months"; readonly on: readonly DaysOfMonths[] };

/** A day of some months, 1 to 12. */
export type DaysOfMonths = { readonly months: readonly number[]; readonly day: MonthDay };

export type Rule =
  /** Real time, from one occurrence to the next. */
  | { readonly form: "interval"; readonly ms: number }
  /** Minutes after 00:00 of the date, ascending; 1440 or more where a window goes past midnight. */
  | { readonly form: "dates"; readonly dates: Dates; readonly minutes: readonly number[] }
  /** Five fields, or six with seconds first. */
  | { readonly form: "cron"; readonly expression: string }
  | { readonly form: "once"; readonly at: LocalTime };

/** What `parseSchedule()` returns. */
export type ParsedSchedule = {
  /** The schedule in its usual spelling, without its zone. */
  readonly text: string;
  /** Whether it counts real time, or has local times. */
  readonly kind: "interval" | "wall-clock";
  /** An IANA name, or an offset as `+02:00`. Every `wall-clock` schedule has one, and an interval whose limits are dates. */
  readonly timezone: string | undefined;
  readonly rule: Rule;
  /** No occurrence before this; undefined for no limit. */
  readonly starting: LocalTime | undefined;
  /** No occurrence at or after this: the end of the date that the text names. */
  readonly until: LocalTime | undefined;
  /** No occurrence on these, ascending. In a window that goes past midnight, the date on which it begins counts. */
  readonly except: readonly LocalDate[];
};
