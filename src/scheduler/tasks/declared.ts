/** Reads a declared task: checks every option, and fills in the defaults. */

import * as z from "zod";
import { LAST_ALARM } from "../../core/clock.ts";
import { failureOf } from "../../core/failures.ts";
import { preview } from "../../core/json.ts";
import {
  count,
  duration,
  flag,
  hook,
  instant,
  list,
  oneOf,
  optionsOf,
  readOptions,
} from "../../core/options/option-schemas.ts";
import type { Duration } from "../../core/options/options.ts";
import { InvalidOptionError, invalidOption, isPlainObject } from "../../core/options/options.ts";
import type { OwnerOptions } from "../../submissions/submit-options.ts";
import { DAY_MS } from "../calendar/civil.ts";
import { editDistance } from "../language/nearest.ts";
import { parseSchedule, readZone } from "../language/parse.ts";
import { readLocalDate } from "../language/values.ts";
import { isSameZone, zoneOf } from "../language/zones.ts";
import type { ParsedSchedule } from "../rule.ts";
import type { Overlap, RetryOptions, ScheduledTask, Turns } from "../types.ts";
import { fingerprintOf } from "./fingerprint.ts";

const TASK_ID = /^[A-Za-z0-9_-]{1,1000}$/;
const YEAR_MS = 365 * DAY_MS;
/** An unknown field with so few differing letters is taken for a mistyped option. */
const MAX_TYPOS = 2;

const OPTIONS = {
  metadata: z
    .custom<ScheduledTask["metadata"]>(isJsonObject, {
      error: "expected an object that JSON can hold",
    })
    .optional(),
  startAt: instant({ forAlarm: true }).default(-Infinity),
  endAt: instant().default(Infinity),
  catchUp: z
    .union(
      [
        oneOf(["latest", "none", "all"]),
        optionsOf<{ all: Duration }>()({ all: duration({ infinity: true }) }),
      ],
      { error: 'expected "latest", "none", "all" or { all: "6 hours" }' },
    )
    .default("latest"),
  overlap: oneOf<Overlap>(["skip", "queue", "cancelPrevious", "allow"]).default("skip"),
  maxWaiting: count({ max: 10_000 }).default(1_000),
  jitter: duration({ max: "365 days" }).default(0),
  pauseOnFailure: flag().default(false),
  // A timer takes no more.
  timeout: duration({ max: "24 days" }).default(15 * 60_000),
  retry: z
    .custom<RetryOptions>(isPlainObject, {
      error: "expected an object with maxAttempts, baseDelayMs, maxDelayMs",
    })
    .optional(),
} as const;

const RETRY = {
  maxAttempts: count({ infinity: true }).default(3),
  baseDelayMs: count()
    .refine((ms) => ms <= YEAR_MS, { error: `expected at most ${YEAR_MS} milliseconds (365 days)` })
    .default(100),
  maxDelayMs: count({ infinity: true }).default(3_000),
} as const;

const EXCEPT = list(
  z
    .custom<string>((text) => typeof text === "string" && readLocalDate(text) !== undefined, {
      error: "expected a date such as 2026-12-25",
    })
    .transform((text) => readLocalDate(text) as number),
);

/** Options of the submission of a prompt. */
const OF_PROMPTS = ["priority", "concurrency", "rate"] as const;

const NAMES = [
  ...OF_PROMPTS,
  ...(Object.keys(OPTIONS) as (keyof typeof OPTIONS)[]),
  "schedule",
  "timezone",
  "description",
  "prompt",
  "handler",
  "except",
] as const satisfies readonly (keyof ScheduledTask)[];

/** A valid declaration. Times are epoch milliseconds; there is no occurrence before `startAt`, and none from `endAt` on. */
export type DeclaredTask = Readonly<ReturnType<typeof readTask>>;

export type DeclarationContext = {
  readonly defaultTimezone: string | undefined;
  /** Checks the options of a prompt's submission. Undefined where no prompts can run. */
  readonly checkOwner: Turns["checkOwner"] | undefined;
  /** In [0, 1), always the same for a task. */
  readonly jitterShare: (taskId: string) => number;
};

