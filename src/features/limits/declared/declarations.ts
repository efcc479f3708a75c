/** The declarations of an app: `limit()`, and the options of `limits()`, which are read once, at the start. */

import * as z from "zod";
import { failureOf } from "../../../core/failures.ts";
import { type Json, preview } from "../../../core/json.ts";
import {
  check,
  count,
  duration,
  hook,
  list,
  oneOf,
  optionsOf,
  readOptions,
  text,
} from "../../../core/options/option-schemas.ts";
import type { Duration } from "../../../core/options/options.ts";
import { isPlainObject } from "../../../core/options/options.ts";
import type { IsWide } from "../../../core/text.ts";
import { canonicalZone, ZONE_FORMS } from "../../../core/time-zones.ts";
import type { Destination } from "../../../outbox/destinations/index.ts";
import { InvalidLimitKeyError } from "../errors.ts";
import type { Rules } from "../keeper/protocol.ts";
import { countsCachedInput, MAX_PATTERN, namesModel } from "./models.ts";
import { type Prices, type PriceTable, priceTable } from "./prices.ts";
import {
  type CountRate,
  countRate,
  type DollarRate,
  dollarRate,
  type RateText,
  ruleOf,
} from "./rates.ts";

/** What a limit's key is computed from. */
export type LimitSubject = {
  /** The metadata of the submission; empty for a turn of a chat client. */
  readonly metadata: { readonly [name: string]: Json | undefined };
  /** The name of the agent's object. */
  readonly agent: string;
  /** The name of its class. */
  readonly className: string;
  readonly thread: string;
};

type KeyFunction = (of: LimitSubject) => Json | undefined;

/** By key; keys that are not named weigh 1. */
type Weights = Readonly<Record<string, number>>;

export type LimitOptions = {
  /** The models that it limits, `<provider>/<modelId>` or `<modelId>`; `*` stands for any characters. @default all */
  readonly models?: string | readonly string[] | undefined;
  /**
   * Whose limit it is: each key has the whole amount. The limit does not apply where it returns undefined. Anything else
   * than a string of 1 to 256 characters fails the turn. Without it, all agents share one amount.
   */
  readonly key?: KeyFunction | undefined;
  /** Model calls, e.g. `"1000 per minute"`. */
  readonly requests?: RateText | undefined;
  /** Tokens of input and output, e.g. `"2_000_000 per minute"`. */
  readonly tokens?: RateText | undefined;
  /**
   * Whether input that the provider reads from its cache counts for `tokens`. @default as the provider counts it: models of
   * OpenAI and Azure count it, others do not
   */
  readonly cachedTokens?: "count" | "skip" | undefined;
  /** Dollars, by `prices` of `limits()`, e.g. `"20 per day"`. */
  readonly usd?: RateText | undefined;
  /** Model calls that run at the same time. */
  readonly concurrency?: number | undefined;
  /** Of its days and months. @default "UTC" */
  readonly zone?: string | undefined;
  /** The keys share the limits that have none: `"fair"` for equal parts, or weights from 0.01 to 100 by key. Needs `key`. */
  readonly share?: "fair" | Weights | undefined;
  /** Whether a turn waits for the next window, or fails, when the amount is used. @default "wait" */
  readonly atEnd?: "wait" | "fail" | undefined;
  /** How long a turn waits before it ends with `LimitTimeoutError`: at most 90 days. @default "1 day" */
  readonly timeout?: Duration | undefined;
  /** Whether turns wait, or run without the limit, while its keeper cannot be reached. @default "wait" */
  readonly whenUnreachable?: "wait" | "allow" | undefined;
  /** Keeper objects that carry it together: at most 256. @default 1 */
  readonly shards?: number | undefined;
  /** Notified once in a window when 80 and when 100 percent of `usd` are used. */
  readonly notify?: Destination | readonly Destination[] | undefined;
};

/** What `limit()` takes: literal rates are checked by the compiler, and `share` needs `key`. */
type CheckedLimit<Requests extends string, Tokens extends string, Usd extends string> = Omit<
  LimitOptions,
  "requests" | "tokens" | "usd" | "key" | "share"
