import fc from "fast-check";
import { describe, expect, expectTypeOf, it } from "vitest";
import { InvalidOptionError } from "../../../src/core/options/options.ts";
import {
  type DeclaredLimit,
  type Limit,
  type LimitOptions,
  type LimitSubject,
  type LimitsOptions,
  limit,
  readLimits,
} from "../../../src/features/limits/declared/declarations.ts";
import { method } from "../../../src/outbox/index.ts";

const prices = { "*": { input: 1, output: 1 } };

/** As an untyped caller calls it. */
const untyped = limit as (name: unknown, options?: unknown) => Limit;

/** The limit as the feature reads it. */
function declared(options: unknown, name = "one"): DeclaredLimit {
  const [read] = readLimits({ limits: [untyped(name, options)], prices }).limits;
  return read as DeclaredLimit;
}

const of = (metadata: LimitSubject["metadata"]): LimitSubject => ({
  metadata,
  agent: "a",
  className: "Agent",
  thread: "main",
});

function failing(action: () => unknown): Error {
  try {
    action();
  } catch (error) {
    return error as Error;
  }
  throw new Error("It has not failed");
}

describe("limit()", () => {
  it("is read with its defaults", () => {
    const options = { requests: "1000 per minute", concurrency: 200 };
    const { matches, countsCached, ...rest } = declared(options);
    expect(rest).toEqual({
      name: "one",
      isOfModels: false,
      rules: { requests: { amount: 1_000, window: { ms: 60_000 } }, slots: 200 },
      atEnd: "wait",
      timeoutMs: 86_400_000,
      whenUnreachable: "wait",
      shards: 1,
      notify: [],
    });
    expect(matches("openai/gpt-5")).toBe(true);
    expect(countsCached("openai/gpt-5")).toBe(true);
    expect(countsCached("gateway/openai/gpt-5")).toBe(true);
    expect(countsCached("anthropic/claude-5")).toBe(false);
    expect(countsCached(undefined)).toBe(false);
  });

  it("takes cachedTokens where it counts tokens only", () => {
    const counted = declared({ tokens: "5 per minute", cachedTokens: "count" });
    expect(counted.countsCached("anthropic/claude-5")).toBe(true);
    expect(() => declared({ requests: "5 per minute", cachedTokens: "skip" })).toThrow(
      /cachedTokens.*expected tokens, which it is for/,
    );
  });

  it("is read with all of its options", () => {
    const to = method("onMoney");
    const read = declared({
      models: ["openai/*", "claude-*"],
      key: ({ metadata }: LimitSubject) => metadata.tenant,
      tokens: "2_000_000 per hour",
      usd: "20 per day",
      zone: "Europe/Berlin",
      share: { acme: 2 },
      atEnd: "fail",
      timeout: "2 hours",
      whenUnreachable: "allow",
      shards: 4,
      notify: to,
    });
    expect(read).toMatchObject({
      isOfModels: true,
      rules: {
        tokens: { amount: 2_000_000, window: { ms: 3_600_000 } },
        nanodollars: {
          amount: 20_000_000_000,
          window: { calendar: "day", zone: "Europe/Berlin" },
        },
      },
      atEnd: "fail",
      timeoutMs: 7_200_000,
      whenUnreachable: "allow",
      shards: 4,
      notify: [to],
    });
    expect(read.keyOf?.(of({ tenant: "acme" }))).toBe("acme");
    expect(read.keyOf?.(of({}))).toBeUndefined();
    expect([
      read.weightOf?.("acme"),
      read.weightOf?.("other"),
      read.weightOf?.("toString"),
    ]).toEqual([2, 1, 1]);
    const models = ["openai/gpt-5", "anthropic/claude-5", "mistral/small"];
    expect(models.map((model) => read.matches(model))).toEqual([true, true, false]);
  });

  it("gives all keys the same weight with share fair", () => {
    const { weightOf } = declared({ key: () => "a", requests: "1 per second", share: "fair" });
    expect(weightOf?.("a")).toBe(1);
  });

  it("may have no amount where its keys only share those of others", () => {
    expect(declared({ key: () => "a", share: "fair" }).rules).toEqual({});
    expect(() => untyped("one", { share: "fair" })).toThrow(/expected a key, whose values share/);
  });

  it.each<[problem: string, options: unknown, message: string]>([
    ["no options", undefined, 'limit("one") {}: expected at least one of requests'],
    [
      "no amount",
      { models: "a" },
      'limit("one") {"models":"a"}: expected at least one of requests, tokens, usd, concurrency and share.',
    ],
    [
      "an unknown option",
      { request: "1 per day" },
      'Unknown option "request" in limit("one"). Valid options: models, key, requests',
    ],
    [
      "a wrong rate",
      { requests: "1000 per fortnight" },
      'limit("one").requests "1000 per fortnight": expected a whole number',
    ],
    [
      "a share without a key",
      { requests: "1 per day", share: "fair" },
      'limit("one").share "fair": expected a key, whose values share',
    ],
    [
      "a wrong share",
      { requests: "1 per day", share: "equal", key: () => "a" },
      'limit("one").share "equal": expected "fair", or weights',
    ],
    [
      "a weight of 0",
      { requests: "1 per day", share: { a: 0 }, key: () => "a" },
      'limit("one").share.a 0: expected a weight from 0.01 to 100.',
    ],
    [
      "an unknown zone",
      { requests: "1 per day", zone: "Europe/Atlantis" },
      'limit("one").zone "Europe/Atlantis": expected an IANA time zone',
    ],
    [
      "a zone without a day",
      { requests: "1 per hour", zone: "Europe/Berlin" },
      'limit("one").zone "Europe/Berlin": expected a rate per day or per month',
    ],
    [
      "a notification without money",
      { requests: "1 per day", notify: method("on") },
      "expected usd, whose use is notified. Add usd, or remove notify.",
    ],
    [
      "a destination that is none",
      { usd: "1 per day", notify: "https://a.example" },
      'limit("one").notify "https://a.example": expected a destination',
    ],
    [
      "more shards than requests",
      { requests: "3 per day", shards: 4 },
      'limit("one").shards 4: expected at most 3, the smallest amount',
    ],
    ["more shards than slots", { concurrency: 3, shards: 4 }, "expected at most 3"],
    [
      "no slots",
      { concurrency: 0 },
      'limit("one").concurrency 0: expected a whole number from 1 to 1000000.',
    ],
    ["a long timeout", { concurrency: 1, timeout: "91 days" }, 'at most "90 days".'],
    ["no end", { concurrency: 1, timeout: Infinity }, 'limit("one").timeout Infinity'],
    [
      "a key that is no function",
      { concurrency: 1, key: "tenant" },
      'limit("one").key "tenant": expected a function.',
    ],
    [
      "no models",
      { concurrency: 1, models: [] },
      'limit("one").models []: expected a model such as',
    ],
    ["a long model", { concurrency: 1, models: ["a".repeat(201)] }, 'limit("one").models[0]'],
    [
      "a wrong end",
      { concurrency: 1, atEnd: "stop" },
      'limit("one").atEnd "stop": expected "wait" or "fail".',
    ],
  ])("refuses %s", (_, options, message) => {
    const error = failing(() => untyped("one", options));
    expect(error).toBeInstanceOf(InvalidOptionError);
    expect(error.message).toContain(message);
  });

  it("lets shards of a keyed limit have the whole amount, because a key is in one of them", () => {
    expect(declared({ requests: "3 per day", shards: 4, key: () => "a" }).shards).toBe(4);
  });

  it.each([
    "",
    "a/b",
    "a b",
    "-a",
    "a".repeat(65),
    "concurrency",
    "rate",
    "singleton",
    "budget",
    5,
    undefined,
  ])("refuses the name %j", (name) => {
    expect(() => untyped(name, { concurrency: 1 })).toThrow(/^Invalid name of limit\(\) /);
  });

  it("fails a turn whose key is no string, and names the limit", () => {
    const keyed = (key: unknown) => declared({ concurrency: 1, key: () => key }, "tenant");
    for (const key of [5, null, "", {}, "a".repeat(257), "\ud800"]) {
      const error = failing(() => keyed(key).keyOf?.(of({})));
      expect(error.name).toBe("InvalidLimitKeyError");
      expect(error.message).toMatch(
        /^The limit "tenant" has no key for this turn: its function has returned /,
      );
    }
    const thrown = declared({
      concurrency: 1,
      key: () => {
        throw new Error("oops");
      },
    });
    expect(() => thrown.keyOf?.(of({}))).toThrow(
      'The limit "one" has no key for this turn: its function has thrown: "oops". Return a string of 1 to 256 characters, or undefined where the limit does not apply.',
    );
  });

  it("reads whatever it gets, or refuses it with an error of an option", () => {
    const names = ["models", "key", "requests", "share", "zone", "shards", "timeout", "notify"];
    const anyOptions = fc.dictionary(fc.constantFrom(...names), fc.anything(), { maxKeys: 3 });
    fc.assert(
      fc.property(fc.anything(), anyOptions, fc.anything(), (name, options, other) => {
        for (const [one, given] of [
          [name, { concurrency: 1 }],
          ["a", { concurrency: 1, ...options }],
          ["a", other],
        ]) {
          try {
            untyped(one, given);
          } catch (error) {
            expect(error).toBeInstanceOf(InvalidOptionError);
          }
        }
      }),
    );
  });
});