/**
 * Unknown fields are ignored, as in Think. A field that is null is the same as one that is left out.
 *
 * @throws InvalidOptionError for an invalid option
 * @throws ScheduleSyntaxError for an invalid schedule
 * @throws AggregateError with all of these errors, where there are several
 */
export function readTask(
  taskId: string,
  declared: ScheduledTask,
  { defaultTimezone, checkOwner, jitterShare }: DeclarationContext,
) {
  if (!TASK_ID.test(taskId)) {
    throw invalidOption("task id", taskId, "1 to 1000 letters, digits, _ and -");
  }
  if (!isPlainObject(declared)) throw invalidOption("task", declared, "an object with a schedule");
  const errors: Error[] = [];
  const task = optionsGiven(declared);
  const schedule = collect(errors, () => scheduleOf(task, defaultTimezone));
  const action = collect(errors, () => actionOf(task, checkOwner));
  const options = readEach(errors, OPTIONS, task, "");
  const { maxAttempts, ...delays } = readEach(errors, RETRY, options.retry ?? {}, "retry.");
  const { startAt, endAt, catchUp, jitter, timeout, ...rest } = options;
  if (endAt <= startAt) errors.push(invalidOption("endAt", task.endAt, "a time after startAt"));
  const [first, ...others] = errors;
  if (first && others.length === 0) throw first;
  if (first || !schedule || !action) {
    throw new AggregateError(errors, errors.map(({ message }) => message).join("\n"));
  }
  return {
    ...rest,
    taskId,
    /** With the exceptions of the text and of the options. */
    schedule,
    startAt,
    endAt,
    /** Of the options that decide the task's times. All others may change without a change in storage. */
    fingerprint: fingerprintOf({ schedule, startAt, endAt }),
    action,
    description: typeof task.description === "string" ? task.description : undefined,
    maxAttempts,
    backoff: { baseMs: delays.baseDelayMs, capMs: Math.min(delays.maxDelayMs, YEAR_MS) },
    /** How old a missed occurrence may be to be caught up; `"latest"` for the latest one alone. */
    catchUpMs: catchUpMs(catchUp),
    /** How long after its occurrence it fires: its share of the jitter. */
    offsetMs: Math.floor(jitterShare(taskId) * jitter),
    timeoutMs: timeout,
    /** Unknown fields that look like mistyped options, as a message names them. */
    ignored: ignoredFields(declared),
  };
}

/** The options of a task, with undefined in place of null. */
function optionsGiven(task: ScheduledTask): ScheduledTask {
  const given = NAMES.map((name) => [name, task[name] ?? undefined]);
  return Object.fromEntries(given) as ScheduledTask;
}

/** The result of `read`; undefined where it throws. The error is added to `errors`, so that all are reported together. */
function collect<T>(errors: Error[], read: () => T): T | undefined {
  try {
    return read();
  } catch (thrown) {
    errors.push(thrown instanceof Error ? thrown : new Error(failureOf(thrown).message));
    return undefined;
  }
}

/** The option of each schema; where `errors` are added, that of an invalid one is missing. */
function readEach<Schemas extends Readonly<Record<string, z.ZodType>>>(
  errors: Error[],
  schemas: Schemas,
  values: object,
  prefix: string,
): { readonly [Name in keyof Schemas]: z.output<Schemas[Name]> } {
  const read = Object.entries(schemas).map(([name, schema]) => {
    const value = (values as Record<string, unknown>)[name];
    return [name, collect(errors, () => readOptions(schema, value, `${prefix}${name}`))];
  });
  return Object.fromEntries(read) as { [Name in keyof Schemas]: z.output<Schemas[Name]> };
}

function catchUpMs(catchUp: z.output<typeof OPTIONS.catchUp>): number | "latest" {
  if (typeof catchUp === "object") return catchUp.all;
  if (catchUp === "latest") return catchUp;
  return catchUp === "none" ? 0 : DAY_MS;
}

function isJsonObject(value: unknown): boolean {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  try {
    return JSON.stringify(value).startsWith("{");
  } catch {
    // It contains itself, or a bigint.
    return false;
  }
}