> & {
  readonly requests?: CountRate<Requests> | undefined;
  readonly tokens?: CountRate<Tokens> | undefined;
  readonly usd?: DollarRate<Usd> | undefined;
} & (
    | (Required<Pick<LimitOptions, "key">> & Pick<LimitOptions, "share">)
    | { readonly key?: undefined; readonly share?: undefined }
  );

/** Names of what submissions bring themselves. */
const RESERVED = ["concurrency", "rate", "singleton", "budget"] as const;
const NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]*$/;

type CheckedName<Name extends string> =
  IsWide<Name> extends true
    ? Name
    : Name extends (typeof RESERVED)[number]
      ? `"${Name}" is the name of an option of submissions`
      : Name extends "" | `${string}${"/" | " "}${string}`
        ? "expected letters, digits, underscores, dots and hyphens"
        : Name;

declare const declared: unique symbol;

/** What `limit()` returns, for `limits` of `limits()`. */
export type Limit<Name extends string = string> = {
  readonly name: Name;
  readonly [declared]: true;
};

/** A limit, read. */
export type DeclaredLimit = {
  readonly name: string;
  readonly matches: (model: string) => boolean;
  /** Whether it names models: then it does not concern turns of others. */
  readonly isOfModels: boolean;
  /** @throws InvalidLimitKeyError */
  readonly keyOf?: (of: LimitSubject) => string | undefined;
  readonly rules: Rules;
  /** Whether cached input counts as tokens. */
  readonly countsCached: (model: string | undefined) => boolean;
  readonly weightOf?: (key: string) => number;
  readonly atEnd: "wait" | "fail";
  readonly timeoutMs: number;
  readonly whenUnreachable: "wait" | "allow";
  readonly shards: number;
  /** Checked where the outbox is known. */
  readonly notify: readonly Destination[];
};

/** A {@link Limit} is this to the feature. */
const read = new WeakMap<object, DeclaredLimit>();

const ZONE = text({ maxLength: 100 }).refine((zone) => canonicalZone(zone) !== undefined, {
  error: `expected ${ZONE_FORMS}`,
});

const PATTERN = text({ maxLength: MAX_PATTERN });
const MODELS = z.union([PATTERN.transform((one) => [one]), list(PATTERN, { min: 1, max: 100 })], {
  error: `expected a model such as "openai/gpt-5-mini" or "openai/*" of at most ${MAX_PATTERN} characters, or a list of 1 to 100`,
});

const KEY = text({ maxLength: 256 });
const WEIGHT = check<number>(
  (value) => typeof value === "number" && value >= 0.01 && value <= 100,
  "a weight from 0.01 to 100",
);
const SHARE = z.union(
  [oneOf(["fair"]), check<Weights>(isPlainObject, "weights by key").pipe(z.record(KEY, WEIGHT))],
  {
    error: 'expected "fair", or weights from 0.01 to 100 by key such as { acme: 2 }',
  },
);

const DESTINATION = check<Destination>(
  isPlainObject,
  "what a function such as webhook() or method() returns",
);
const NOTIFY = z.union([DESTINATION.transform((one) => [one]), list(DESTINATION, { max: 10 })], {
  error:
    "expected a destination such as what webhook() or method() returns, or a list of at most 10",
});

const LIMIT = optionsOf<LimitOptions>()({
  models: MODELS.optional(),
  key: hook().optional(),
  requests: countRate().optional(),
  tokens: countRate().optional(),
  cachedTokens: oneOf(["count", "skip"]).optional(),
  usd: dollarRate().optional(),
  concurrency: count({ max: 1_000_000 }).optional(),
  zone: ZONE.optional(),
  share: SHARE.optional(),
  atEnd: oneOf(["wait", "fail"]).default("wait"),
  timeout: duration({ max: "90 days" }).default(86_400_000),
  whenUnreachable: oneOf(["wait", "allow"]).default("wait"),
  shards: count({ max: 256 }).default(1),
  notify: NOTIFY.optional(),
}).check((ctx) => {
  const problem = problemOf(ctx.value);
  if (!problem) return;
  const [path, message] = problem;
  ctx.issues.push({
    code: "custom",
    input: ctx.value,
    path: [...path],
    message: `expected ${message}`,
  });
});

