import fc from "fast-check";
import { describe, expect, expectTypeOf, it } from "vitest";
import * as z from "zod";
import { preview } from "../../src/core/json.ts";
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
  someOf,
  text,
} from "../../src/core/options/option-schemas.ts";
import type { Duration } from "../../src/core/options/options.ts";
import { checkNames, InvalidOptionError, invalidOption } from "../../src/core/options/options.ts";
import { ANY_CHARACTER } from "../support/characters.ts";

type Retry = { readonly maxAttempts?: number; readonly maxDelay?: Duration };
type Example = {
  readonly key: string;
  readonly from?: number | string | Date;
  readonly onError?: "throw" | "return";
  readonly retry?: Retry;
  readonly keepAll?: boolean;
  readonly onProblem?: (problem: string) => void;
  readonly tags?: readonly string[];
  readonly notify?: boolean | Retry;
};

const RETRY = optionsOf<Retry>()({
  maxAttempts: count({ max: 100 }).default(5),
  maxDelay: duration({ max: "1 day" }).optional(),
});

const EXAMPLE = optionsOf<Example>()({
  key: text({ maxBytes: 12 }),
  from: instant().optional(),
  onError: oneOf(["throw", "return"]).default("throw"),
  retry: RETRY.prefault({}),
  keepAll: flag().optional(),
  onProblem: hook().optional(),
  tags: list(text({ maxLength: 5 }), { max: 2 }).optional(),
  notify: z.union([flag(), RETRY], { error: "expected true, false or retry options" }).optional(),
}).refine(({ from, keepAll }) => from === undefined || keepAll !== true, {
  path: ["from"],
  error: "expected it left out where keepAll is true",
});

function errorOf(read: () => unknown): unknown {
  try {
    return read();
  } catch (error) {
    return error;
  }
}

const OPTIONS = "options of ask()";

it("parses options, fills in defaults and leaves out what is undefined", () => {
  const onProblem = () => undefined;
  const read = readOptions(
    EXAMPLE,
    { key: "k", from: "2026-01-05T09:00:00Z", keepAll: undefined, onProblem },
    OPTIONS,
  );
  expect(read).toStrictEqual({
    key: "k",
    from: Date.UTC(2026, 0, 5, 9),
    onError: "throw",
    retry: { maxAttempts: 5 },
    onProblem,
  });
  expect(readOptions(RETRY, { maxDelay: "2 hours" }, "retry").maxDelay).toBe(7_200_000);
  expectTypeOf(read.retry.maxAttempts).toEqualTypeOf<number>();
  expectTypeOf(read.onProblem).toEqualTypeOf<((problem: string) => void) | undefined>();
});

