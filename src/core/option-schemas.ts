/**
 * Options are validated by Zod schemas. Create each schema once, at module level, and read values with `readOptions()`.
 * The `error` of a schema is the end of a message: `expected ...`, then a remedy where there is one, without the last full
 * stop. `readOptions()` adds the option's path and the value.
 */

import * as z from "zod";
import { LAST_ALARM } from "./clock.ts";
import { DURATION_FORMS, type Duration, millisecondsOf } from "./duration.ts";
import { INSTANT_FORMS, type Instant, instantMs } from "./instant.ts";
import { byteLength, preview } from "./json.ts";
import {
  InvalidOptionError,
  invalidMessage,
  isPlainObject,
  unknownOptionMessage,
} from "./options.ts";
import { isWellFormedText } from "./text.ts";

/** A whole number from `min`. `infinity` also accepts `Infinity`, for "no limit". */
export function count({
  min = 1,
  max,
  infinity = false,
}: {
  readonly min?: number;
  readonly max?: number;
  readonly infinity?: boolean;
} = {}): z.ZodType<number, number> {
  const error = `expected a whole number from ${min}${max === undefined ? "" : ` to ${max}`}${infinity ? ", or Infinity" : ""}`;
  const isCount = (value: unknown) =>
    Number.isSafeInteger(value) &&
    (value as number) >= min &&
    (value as number) <= (max ?? Number.MAX_SAFE_INTEGER);
  return z.custom<number>(
    (value) => isCount(value) || (infinity && value === Number.POSITIVE_INFINITY),
    { error },
  );
}

/** A duration, parsed to whole milliseconds. `infinity` also accepts `Infinity`, for "no limit". */
export function duration({
  max,
  infinity = false,
}: {
  readonly max?: Duration;
  readonly infinity?: boolean;
} = {}): z.ZodType<number, Duration> {
  const maxMs = max === undefined ? Number.MAX_VALUE : (millisecondsOf(max) as number);
  const atMost = max === undefined ? "" : `, at most ${preview(max)}`;
  const parse = (value: unknown) => {
    const ms = millisecondsOf(value);
    if (ms === Number.POSITIVE_INFINITY) return infinity ? ms : undefined;
    return ms !== undefined && ms <= maxMs ? ms : undefined;
  };
  return parsed(parse, `expected ${DURATION_FORMS}${atMost}${infinity ? ", or Infinity" : ""}`);
}

/** A point in time, parsed to epoch milliseconds. With `forAlarm`, one that an alarm can be set for. */
export function instant({
  forAlarm = false,
}: {
  readonly forAlarm?: boolean;
} = {}): z.ZodType<number, Instant> {
  const parse = (value: unknown) => {
    const ms = instantMs(value);
    return ms !== undefined && (!forAlarm || ms < LAST_ALARM) ? ms : undefined;
  };
  return parsed(parse, `expected ${INSTANT_FORMS}${forAlarm ? ", before the year 2189" : ""}`);
}

/** One of a few values: `oneOf(["throw", "return"])`. */
export function oneOf<const Value extends string | boolean | null>(
  values: readonly Value[],
): z.ZodType<Value, Value> {
  const texts = values.map((value) => JSON.stringify(value));
  const all = [texts.slice(0, -1).join(", "), ...texts.slice(-1)].filter(Boolean).join(" or ");
  return z.custom<Value>((value) => values.some((one) => one === value), {
    error: `expected ${all}`,
  });
}

/** `true` or `false`. */
export function flag(): z.ZodType<boolean, boolean> {
  return z.custom<boolean>((value) => typeof value === "boolean", {
    error: "expected true or false",
  });
}

/** A function. Its type is the one that the options type declares. */
export function hook(): z.ZodType<unknown, unknown> {
  return z.custom<unknown>((value) => typeof value === "function", {
    error: "expected a function",
  });
}

/**
 * A string that SQLite gives back as it is: without unpaired surrogates. Not empty, unless `empty` is set.
 *
 * @param options.remedy what to do with one of more than `maxBytes`
 */