type Read = z.output<typeof LIMIT>;

/** What is wrong with options that are valid one by one, and where. */
function problemOf(
  options: Read,
): readonly [path: readonly string[], expected: string] | undefined {
  const { key, requests, tokens, cachedTokens, usd, concurrency, zone, share } = options;
  const { shards, notify } = options;
  const rates = [requests, tokens, usd].filter((rate) => rate !== undefined);
  if (rates.length === 0 && concurrency === undefined && share === undefined)
    return [[], "at least one of requests, tokens, usd, concurrency and share"];
  if (share !== undefined && key === undefined)
    return [["share"], "a key, whose values share the limits that have no key. Add key"];
  if (cachedTokens !== undefined && tokens === undefined)
    return [["cachedTokens"], "tokens, which it is for. Add tokens, or remove cachedTokens"];
  if (notify !== undefined && usd === undefined)
    return [["notify"], "usd, whose use is notified. Add usd, or remove notify"];
  if (zone !== undefined && !rates.some(({ per }) => per === "day" || per === "month"))
    return [["zone"], "a rate per day or per month, which a zone is for. Remove zone"];
  const amounts = [...rates.map(({ amount }) => amount), concurrency ?? shards];
  const smallest = Math.min(...amounts);
  // A keyed limit is divided by its keys, of which each keeps the whole amount.
  if (key === undefined && shards > smallest)
    return [
      ["shards"],
      `at most ${smallest}, the smallest amount of the limit, which the shards divide`,
    ];
  return undefined;
}

/**
 * Declares a limit that agents share. Pass it to {@link limits}.
 *
 * @param name 1 to 64 letters, digits, underscores, dots and hyphens. Agents of all classes that use a name share its limit.
 * @throws InvalidOptionError
 * @example
 * limit("tenant", { key: ({ metadata }) => metadata.tenant, usd: "20 per day", share: "fair" });
 */
export function limit<
  const Name extends string,
  const Requests extends string,
  const Tokens extends string,
  const Usd extends string,
>(name: CheckedName<Name>, options: CheckedLimit<Requests, Tokens, Usd>): Limit<Name> {
  readOptions(LIMIT_NAME, name, "name of limit()");
  const where = `limit(${preview(name)})`;
  // Read as a part of an object, so that messages name the limit: `limit("openai").requests`.
  const all = readOptions(z.object({ [where]: LIMIT }), { [where]: options ?? {} }, where);
  const value = Object.freeze({ name }) as unknown as Limit<Name>;
  read.set(value, declaredOf(name, all[where] as Read));
  return value;
}

const LIMIT_NAME = text({ maxLength: 64 })
  .refine((name) => NAME.test(name), {
    error: 'expected letters, digits, "_", "." and "-", and a letter or digit first',
  })
  .refine((name) => !(RESERVED as readonly string[]).includes(name), {
    error: `expected another name than ${RESERVED.join(", ")}, which are options of submissions`,
  });

function declaredOf(name: string, options: Read): DeclaredLimit {
  const { models, key, requests, tokens, usd, concurrency, zone, share, timeout, notify } = options;
  const { atEnd, whenUnreachable, shards, cachedTokens } = options;
  return {
    name,
    matches: (model) => models === undefined || models.some((one) => namesModel(one, model)),
    isOfModels: models !== undefined,
    ...(key && { keyOf: (of: LimitSubject) => keyOf(name, key, of) }),
    rules: {
      ...(requests && { requests: ruleOf(requests, zone) }),
      ...(tokens && { tokens: ruleOf(tokens, zone) }),
      ...(usd && { nanodollars: ruleOf(usd, zone) }),
      ...(concurrency !== undefined && { slots: concurrency }),
    },
    countsCached: (model) =>
      cachedTokens === undefined ? countsCachedInput(model) : cachedTokens === "count",
    ...(share && { weightOf: weightsOf(share) }),
    atEnd,
    timeoutMs: timeout,
    whenUnreachable,
    shards,
    notify: notify ?? [],
  };
}