describe("each kind of problem has one message, with the option, the value and the limit", () => {
  const [key, circle] = ["k", {} as Record<string, unknown>];
  circle.self = circle;
  const CASES: [kind: string, value: unknown, option: string, message: string][] = [
    [
      "a number out of range",
      { key, retry: { maxAttempts: 0 } },
      "retry.maxAttempts",
      "Invalid retry.maxAttempts 0: expected a whole number from 1 to 100.",
    ],
    [
      "an unknown option",
      { key, retry: { retires: 3, maxAttempts: 0 } },
      "retry.retires",
      'Unknown option "retires" in retry. Valid options: maxAttempts, maxDelay.',
    ],
    [
      "an unknown option of the whole",
      { kee: "k" },
      "kee",
      'Unknown option "kee" in options of ask(). Valid options: key, from, onError, retry, keepAll, onProblem, tags, notify.',
    ],
    [
      "no object",
      { key, retry: [] },
      "retry",
      "Invalid retry []: expected an object with maxAttempts, maxDelay.",
    ],
    [
      "no object as the whole",
      "x",
      OPTIONS,
      'Invalid options of ask() "x": expected an object with key, from, onError, retry, keepAll, onProblem, tags, notify.',
    ],
    [
      "a missing option",
      {},
      "key",
      'Missing option "key" in options of ask(): expected a non-empty string.',
    ],
    [
      "too many bytes",
      { key: "é".repeat(7) },
      "key",
      "Invalid key of 14 bytes: expected at most 12 bytes. Use a digest of it.",
    ],
    [
      "half a character",
      { key: "a\ud83d" },
      "key",
      'Invalid key "a\\ud83d": expected whole characters, and it has half of a character (an unpaired surrogate). Use toWellFormed().',
    ],
    [
      "a duration",
      { key, retry: { maxDelay: "2 days" } },
      "retry.maxDelay",
      'Invalid retry.maxDelay "2 days": expected a positive number of milliseconds, or a text such as "30 seconds", "5 minutes" or "2 hours", at most "1 day".',
    ],
    [
      "an instant",
      { key, from: new Date(Number.NaN) },
      "from",
      'Invalid from Invalid Date: expected a valid Date, epoch milliseconds, or a text with its offset such as "2026-01-05T09:00:00Z".',
    ],
    [
      "a literal",
      { key, onError: "thorw" },
      "onError",
      'Invalid onError "thorw": expected "throw" or "return".',
    ],
    ["a flag", { key, keepAll: "no" }, "keepAll", 'Invalid keepAll "no": expected true or false.'],
    ["a function", { key, onProblem: 3 }, "onProblem", "Invalid onProblem 3: expected a function."],
    [
      "a list that is too long",
      { key, tags: Array(4_294_967_295) },
      "tags",
      "Invalid tags of 4294967295 items: expected at most 2 items.",
    ],
    [
      "an item of a list",
      { key, tags: ["a", "too long"] },
      "tags[1]",
      'Invalid tags[1] "too long": expected a string of 1 to 5 characters.',
    ],
    [
      "a union",
      { key, notify: 3 },
      "notify",
      "Invalid notify 3: expected true, false or retry options.",
    ],
    [
      "a branch of a union",
      { key, notify: { maxAttempts: 0 } },
      "notify.maxAttempts",
      "Invalid notify.maxAttempts 0: expected a whole number from 1 to 100.",
    ],
    [
      "a rule of two options, with the value as it was given",
      { key, keepAll: true, from: "2026-01-05T09:00:00Z" },
      "from",
      'Invalid from "2026-01-05T09:00:00Z": expected it left out where keepAll is true.',
    ],
    [
      "a value that contains itself",
      { key: circle },
      "key",
      "Invalid key an object: expected a non-empty string.",
    ],
    [
      "a getter that throws",
      {
        get key() {
          throw new Error("boom");
        },
      },
      OPTIONS,
      'Invalid options of ask() an object: reading it failed: "boom".',
    ],
  ];

  it.each(CASES)("%s", (_, value, option, message) => {
    const error = errorOf(() => readOptions(EXAMPLE, value, OPTIONS));
    expect(error).toBeInstanceOf(InvalidOptionError);
    expect(error).toMatchObject({ option, message });
  });

  it.each([
    new Date(),
    new Map(),
    null,
    // Like a stub of RPC.
    new Proxy(() => undefined, {}),
  ])("refuses %o in place of an object", (value) => {
    const error = errorOf(() => readOptions(RETRY, value, "retry"));
    expect((error as Error).message).toMatch(/^Invalid retry .*: expected an object with maxAtt/s);
  });

  it("cuts a long name in the message and in the error's option", () => {
    const long = "x".repeat(1_000_000);
    const given = [
      { key, [long]: 1 },
      { key, retry: { [long]: 1 } },
    ];
    const errors = [
      ...given.map((value) => errorOf(() => readOptions(EXAMPLE, value, OPTIONS))),
      errorOf(() => checkNames("x", { [long]: 1 }, ["a"])),
      errorOf(() => readOptions(z.record(z.string(), flag()), { [long]: 1 }, "record")),
      invalidOption(long, 1, "a flag"),
    ];
    for (const error of errors) {
      const { message, option } = error as InvalidOptionError;
      expect(message).toMatch(/^(Unknown option|Invalid) "?(retry\.)?x{90}/);
      expect(message.length).toBeLessThan(300);
      expect(option.length).toBeLessThan(110);
    }
  });

  it("a check that is written by hand has the same message", () => {
    expect(invalidOption("to", 3, "a time after from").message).toBe(
      "Invalid to 3: expected a time after from.",
    );
  });
});

it("throws the error that the caller makes", () => {
  const makeError = (option: string, message: string) => new TypeError(`${option}! ${message}`);
  expect(() => readOptions(text(), "", "id", makeError)).toThrow(
    new TypeError('id! Invalid id "": expected a non-empty string.'),
  );
});

it("a shape that differs from the options type is a type error", () => {
  const shape = { maxAttempts: count().optional() };
  // @ts-expect-error maxDelay is missing
  optionsOf<Retry>()(shape);
  // @ts-expect-error jitter is foreign
  optionsOf<Retry>()({ ...shape, maxDelay: duration().optional(), jitter: flag().optional() });
  // @ts-expect-error maxDelay is a duration
  optionsOf<Retry>()({ ...shape, maxDelay: count().optional() });
  // @ts-expect-error maxDelay may be left out
  optionsOf<Retry>()({ ...shape, maxDelay: duration() });
  // @ts-expect-error "c" is missing
  optionsOf<{ a: "b" | "c" }>()({ a: oneOf(["b"]) });
});

it("one or more of a few values are parsed to a list without duplicates", () => {
  const statuses = someOf(["open", "closed"]);
  expect(readOptions(statuses, "open", "status")).toEqual(["open"]);
  expect(readOptions(statuses, ["open", "closed", "open"], "status")).toEqual(["open", "closed"]);
  expect(readOptions(someOf(["open"], { min: 0 }), [], "status")).toEqual([]);
  for (const invalid of [[], "shut", ["open", "shut"], [["open"]], null]) {
    expect(() => readOptions(statuses, invalid, "status")).toThrow(
      "expected one or more of open, closed.",
    );
  }
});

describe("any value is parsed, or refused with an InvalidOptionError that names option and value", () => {
  const LEAVES = {
    count: count({ min: 0, max: 9, infinity: true }),
    duration: duration({ max: "1 day" }),
    instant: instant({ forAlarm: true }),
    oneOf: oneOf(["a", true, null]),
    someOf: someOf(["a", "b"]),
    flag: flag(),
    hook: hook(),
    text: text({ maxLength: 20, maxBytes: 20 }),
    list: list(flag(), { min: 1, max: 3 }),
    optionsOf: RETRY,
    union: z.union([flag(), RETRY], { error: "expected true or retry options" }),
  };

  const fails = () => {
    throw new Error("hostile");
  };
  const hostile = (target: object) =>
    new Proxy(target, { get: fails, has: fails, ownKeys: fails, getPrototypeOf: fails });
  const values = fc.oneof(
    fc.anything({ withBigInt: true, withDate: true, withMap: true, withNullPrototype: true }),
    fc.string({ unit: ANY_CHARACTER }),
    fc.record({ maxAttempts: fc.anything(), maxDelay: fc.anything() }, { requiredKeys: [] }),
    fc.array(fc.boolean()),
    fc.constantFrom<unknown>(
      Symbol("s"),
      Promise.resolve(1),
      Promise,
      Object.create({ maxAttempts: 1 }),
    ),
  );
  // Made late: fast-check itself would read them.
  const HOSTILE: (() => unknown)[] = [
    () => hostile({}),
    () => hostile([]),
    () => hostile(fails),
    () => ({ toJSON: fails }),
    () => Object.defineProperty({}, "maxAttempts", { get: fails, enumerable: true }),
    () => ({ maxDelay: hostile({}) }),
    () => [hostile({})],
  ];
  const makers = fc.oneof(
    { weight: 20, arbitrary: values.map((value) => () => value) },
    { weight: 1, arbitrary: fc.constantFrom(...HOSTILE) },
  );

  it.each(Object.entries(LEAVES))("%s", (_, schema) => {
    const options = optionsOf<{ leaf?: unknown }>()({ leaf: schema as z.ZodType<unknown> });
    fc.assert(
      fc.property(makers, (make) => {
        const value = make();
        const error = errorOf(() => {
          readOptions(options, { leaf: value }, "ask()");
        });
        if (error === undefined) return;
        const { option, message } = error as InvalidOptionError;
        expect(error).toBeInstanceOf(InvalidOptionError);
        expect(message).toMatch(/^(Invalid|Unknown option|Missing option) .*\.$/s);
        if (message.includes("reading it failed")) return;
        expect(option).toMatch(/^leaf/);
        if (option !== "leaf") return;
        const given = [preview(value), "of "].map((form) =>
          message.startsWith(`Invalid leaf ${form}`),
        );
        expect(value === undefined || given.includes(true)).toBe(true);
      }),
      { numRuns: 1_000 },
    );
  });
});
