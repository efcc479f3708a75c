/**
 * Reads what an app declares: every default filled in, every option checked.
 * What decides a task's times is in its fingerprint; all else may change
 * without anything in storage changing.
 */

import { LAST_ALARM } from "../../core/clock.ts";
import type { Duration } from "../../core/duration.ts";
import type { Backoff } from "../../core/failures.ts";
import { failureOf } from "../../core/failures.ts";
import { INSTANT_FORMS, type Instant, instantMs } from "../../core/instant.ts";
import {
  countOf,
  durationOf,
  InvalidOptionError,
  invalidOption,
  isPlainObject,
  problemOfNames,
} from "../../core/options.ts";
import { digest } from "../../core/text.ts";
import { MAX_TIMER_MS } from "../../core/timeout.ts";
import { DAY_MS } from "../calendar/civil.ts";
import { editDistance } from "../language/nearest.ts";
import { parseSchedule, readZone } from "../language/parse.ts";
import { readLocalDate } from "../language/values.ts";
import { isSameZone, zoneOf } from "../language/zones.ts";
import type { LocalDate, ParsedSchedule } from "../rule.ts";
import type { Overlap, RetryOptions, ScheduledTask } from "../types.ts";

const YEAR_MS = 365 * DAY_MS;
const TASK_ID = /^[A-Za-z0-9_-]{1,1000}$/;
const OVERLAPS: readonly Overlap[] = ["skip", "queue", "cancelPrevious", "allow"];

const NAMES = [
  "schedule",
  "timezone",
  "description",
  "metadata",
  "retry",
  "prompt",
  "handler",
  "catchUp",
  "overlap",
  "jitter",
  "startAt",
  "endAt",
  "maxRuns",
  "pauseOnFailure",
  "except",
  "timeout",
] as const satisfies readonly (keyof ScheduledTask)[];
const RETRY_NAMES = [
  "maxAttempts",
  "baseDelayMs",
  "maxDelayMs",
] as const satisfies readonly (keyof RetryOptions)[];
/** A field that is so near to an option is taken for a mistyped one. */
const NEAR = 2;

/** A declaration that can be understood. */
export type DeclaredTask = {
  readonly taskId: string;
  /** With the exceptions of the text and of the options. */
  readonly schedule: ParsedSchedule;
  /** No occurrence before it, epoch milliseconds. */
  readonly startAt: number;
  /** No occurrence at it or after. */
  readonly endAt: number;
  readonly fingerprint: string;
  readonly action: Pick<ScheduledTask, "prompt" | "handler">;
  readonly description: string | undefined;
  readonly metadata: ScheduledTask["metadata"];
  readonly retry: RetryOptions | undefined;
  readonly maxAttempts: number;
  readonly backoff: Backoff;
  /** How old an occurrence may be that is caught up; `"latest"` for that one alone. */
  readonly catchUpMs: number | "latest";
  readonly overlap: Overlap;
  /** How long after its slot it fires. */
  readonly offsetMs: number;
  readonly maxRuns: number;
  readonly pauseAfter: number;
  readonly timeoutMs: number;
  /** Fields that are ignored, and were probably meant to be options: each as a message names it. */
  readonly ignored: readonly string[];
};

export type DeclarationContext = {
  readonly defaultTimezone: string | undefined;
  readonly hasPrompts: boolean;
  /** In [0, 1), the task's own. */
  readonly jitterShare: (taskId: string) => number;
};

/**
 * Fields that are no options are left alone, as Think does; null stands for a field that is left out.
 *
 * @throws InvalidOptionError for an invalid option
 * @throws ScheduleSyntaxError for a text that is no schedule
 * @throws AggregateError with all of these errors, where there are several
 */
export function readTask(
  taskId: string,
  task: ScheduledTask,
  { defaultTimezone, hasPrompts, jitterShare }: DeclarationContext,
): DeclaredTask {
  if (!TASK_ID.test(taskId)) {
    throw invalidOption("the task's id", taskId, "1 to 1000 letters, digits, _ and -");
  }
  if (!isPlainObject(task)) throw invalidOption("the task", task, "an object with a schedule");
  const retry = task.retry ?? undefined;
  const { schedule, limits, jitterMs, ...rest } = readParts({
    schedule: () => scheduleOf(task, defaultTimezone),
    action: () => actionOf(task, hasPrompts),
    metadata: () => metadataOf(task.metadata ?? undefined),
    limits: () => limitsOf(task),
    retry: () => retryOf(retry),
    maxAttempts: () => countOf("retry.maxAttempts", retry?.maxAttempts ?? 3),
    backoff: () => backoffOf(retry),
    catchUpMs: () => catchUpOf(task.catchUp),
    overlap: () => overlapOf(task.overlap),
    jitterMs: () => jitterOf(task.jitter),
    maxRuns: () => countOf("maxRuns", task.maxRuns ?? Number.POSITIVE_INFINITY),
    pauseAfter: () => pauseAfterOf(task.pauseOnFailure),
    timeoutMs: () => timeoutOf(task.timeout),
  });
  const { startAt, endAt } = limits;
  const { text, timezone, except } = schedule;
  return {
    ...rest,
    ...limits,
    taskId,
    schedule,
    fingerprint: digest(JSON.stringify([text, timezone, String(startAt), String(endAt), except])),
    description: typeof task.description === "string" ? task.description : undefined,
    offsetMs: Math.floor(jitterShare(taskId) * jitterMs),
    ignored: mistypedIn(task),
  };
}