function weightsOf(share: "fair" | Weights): (key: string) => number {
  const weights = new Map(share === "fair" ? [] : Object.entries(share));
  return (key) => weights.get(key) ?? 1;
}

/** The key of a turn, by the app's function. */
function keyOf(name: string, key: KeyFunction, of: LimitSubject): string | undefined {
  let found: unknown;
  try {
    found = key(of);
  } catch (error) {
    throw new InvalidLimitKeyError(
      name,
      `its function has thrown: ${preview(failureOf(error).message)}`,
    );
  }
  if (found === undefined) return undefined;
  const { success, data } = KEY.safeParse(found);
  if (success) return data;
  throw new InvalidLimitKeyError(name, `its function has returned ${preview(found)}`);
}

/** Two limits of a list may not have the same name. */
type CheckedLimits<Limits extends readonly Limit[]> = {
  readonly [Index in keyof Limits]: Limits[Index] extends Limit<infer Name>
    ? IsWide<Name> extends true
      ? Limits[Index]
      : Index extends IndexOf<Limits, Name>
        ? Limits[Index]
        : `Another limit of the list is called "${Name}"`
    : Limits[Index];
};

/** The first index of a name. */
type IndexOf<Limits extends readonly Limit[], Name extends string> = Limits extends readonly [
  ...infer Before extends readonly Limit[],
  infer Last extends Limit,
]
  ? Name extends Before[number]["name"]
    ? IndexOf<Before, Name>
    : Last["name"] extends Name
      ? `${Before["length"]}`
      : never
  : never;

export type LimitsOptions<Limits extends readonly Limit[] = readonly Limit[]> = {
  /** What `limit()` returns, at most 100. @default none: for submissions with `concurrency`, `rate` or `budget` of their own */
  readonly limits?: (Limits & CheckedLimits<Limits>) | undefined;
  /** What models cost. Needed by limits with `usd` and by `budget.usd` of submissions. */
  readonly prices?: PriceTable | undefined;
  /** The binding of the class `LimitKeeper`. @default "LIMIT_KEEPER" */
  readonly keeper?: string | undefined;
  /** Output tokens that are reserved for a model call that names no maximum: at most 10,000,000. @default 16_384 */
  readonly maxOutputTokens?: number | undefined;
};

/** The options of `limits()`, read. */
export type LimitsSettings = {
  readonly limits: readonly DeclaredLimit[];
  readonly prices: Prices;
  /** The name of the binding. */
  readonly keeper: string;
  readonly maxOutputTokens: number;
};

const DECLARED = check<Limit>(
  (value) => typeof value === "object" && value !== null && read.has(value),
  'what limit() returns, such as limit("openai", { requests: "1000 per minute" })',
).transform((one) => read.get(one) as DeclaredLimit);

const LIMITS = optionsOf<LimitsOptions>()({
  limits: list(DECLARED, { max: 100 }).default([]),
  prices: priceTable().default([]),
  keeper: text({ maxLength: 128 })
    .refine((name) => /^[A-Za-z_$][\w$]*$/.test(name), {
      error: 'expected the name of a binding, such as "LIMIT_KEEPER"',
    })
    .default("LIMIT_KEEPER"),
  maxOutputTokens: count({ max: 10_000_000 }).default(16_384),
}).check((ctx) => {
  const { limits, prices } = ctx.value;
  const names = limits.map(({ name }) => name);
  const twice = names.findIndex((name, index) => names.indexOf(name) !== index);
  const refuse = (path: (string | number)[], message: string) =>
    ctx.issues.push({ code: "custom", input: ctx.value, path, message: `expected ${message}` });
  if (twice >= 0) refuse(["limits", twice], "a name that no other limit of the list has");
  const paid = limits.find(({ rules }) => rules.nanodollars !== undefined);
  if (paid && prices.length === 0)
    refuse(["prices"], `prices of models, because limit(${preview(paid.name)}) counts dollars`);
});

/** @throws InvalidOptionError */
export function readLimits(options: unknown): LimitsSettings {
  return readOptions(LIMITS, options, "options of limits()");
}