describe("options of limits()", () => {
  it("have defaults, also with no limits", () => {
    expect(readLimits({})).toEqual({
      limits: [],
      prices: [],
      keeper: "LIMIT_KEEPER",
      maxOutputTokens: 16_384,
    });
  });

  it.each<[problem: string, options: unknown, message: string]>([
    [
      "a limit that limit() has not made",
      { limits: [{ name: "a" }] },
      'Invalid limits[0] {"name":"a"}: expected what limit() returns',
    ],
    [
      "one name twice",
      {
        limits: [
          limit("a", { concurrency: 1 }),
          limit("b", { concurrency: 1 }),
          limit("a", { concurrency: 2 }),
        ],
      },
      'Invalid limits[2] {"name":"a"}: expected a name that no other limit of the list has.',
    ],
    [
      "money without prices",
      { limits: [limit("a", { usd: "1 per day" })] },
      'Missing option "prices" in options of limits(): expected prices of models, because limit("a") counts dollars.',
    ],
    [
      "a wrong price",
      { prices: { "openai/*": { input: -1, output: 1 } } },
      "Invalid prices.openai/*.input -1: expected dollars",
    ],
    [
      "a binding that is no name",
      { keeper: "my-keeper" },
      'Invalid keeper "my-keeper": expected the name of a binding, such as "LIMIT_KEEPER".',
    ],
    [
      "no output",
      { maxOutputTokens: 0 },
      "Invalid maxOutputTokens 0: expected a whole number from 1 to 10000000.",
    ],
    [
      "too many limits",
      { limits: Array.from({ length: 101 }, (_, at) => untyped(`l${at}`, { concurrency: 1 })) },
      "Invalid limits of 101 items: expected at most 100 items.",
    ],
    [
      "an unknown option",
      { limit: [] },
      'Unknown option "limit" in options of limits(). Valid options: limits, prices, keeper, maxOutputTokens.',
    ],
  ])("refuse %s", (_, options, message) => {
    const error = failing(() => readLimits(options));
    expect(error).toBeInstanceOf(InvalidOptionError);
    expect(error.message).toContain(message);
  });
});