/** Reads all parts, also after one that is wrong, so that one start tells of all that is. */
function readParts<Parts extends object>(
  readers: {
    readonly [Name in keyof Parts]: () => Parts[Name];
  },
): Parts {
  const parts: Partial<Parts> = {};
  const errors: Error[] = [];
  for (const name of Object.keys(readers) as (keyof Parts)[]) {
    try {
      parts[name] = readers[name]();
    } catch (thrown) {
      errors.push(thrown instanceof Error ? thrown : new Error(failureOf(thrown).message));
    }
  }
  const [first, ...others] = errors;
  if (first === undefined) return parts as Parts;
  if (others.length === 0) throw first;
  throw new AggregateError(errors, errors.map(({ message }) => message).join("\n"));
}

function mistypedIn(task: ScheduledTask): string[] {
  const fields = Object.keys(task).filter((name) => !NAMES.some((known) => known === name));
  const meant = fields.flatMap((name) => {
    const lower = name.toLowerCase();
    const near = NAMES.find((known) => editDistance(lower, known.toLowerCase()) <= NEAR);
    return near === undefined ? [] : [`${JSON.stringify(name)} (did you mean "${near}"?)`];
  });
  const ofRetry = Object.keys(task.retry ?? {}).filter(
    (name) => !RETRY_NAMES.some((known) => known === name),
  );
  return [...meant, ...ofRetry.map((name) => JSON.stringify(`retry.${name}`))];
}

function metadataOf(metadata: ScheduledTask["metadata"]): ScheduledTask["metadata"] {
  if (!isBag(metadata)) throw invalidOption("metadata", metadata, "an object that JSON can hold");
  return metadata;
}

function isBag(metadata: unknown): boolean {
  if (metadata === undefined) return true;
  if (typeof metadata !== "object" || metadata === null || Array.isArray(metadata)) return false;
  try {
    return JSON.stringify(metadata).startsWith("{");
  } catch {
    // It holds itself, or a bigint.
    return false;
  }
}

function actionOf(task: ScheduledTask, hasPrompts: boolean): DeclaredTask["action"] {
  const { prompt, handler } = task;
  if ((prompt === undefined) === (handler === undefined)) {
    const given =
      prompt === undefined ? "neither a prompt nor a handler" : "a prompt and a handler";
    throw new InvalidOptionError("handler", `The task has ${given}; expected exactly one of them.`);
  }
  if (handler !== undefined) {
    if (typeof handler !== "function") throw invalidOption("handler", handler, "a function");
    return task;
  }
  if (typeof prompt !== "function" && (typeof prompt !== "string" || prompt.trim() === "")) {
    throw invalidOption(
      "prompt",
      prompt,
      "a text that is not empty, or a function that returns one",
    );
  }
  if (hasPrompts) return task;
  throw new InvalidOptionError(
    "prompt",
    "This scheduler cannot run prompts. Give it the port `prompts`, as DurableThink does, or declare a handler instead.",
  );
}

function scheduleOf(task: ScheduledTask, defaultTimezone: string | undefined): ParsedSchedule {
  const { schedule: text, except = [] } = task;
  if (typeof text !== "string") throw invalidOption("schedule", text, "a text");
  const own = task.timezone ?? undefined;
  const timezone = own ?? defaultFor(task, defaultTimezone);
  const schedule = parseSchedule(text, timezone === undefined ? {} : { timezone });
  checkReach(schedule);
  // In its one spelling, which the text's may differ from.
  const zone = timezone === undefined ? undefined : zoneOf(timezone);
  const inText = schedule.timezone;
  if (own !== undefined && inText !== undefined && !isSameZone(inText, own)) {
    throw new InvalidOptionError(
      "timezone",
      `timezone is ${JSON.stringify(own)}, and the schedule says ${JSON.stringify(inText)}; expected one of them.`,
    );
  }
  if (!Array.isArray(except)) throw invalidOption("except", except, "a list of dates");
  if (except.length === 0) return schedule;
  const inZone = inText ?? zone;
  if (inZone === undefined) {
    throw new InvalidOptionError(
      "except",
      "except names dates, and the schedule has no zone in which to read them; set timezone, or end the schedule with `in <zone>`.",
    );
  }
  const dates = new Set([...schedule.except, ...except.map(dateOf)]);
  return { ...schedule, timezone: inZone, except: [...dates].sort((a, b) => a - b) };
}

