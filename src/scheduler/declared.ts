/**
 * Reads what an app declares: every default filled in, every option checked.
 * What decides a task's times is in its fingerprint; all else may change
 * without anything in storage changing.
 */

import type { Backoff } from "../core/backoff.ts";
import { LAST_ALARM } from "../core/clock.ts";
import type { Duration } from "../core/duration.ts";
import { INSTANT_FORMS, type Instant, instantMs } from "../core/instant.ts";
import {
  countOf,
  durationOf,
  InvalidOptionError,
  mistake,
  problemOfNames,
} from "../core/options.ts";
import { MAX_TIMER_MS } from "../core/timeout.ts";
import { DAY_MS } from "./calendar/civil.ts";
import { digestOf } from "./instance-id.ts";
import { parseSchedule, readZone } from "./language/parse.ts";
import { readLocalDate } from "./language/values.ts";
import { zoneOf } from "./language/zones.ts";
import type { LocalDate, ParsedSchedule } from "./rule.ts";
import type { Overlap, RetryOptions, ScheduledTask } from "./types.ts";

const YEAR_MS = 365 * DAY_MS;
const TASK_ID = /^[A-Za-z0-9_-]{1,128}$/;
const OVERLAPS: readonly Overlap[] = ["skip", "queue", "cancelPrevious", "allow"];

const NAMES = [
  "schedule",
  "timezone",
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
};

export type DeclarationContext = {
  readonly defaultTimezone: string | undefined;
  readonly hasPrompts: boolean;
  /** In [0, 1), the task's own. */
  readonly jitterShare: (taskId: string) => number;
};

/**
 * @throws InvalidOptionError for an option that cannot be meant
 * @throws ScheduleSyntaxError for a text that is no schedule
 */
export function readTask(
  taskId: string,
  task: ScheduledTask,
  context: DeclarationContext,
): DeclaredTask {
  checkNames(taskId, task);
  checkAction(task, context.hasPrompts);
  const startAt = task.startAt === undefined ? -Infinity : instantOf("startAt", task.startAt);
  const endAt = task.endAt === undefined ? Infinity : instantOf("endAt", task.endAt);
  if (endAt <= startAt) throw mistake("endAt", task.endAt, "an instant after startAt");
  const schedule = scheduleOf(task, context.defaultTimezone);
  checkReach(schedule, startAt);
  const { text, timezone, except } = schedule;
  const { metadata, retry, overlap = "skip", maxRuns = Infinity, jitter, timeout } = task;
  if (!OVERLAPS.includes(overlap)) throw mistake("overlap", overlap, `one of ${listed(OVERLAPS)}`);
  const timeoutMs = durationOf("timeout", timeout ?? "15 minutes");
  if (timeoutMs > MAX_TIMER_MS) throw mistake("timeout", timeout, "at most 24 days");
  const jitterMs = jitter === undefined ? 0 : durationOf("jitter", jitter);
  if (jitterMs > YEAR_MS) throw mistake("jitter", jitter, "at most 365 days");
  return {
    taskId,
    schedule,
    startAt,
    endAt,
    fingerprint: digestOf(JSON.stringify([text, timezone, String(startAt), String(endAt), except])),
    action: task,
    metadata,
    retry,
    ...attemptsOf(retry),
    catchUpMs: catchUpOf(task.catchUp),
    overlap,
    offsetMs: Math.floor(context.jitterShare(taskId) * jitterMs),
    maxRuns: countOf("maxRuns", maxRuns),
    pauseAfter: pauseAfterOf(task.pauseOnFailure),
    timeoutMs,
  };
}

