/**
 * Options are validated by Zod schemas. Create each schema once, at module level, and read values with `readOptions()`.
 * The `error` of a schema is the end of a message: `expected ...`, then a remedy where there is one, without the last full
 * stop. `readOptions()` adds the option's path and the value.
 */

import * as z from "zod";
import { LAST_ALARM } from "../clock.ts";
import { failureOf } from "../failures.ts";
import { byteLength, HALF_REMEDY, preview, shorten } from "../json.ts";
import { INSTANT_FORMS, type Instant, instantMs } from "./instant.ts";
import {
  DURATION_FORMS,
  type Duration,
  invalidAt,
  invalidMessage,
  isPlainObject,
  type MakeError,
  millisecondsOf,
  unknownOptionMessage,
} from "./options.ts";

/** A schema of the values for which `isValid` returns true. It returns them as they are. */
export function check<Value>(isValid: (value: unknown) => boolean, expected: string) {
  const error = `expected ${expected}`;
  return z.custom<Value>(isValid, { error, abort: true }) as z.ZodType<Value, Value>;
}

/** A schema of what `parse` returns; it returns undefined for an invalid value. */
export function parsed<Out, In>(parse: (value: unknown) => Out | undefined, expected: string) {
  const isValid = (value: unknown) => parse(value) !== undefined;
  return check<In>(isValid, expected).transform((value) => parse(value) as Out);
}

type CountRange = { readonly min?: number; readonly max?: number; readonly infinity?: boolean };

/** A whole number from `min`. `infinity` also accepts `Infinity`, for "no limit". */
export function count({ min = 1, max, infinity = false }: CountRange = {}) {
  const isCount = (value: unknown) =>
    Number.isSafeInteger(value) &&
    (value as number) >= min &&
    (value as number) <= (max ?? Number.MAX_SAFE_INTEGER);
  return check<number>(
    (value) => isCount(value) || (infinity && value === Number.POSITIVE_INFINITY),
    `a whole number from ${min}${max === undefined ? "" : ` to ${max}`}${orInfinity(infinity)}`,
  );
}

const orInfinity = (infinity: boolean) => (infinity ? ", or Infinity" : "");

type DurationRange = { readonly max?: Duration; readonly infinity?: boolean };

/** A duration, parsed to whole milliseconds. `infinity` also accepts `Infinity`, for "no limit". */
export function duration({ max, infinity = false }: DurationRange = {}) {
  const maxMs = millisecondsOf(max) ?? Number.MAX_VALUE;
  const atMost = max === undefined ? "" : `, at most ${preview(max)}`;
  const parse = (value: unknown) => {
    const ms = millisecondsOf(value);
    if (ms === Number.POSITIVE_INFINITY) return infinity ? ms : undefined;
    return ms !== undefined && ms <= maxMs ? ms : undefined;
  };
  return parsed<number, Duration>(parse, `${DURATION_FORMS}${atMost}${orInfinity(infinity)}`);
}

/** A point in time, parsed to epoch milliseconds. With `forAlarm`, one that an alarm can be set for. */
export function instant({ forAlarm = false }: { readonly forAlarm?: boolean } = {}) {
  const parse = (value: unknown) => {
    const ms = instantMs(value);
    return ms !== undefined && (!forAlarm || ms < LAST_ALARM) ? ms : undefined;
  };
  const limit = forAlarm ? ", before the year 2189" : "";
  return parsed<number, Instant>(parse, `${INSTANT_FORMS}${limit}`);
}

/** One of a few values: `oneOf(["throw", "return"])`. */
export function oneOf<const Value extends string | boolean | null>(values: readonly Value[]) {
  const texts = values.map((value) => JSON.stringify(value));
  const all = [texts.slice(0, -1).join(", "), ...texts.slice(-1)].filter(Boolean).join(" or ");
  return check<Value>((value) => values.some((one) => one === value), all);
}

/**
 * One or more of a few values, parsed to a list: `"open"` or `["open", "closed"]`.
 *
 * @param min of the list
 */
export function someOf<Value extends string, In = Value | readonly Value[]>(
  values: readonly Value[],
  { min = 1 }: { readonly min?: number } = {},
) {
  const isSome = (value: unknown) => {
    const some: unknown[] = [value].flat();
    return some.length >= min && some.every((one) => (values as readonly unknown[]).includes(one));
  };
  return check<In>(isSome, `one or more of ${values.join(", ")}`).transform(
    (value) => [...new Set([value].flat())] as Value[],
  );
}