function ignoredFields(task: ScheduledTask): string[] {
  const mistyped = Object.keys(task).flatMap((name) => {
    if (NAMES.some((known) => known === name)) return [];
    const lower = name.toLowerCase();
    const near = NAMES.find((option) => editDistance(lower, option.toLowerCase()) <= MAX_TYPOS);
    return near === undefined ? [] : [`${JSON.stringify(name)} (did you mean "${near}"?)`];
  });
  const ofRetry = Object.keys(task.retry ?? {}).filter((name) => !Object.hasOwn(RETRY, name));
  return [...mistyped, ...ofRetry.map((name) => preview(`retry.${name}`))];
}

function actionOf(
  task: ScheduledTask,
  checkOwner: DeclarationContext["checkOwner"],
): Pick<ScheduledTask, "prompt" | "handler"> & { readonly owner?: OwnerOptions } {
  const { prompt, handler } = task;
  const given = OF_PROMPTS.filter((name) => task[name] !== undefined);
  if ((prompt === undefined) === (handler === undefined)) {
    const both = prompt === undefined ? "neither a prompt nor a handler" : "a prompt and a handler";
    throw new InvalidOptionError("handler", `Invalid task: it has ${both}. Give it exactly one.`);
  }
  if (handler !== undefined) {
    readOptions(hook(), handler, "handler");
    const [name] = given;
    if (name === undefined) return { handler };
    throw new InvalidOptionError(
      name,
      `Invalid ${name}: it is an option of a prompt. Pass it to submitMessages() in the handler.`,
    );
  }
  if (typeof prompt !== "function" && (typeof prompt !== "string" || prompt.trim() === "")) {
    throw invalidOption("prompt", prompt, "a non-empty string, or a function that returns one");
  }
  if (checkOwner) {
    const owner = Object.fromEntries(given.map((name) => [name, task[name]]));
    checkOwner(owner);
    return { prompt, owner };
  }
  throw new InvalidOptionError(
    "prompt",
    "Invalid prompt: a Scheduler without a host runs no prompts. Install schedules() on a host.",
  );
}

function scheduleOf(task: ScheduledTask, defaultTimezone: string | undefined): ParsedSchedule {
  const { schedule: text, timezone: own } = task;
  if (typeof text !== "string") throw invalidOption("schedule", text, "a string");
  const except = task.except === undefined ? [] : readOptions(EXCEPT, task.except, "except");
  const timezone = own ?? defaultFor(text, except.length > 0, defaultTimezone);
  const schedule = parseSchedule(text, timezone === undefined ? {} : { timezone });
  const { rule, starting, timezone: inText } = schedule;
  const first = rule.form === "once" ? rule.at : starting;
  if (first !== undefined && first >= LAST_ALARM) {
    throw invalidOption("schedule", text, "a time before the year 2189, the last for an alarm");
  }
  if (own !== undefined && inText !== undefined && !isSameZone(inText, own)) {
    throw new InvalidOptionError(
      "timezone",
      `Invalid timezone ${JSON.stringify(own)}: the schedule says ${JSON.stringify(inText)}. Remove one of them.`,
    );
  }
  if (except.length === 0) return schedule;
  // In its one spelling, from which the task's may differ.
  const zone = inText ?? (timezone === undefined ? undefined : zoneOf(timezone));
  if (zone === undefined) {
    throw new InvalidOptionError(
      "except",
      "Invalid except: its dates need a time zone. Set timezone, or end the schedule with `in <zone>`.",
    );
  }
  const dates = new Set([...schedule.except, ...except]);
  return { ...schedule, timezone: zone, except: [...dates].sort((a, b) => a - b) };
}

/** The default zone; undefined where it is invalid and the schedule does not need one. */
function defaultFor(
  schedule: string,
  hasExcept: boolean,
  given: string | undefined,
): string | undefined {
  if (given === undefined || zoneOf(given) !== undefined) return given;
  // A schedule that needs the default zone takes whichever it is given.
  const [one, other] = ["UTC", "Asia/Tokyo"].map(
    (timezone) => parseSchedule(schedule, { timezone }).timezone,
  );
  const isNeeded = one !== other || (one === undefined && hasExcept);
  return isNeeded ? readZone(given, "defaultTimezone") : undefined;
}