function checkNames(taskId: string, task: ScheduledTask): void {
  if (!TASK_ID.test(taskId)) {
    throw mistake("the task's id", taskId, "1 to 128 letters, digits, _ and -");
  }
  const problem =
    task === undefined
      ? { name: taskId, message: `The task is undefined; expected an object with a schedule.` }
      : (problemOfNames("a scheduled task", task, NAMES) ??
        problemOfNames("retry", task.retry, ["maxAttempts", "baseDelayMs", "maxDelayMs"]));
  if (problem) throw new InvalidOptionError(problem.name, problem.message);
  const { schedule, metadata } = task;
  if (typeof schedule !== "string") throw mistake("schedule", schedule, "a text");
  if (!isBag(metadata)) throw mistake("metadata", metadata, "an object that JSON can hold");
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

function checkAction({ prompt, handler }: ScheduledTask, hasPrompts: boolean): void {
  if ((prompt === undefined) === (handler === undefined)) {
    const given =
      prompt === undefined ? "neither a prompt nor a handler" : "a prompt and a handler";
    throw new InvalidOptionError("handler", `The task has ${given}; expected exactly one of them.`);
  }
  if (handler !== undefined) {
    if (typeof handler !== "function") throw mistake("handler", handler, "a function");
    return;
  }
  if (typeof prompt !== "function" && (typeof prompt !== "string" || prompt.trim() === "")) {
    throw mistake("prompt", prompt, "a text that is not empty, or a function that returns one");
  }
  if (hasPrompts) return;
  throw new InvalidOptionError(
    "prompt",
    "This scheduler cannot run prompts. Give it the port `prompts`, as DurableThink does, or declare a handler instead.",
  );
}

function scheduleOf(task: ScheduledTask, defaultTimezone: string | undefined): ParsedSchedule {
  const { schedule: text, timezone: own, except = [] } = task;
  const timezone = own ?? defaultFor(task, defaultTimezone);
  const schedule = parseSchedule(text, timezone === undefined ? {} : { timezone });
  // In its one spelling, which the text's may differ from.
  const zone = timezone === undefined ? undefined : zoneOf(timezone);
  if (own !== undefined && schedule.timezone !== undefined && schedule.timezone !== zone) {
    throw new InvalidOptionError(
      "timezone",
      `timezone is ${JSON.stringify(own)}, and the schedule says ${JSON.stringify(schedule.timezone)}; expected one of them.`,
    );
  }
  if (!Array.isArray(except)) throw mistake("except", except, "a list of dates");
  if (except.length === 0) return schedule;
  const inZone = schedule.timezone ?? zone;
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
function checkReach({ text, rule, starting }: ParsedSchedule, startAt: number): void {
  if (startAt >= LAST_ALARM) {
    throw mistake("startAt", new Date(startAt).toISOString(), "a time before the year 2189");
  }
  const first = rule.form === "once" ? rule.at : starting;
  if (first === undefined || first < LAST_ALARM) return;
  throw mistake(
    "schedule",
    text,
    "a time before the year 2189, the last for which an alarm can be set",
  );
}

function dateOf(text: unknown): LocalDate {
  const date = typeof text === "string" ? readLocalDate(text) : undefined;
  if (date === undefined) throw mistake("except", text, "dates such as 2026-12-25");
  return date;
}

function instantOf(option: string, value: Instant): number {
  const ms = instantMs(value);
  if (ms === undefined) throw mistake(option, value, INSTANT_FORMS);
  return ms;
}

function attemptsOf(retry: RetryOptions = {}): { maxAttempts: number; backoff: Backoff } {
  const { maxAttempts = 3, baseDelayMs = 100, maxDelayMs = 3_000 } = retry;
  const backoff = {
    baseMs: countOf("retry.baseDelayMs", baseDelayMs),
    capMs: Math.min(countOf("retry.maxDelayMs", maxDelayMs), YEAR_MS),
  };
  if (backoff.baseMs > YEAR_MS) {
    throw mistake("retry.baseDelayMs", baseDelayMs, `at most ${YEAR_MS} milliseconds (365 days)`);
  }
  return { maxAttempts: countOf("retry.maxAttempts", maxAttempts), backoff };
}

function catchUpOf(catchUp: ScheduledTask["catchUp"] = "latest"): number | "latest" {
  if (catchUp === "latest") return "latest";
  if (catchUp === "none") return 0;
  if (catchUp === "all") return DAY_MS;
  const problem = problemOfNames("catchUp", catchUp, ["all"]);
  if (problem) {
    throw mistake("catchUp", catchUp, '"latest", "none", "all" or { all: "6 hours" }');
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