export function flag() {
  return check<boolean>((value) => typeof value === "boolean", "true or false");
}

/** A function. Its type is the one that the options type declares. */
export function hook() {
  return check<unknown>((value) => typeof value === "function", "a function");
}

type TextRange = {
  readonly maxBytes?: number;
  readonly maxLength?: number;
  readonly empty?: boolean;
  readonly remedy?: string;
};

/** The most bytes of a string that SQLite can look up: a row takes 2 MB. */
const MAX_TEXT_BYTES = 1_900_000;

/**
 * A string that SQLite gives back as it is: without unpaired surrogates, and not too large. Not empty, unless `empty` is set.
 *
 * @param options.remedy what to do with one of more than `maxBytes`
 */
export function text(range: TextRange = {}) {
  const { maxBytes = MAX_TEXT_BYTES, maxLength, empty = false } = range;
  const { remedy = "Use a digest of it" } = range;
  const min = empty ? 0 : 1;
  const any = empty ? "a string" : "a non-empty string";
  const limited = `a string of ${empty ? "at most" : "1 to"} ${maxLength} characters`;
  const isText = (value: unknown) =>
    typeof value === "string" &&
    value.length >= min &&
    value.length <= (maxLength ?? Number.POSITIVE_INFINITY);
  return check<string>(isText, maxLength === undefined ? any : limited)
    .refine((value) => value.isWellFormed(), { error: WELL_FORMED, abort: true })
    .check((ctx) => {
      if (ctx.value.length * 3 <= maxBytes) return;
      const bytes = byteLength(ctx.value);
      if (bytes <= maxBytes) return;
      const message = `expected at most ${maxBytes} bytes. ${remedy}`;
      ctx.issues.push(sizeIssue(ctx.value, message, `of ${bytes} bytes`));
    });
}

const WELL_FORMED = `expected whole characters, and it has ${HALF_REMEDY}`;

/** A list. Its length is checked before its items. */
export function list<Out, In>(
  item: z.ZodType<Out, In>,
  {
    min = 0,
    max = Number.POSITIVE_INFINITY,
  }: { readonly min?: number; readonly max?: number } = {},
) {
  const isList = (value: unknown) => Array.isArray(value) && value.length >= min;
  return check<readonly In[]>(isList, min > 0 ? "a non-empty list" : "a list")
    .check((ctx) => {
      const { length } = ctx.value;
      if (length <= max) return;
      const issue = sizeIssue(ctx.value, `expected at most ${max} items`, `of ${length} items`);
      ctx.issues.push({ ...issue, continue: false });
    })
    .pipe(z.array(item) as unknown as z.ZodType<Out[], readonly In[]>);
}

/** An issue whose message gives the size of the value in place of the value. */
function sizeIssue(input: unknown, message: string, given: string) {
  return { code: "custom" as const, input, message, params: { given } };
}

type Shape<Options> = { readonly [Name in keyof Options]-?: z.ZodType };

/** The shape, if each schema accepts what the options type declares for its name. A schema of `unknown` accepts all. */
type Matching<Options, Schemas> = {
  readonly [Name in keyof Schemas]: Name extends keyof Options
    ? unknown extends z.input<Schemas[Name]>
      ? Schemas[Name]
      : [z.input<Schemas[Name]>, Options[Name]] extends [Options[Name], z.input<Schemas[Name]>]
        ? Schemas[Name]
        : { declared: Options[Name]; accepted: z.input<Schemas[Name]> }
    : { "not a name of the options type": Name };
};

/** The output of one schema; of a schema of `unknown`, the declared type. */
type Value<Options, Schemas, Name extends keyof Options & keyof Schemas> =
  unknown extends z.input<Schemas[Name]> ? Options[Name] : z.output<Schemas[Name]>;

/** What {@link optionsOf} parses to: names whose value can be undefined are optional, and never undefined when present. */
type Parsed<Options, Schemas> = {
  readonly [Name in keyof Options & keyof Schemas as undefined extends Value<Options, Schemas, Name>
    ? Name
    : never]?: Exclude<Value<Options, Schemas, Name>, undefined>;
} & {
  readonly [Name in keyof Options & keyof Schemas as undefined extends Value<Options, Schemas, Name>
    ? never
    : Name]: Value<Options, Schemas, Name>;
};