/** An invalid default zone is an error of those tasks alone that need one. */
function defaultFor(
  { schedule, except = [] }: ScheduledTask,
  given: string | undefined,
): string | undefined {
  if (given === undefined || zoneOf(given) !== undefined) return given;
  // Whatever needs the default zone takes the one that there is.
  const [one, other] = ["UTC", "Asia/Tokyo"].map(
    (timezone) => parseSchedule(schedule, { timezone }).timezone,
  );
  const isNeeded = one !== other || (one === undefined && except.length > 0);
  return isNeeded ? readZone(given, "defaultTimezone") : undefined;
}

/** @throws InvalidOptionError for a schedule without an occurrence that an alarm can be set for */
function checkReach({ text, rule, starting }: ParsedSchedule): void {
  const first = rule.form === "once" ? rule.at : starting;
  if (first === undefined || first < LAST_ALARM) return;
  throw invalidOption(
    "schedule",
    text,
    "a time before the year 2189, the last for which an alarm can be set",
  );
}

function limitsOf({ startAt: start, endAt: end }: ScheduledTask) {
  const startAt = start === undefined ? Number.NEGATIVE_INFINITY : instantOf("startAt", start);
  if (startAt >= LAST_ALARM) {
    throw invalidOption("startAt", new Date(startAt).toISOString(), "a time before the year 2189");
  }
  const endAt = end === undefined ? Number.POSITIVE_INFINITY : instantOf("endAt", end);
  if (endAt <= startAt) throw invalidOption("endAt", end, "an instant after startAt");
  return { startAt, endAt };
}

function dateOf(text: unknown): LocalDate {
  const date = typeof text === "string" ? readLocalDate(text) : undefined;
  if (date === undefined) throw invalidOption("except", text, "dates such as 2026-12-25");
  return date;
}

function instantOf(option: string, value: Instant): number {
  const ms = instantMs(value);
  if (ms === undefined) throw invalidOption(option, value, INSTANT_FORMS);
  return ms;
}

function retryOf(retry: RetryOptions | undefined): RetryOptions | undefined {
  if (retry === undefined || isPlainObject(retry)) return retry;
  throw invalidOption("retry", retry, `an object with ${RETRY_NAMES.join(", ")}`);
}

function backoffOf({ baseDelayMs = 100, maxDelayMs = 3_000 }: RetryOptions = {}): Backoff {
  const baseMs = countOf("retry.baseDelayMs", baseDelayMs);
  if (baseMs > YEAR_MS) {
    throw invalidOption(
      "retry.baseDelayMs",
      baseDelayMs,
      `at most ${YEAR_MS} milliseconds (365 days)`,
    );
  }
  return { baseMs, capMs: Math.min(countOf("retry.maxDelayMs", maxDelayMs), YEAR_MS) };
}

function overlapOf(overlap: Overlap = "skip"): Overlap {
  if (OVERLAPS.includes(overlap)) return overlap;
  throw invalidOption("overlap", overlap, `one of ${listed(OVERLAPS)}`);
}

function jitterOf(jitter: ScheduledTask["jitter"]): number {
  const ms = jitter === undefined ? 0 : durationOf("jitter", jitter);
  if (ms > YEAR_MS) throw invalidOption("jitter", jitter, "at most 365 days");
  return ms;
}

function timeoutOf(timeout: Duration = "15 minutes"): number {
  const ms = durationOf("timeout", timeout);
  if (ms > MAX_TIMER_MS) throw invalidOption("timeout", timeout, "at most 24 days");
  return ms;
}

function catchUpOf(catchUp: ScheduledTask["catchUp"] = "latest"): number | "latest" {
  if (catchUp === "latest") return "latest";
  if (catchUp === "none") return 0;
  if (catchUp === "all") return DAY_MS;
  const problem = problemOfNames("catchUp", catchUp, ["all"]);
  if (problem) {
    throw invalidOption("catchUp", catchUp, '"latest", "none", "all" or { all: "6 hours" }');
  }
  return durationOf("catchUp.all", catchUp.all as Duration);
}

function pauseAfterOf(option: ScheduledTask["pauseOnFailure"] = false): number {
  if (typeof option === "boolean") return option ? 1 : Infinity;
  return countOf("pauseOnFailure", option);
}

function listed(names: readonly string[]): string {
  return names.map((name) => JSON.stringify(name)).join(", ");
}