export function text({
  maxBytes,
  maxLength,
  empty = false,
  remedy = "Use a digest of it",
}: {
  readonly maxBytes?: number;
  readonly maxLength?: number;
  readonly empty?: boolean;
  readonly remedy?: string;
} = {}): z.ZodType<string, string> {
  const range = empty ? `at most ${maxLength}` : `1 to ${maxLength}`;
  const unlimited = empty ? "expected a string" : "expected a non-empty string";
  const error = maxLength === undefined ? unlimited : `expected a string of ${range} characters`;
  const isText = (value: unknown) =>
    typeof value === "string" &&
    (empty || value !== "") &&
    value.length <= (maxLength ?? Number.POSITIVE_INFINITY);
  return z
    .custom<string>(isText, { error, abort: true })
    .refine(isWellFormedText, { error: WELL_FORMED, abort: true })
    .check((ctx) => {
      if (maxBytes === undefined || ctx.value.length * 3 <= maxBytes) return;
      const bytes = byteLength(ctx.value);
      if (bytes <= maxBytes) return;
      const message = `expected at most ${maxBytes} bytes. ${remedy}`;
      ctx.issues.push(sizeIssue(ctx.value, message, `of ${bytes} bytes`));
    });
}

const WELL_FORMED =
  "expected whole characters, and it has half of one (an unpaired surrogate). " +
  'Cut a string between characters, e.g. [...text].slice(0, 7).join(""), or use toWellFormed()';

/** A list. Its length is checked before its items. */
export function list<Out, In>(
  item: z.ZodType<Out, In>,
  { min = 0, max }: { readonly min?: number; readonly max?: number } = {},
): z.ZodType<Out[], readonly In[]> {
  const error = min > 0 ? "expected a non-empty list" : "expected a list";
  return z
    .custom<readonly In[]>((value) => Array.isArray(value) && value.length >= min, {
      error,
      abort: true,
    })
    .check((ctx) => {
      const { length } = ctx.value;
      if (max === undefined || length <= max) return;
      const issue = sizeIssue(ctx.value, `expected at most ${max} items`, `of ${length} items`);
      ctx.issues.push({ ...issue, continue: false });
    })
    .pipe(z.array(item) as unknown as z.ZodType<Out[], readonly In[]>);
}

/** An issue whose message gives the size of the value in place of the value. */
function sizeIssue(input: unknown, message: string, given: string) {
  return { code: "custom" as const, input, message, params: { given } };
}

/** A schema of what `parse` returns; it returns undefined for an invalid value. */
function parsed<Out, In>(
  parse: (value: unknown) => Out | undefined,
  error: string,
): z.ZodType<Out, In> {
  return z
    .custom<In>((value) => parse(value) !== undefined, { error, abort: true })
    .transform((value) => parse(value) as Out);
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
    const schema = z
      .custom(isPlainObject, { error: `expected an object with ${names}`, abort: true })
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
  makeError: (option: string, message: string) => Error = (option, message) =>
    new InvalidOptionError(option, message),
): Out {
  let problem: { readonly option: string; readonly message: string };
  try {
    const result = schema.safeParse(value);
    if (result.success) return result.data;
    problem = problemOf(firstOf(result.error.issues), value, name);
  } catch (error) {
    const why = `expected a value that can be read, and reading it failed: ${preview(messageOf(error))}`;
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
    return {
      option: `${prefix}${unknown}`,
      message: unknownOptionMessage(unknown, option, message),
    };
  }
  // As it was given: the issue has a value that may be parsed already.
  const value = path.reduce<unknown>((at, key) => (at as Record<PropertyKey, unknown>)[key], whole);
  if (value === undefined && typeof path.at(-1) === "string") {
    const where = optionPath(path.slice(0, -1), name);
    const last = JSON.stringify(path.at(-1));
    return { option, message: `Missing option ${last} in ${where}: ${message}.` };
  }
  const given = issue.code === "custom" ? issue.params?.given : undefined;
  return {
    option,
    message: invalidMessage(option, typeof given === "string" ? given : preview(value), message),
  };
}

/** `retry.maxAttempts`, `notify[0].kind`; the name of the whole for a problem of the whole. */
function optionPath(path: readonly PropertyKey[], name: string): string {
  const start = typeof path[0] === "string" ? "" : name;
  return path.reduce<string>((text, key) => {
    if (typeof key === "number") return `${text}[${key}]`;
    return text === "" ? String(key) : `${text}.${String(key)}`;
  }, start);
}

function messageOf(error: unknown): unknown {
  return error instanceof Error ? error.message : error;
}