/**
 * An object of options, of the declared type `Options`: a name that is missing in the shape or foreign to the type, and a
 * schema that does not accept what the type declares, are type errors. Refuses unknown names. A value that is undefined is
 * the same as one that is left out.
 *
 * @example
 * const RETRY = optionsOf<RetryOptions>()({
 *   maxAttempts: count({ max: 100 }).default(5),
 *   maxDelay: duration().optional(),
 * });
 */
export function optionsOf<Options extends object>() {
  return <Schemas extends Shape<Options>>(
    shape: Schemas & Matching<Options, Schemas>,
  ): z.ZodType<Parsed<Options, Schemas>, Options> => {
    const names = Object.keys(shape).join(", ");
    const schema = check(isPlainObject, `an object with ${names}`)
      .pipe(z.strictObject(shape, { error: () => names }))
      .transform((options) =>
        Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)),
      );
    return schema as unknown as z.ZodType<Parsed<Options, Schemas>, Options>;
  };
}

/**
 * Parses options, or throws for the first problem.
 *
 * @param name what the value is called in messages: an option, or e.g. `options of list()`
 * @param makeError the error to throw
 * @throws InvalidOptionError by default, with the option's path, e.g. `retry.maxAttempts`
 */
export function readOptions<Out>(
  schema: z.ZodType<Out>,
  value: unknown,
  name: string,
  makeError: MakeError = invalidAt,
): Out {
  let problem: { readonly option: string; readonly message: string };
  try {
    const result = schema.safeParse(value);
    if (result.success) return result.data;
    problem = problemOf(firstOf(result.error.issues), value, name);
  } catch (error) {
    const why = `reading it failed: ${preview(failureOf(error).message)}`;
    problem = { option: name, message: invalidMessage(name, preview(value), why) };
  }
  throw makeError(problem.option, problem.message);
}

type Issue = z.core.$ZodIssue;

/** A misspelt name is often the reason why another is missing, so unknown names come first. */
function firstOf(issues: readonly Issue[]): Issue {
  const issue = issues.find(({ code }) => code === "unrecognized_keys") ?? (issues[0] as Issue);
  if (issue.code !== "invalid_union") return issue;
  // The branch that the value was meant for is the one that has a problem inside it.
  const inner = issue.errors
    .filter((branch) => branch.length > 0)
    .map((branch) => firstOf(branch))
    .find(({ code, path }) => code === "unrecognized_keys" || path.length > 0);
  return inner === undefined ? issue : { ...inner, path: [...issue.path, ...inner.path] };
}

function problemOf(issue: Issue, whole: unknown, name: string) {
  const { path, message } = issue;
  const option = optionPath(path, name);
  if (issue.code === "unrecognized_keys") {
    const [unknown = ""] = issue.keys;
    const prefix = path.length === 0 ? "" : `${option}.`;
    const text = unknownOptionMessage(unknown, option, message);
    return { option: shorten(`${prefix}${unknown}`), message: text };
  }
  // The value as it was given: that of the issue may be parsed already.
  const value = path.reduce<unknown>((at, key) => (at as Record<PropertyKey, unknown>)[key], whole);
  if (value === undefined && typeof path.at(-1) === "string") {
    const where = optionPath(path.slice(0, -1), name);
    const last = JSON.stringify(path.at(-1));
    return { option, message: `Missing option ${last} in ${where}: ${message}.` };
  }
  const given = issue.code === "custom" ? issue.params?.given : undefined;
  const shown = typeof given === "string" ? given : preview(value);
  return { option, message: invalidMessage(option, shown, message) };
}

/** `retry.maxAttempts`, `notify[0].kind`; the name of the whole for a problem of the whole. */
function optionPath(path: readonly PropertyKey[], name: string): string {
  const start = typeof path[0] === "string" ? "" : name;
  const whole = path.reduce<string>((text, key) => {
    if (typeof key === "number") return `${text}[${key}]`;
    return text === "" ? String(key) : `${text}.${String(key)}`;
  }, start);
  return shorten(whole);
}