/** As `limits()` takes them. */
function typed<const Limits extends readonly Limit[]>(options: LimitsOptions<Limits>) {
  return readLimits(options);
}

describe("types of declarations", () => {
  it("accept what the start accepts", () => {
    const text: string = "10 per minute";
    const amount = 5;
    typed({
      limits: [
        limit("openai", {
          models: "openai/*",
          requests: "1000 per minute",
          tokens: "2000000 per minute",
          concurrency: 200,
        }),
        limit("tenant", {
          key: ({ metadata }) => metadata.tenant,
          usd: "20 per day",
          share: "fair",
        }),
        limit("cents", {
          usd: "0.05 per minute",
          tokens: "2_000_000 per month",
          zone: "Asia/Tokyo",
        }),
        limit("config", { requests: text as "10 per minute" }),
        limit("computed", { requests: `${amount} per minute` }),
        limit(`by-${text.length}`, { concurrency: 1 }),
      ],
      prices: { "openai/gpt-5-mini": { input: 0.25, cachedInput: 0.03, output: 2 } },
    });
    const options: LimitOptions = { requests: "10 per minute" };
    const list: LimitsOptions = { limits: [limit("a", { requests: "1 per day" })] };
    expect([options, list]).toHaveLength(2);
  });

  it("know the name, and the metadata without annotations", () => {
    expectTypeOf(limit("openai", { concurrency: 1 })).toEqualTypeOf<Limit<"openai">>();
    limit("tenant", {
      concurrency: 1,
      key: ({ metadata, agent, className, thread }) => {
        expectTypeOf(metadata).toEqualTypeOf<LimitSubject["metadata"]>();
        expectTypeOf({ agent, className, thread }).toEqualTypeOf<
          Record<"agent" | "className" | "thread", string>
        >();
        return metadata.tenant;
      },
    });
  });

  it("refuse wrong literals", () => {
    /** Never called: the compiler alone reads it. */
    const wrong = () => {
      // @ts-expect-error "per" must be followed by second, minute, hour, day or month, not "fortnight"
      limit("a", { requests: "1000 per fortnight" });
      // @ts-expect-error expected a number greater than 0
      limit("a", { requests: "0 per minute" });
      // @ts-expect-error expected a number in digits
      limit("a", { requests: "-1 per minute" });
      // @ts-expect-error expected a whole number
      limit("a", { tokens: "1.5 per minute" });
      // @ts-expect-error no commas
      limit("a", { tokens: "2,000,000 per minute" });
      // @ts-expect-error no sign
      limit("a", { usd: "$20 per day" });
      // @ts-expect-error expected a number greater than 0
      limit("a", { usd: "0.00 per day" });
      // @ts-expect-error one space each
      limit("a", { usd: "20  per day" });
      // @ts-expect-error a share needs a key
      limit("a", { requests: "1 per minute", share: "fair" });
      // @ts-expect-error an unknown option
      limit("a", { requests: "1 per minute", shard: 2 });
      // @ts-expect-error a key is a text
      limit("a", { requests: "1 per minute", key: () => 5n });
      // @ts-expect-error the name of an option of submissions
      limit("rate", { concurrency: 1 });
      // @ts-expect-error a slash
      limit("a/b", { concurrency: 1 });
      const [a, b] = [limit("a", { concurrency: 1 }), limit("b", { concurrency: 1 })];
      // @ts-expect-error Another limit of the list is called "a"
      typed({ limits: [a, b, a] });
      // @ts-expect-error expected what limit() returns
      typed({ limits: [{ name: "a" }] });
      // @ts-expect-error output is missing
      typed({ prices: { "openai/*": { input: 1 } } });
    };
    expect(wrong).toBeTypeOf("function");
  });
});
