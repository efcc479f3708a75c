/** Checks what callers send to a keeper. Unknown fields stay: an agent may run a later version than its keeper. */

import * as z from "zod";
import { BoundedCache } from "../../../core/bounded-cache.ts";
import { count, list, readOptions, text } from "../../../core/options/option-schemas.ts";
import { canonicalZone } from "../../../core/time-zones.ts";
import { InvalidKeeperCallError } from "../errors.ts";
import {
  type Ask,
  DIMENSIONS,
  MAX_KEY_LENGTH,
  MAX_REASON_LENGTH,
  type Observation,
  type Return,
  type Rules,
} from "./protocol.ts";

/** Keys of a page. */
const MAX_PAGE = 1_000;

const DAY_MS = 86_400_000;
/** Longer than any work waits. */
const MAX_WAIT_MS = 366 * DAY_MS;
/** The longest window that slides: an hour. */
const MAX_WINDOW_MS = 3_600_000;

/** A number up to one that is clamped; an amount above what a number holds exactly is refused. */
const number = (min: number, max: number, most = max) =>
  z
    .number({ error: `expected a number from ${min} to ${max}` })
    .min(min, { error: `expected a number from ${min} to ${max}` })
    .max(max, { error: `expected a number from ${min} to ${max}` })
    .transform((value) => Math.min(value, most));
const ms = (most: number) => number(0, Number.MAX_SAFE_INTEGER, most);
const object = (shape: z.ZodRawShape) => z.looseObject(shape, { error: "expected an object" });

const KEY = text({ maxLength: MAX_KEY_LENGTH, empty: true });
const TICKET = text({ maxLength: 1_024 });
const AMOUNT = number(0, Number.MAX_SAFE_INTEGER);
const AMOUNTS = object(Object.fromEntries(DIMENSIONS.map((name) => [name, AMOUNT.optional()])));

/** Zones that the platform knows. */
const zones = new BoundedCache<{ readonly isKnown: boolean }>(1_000);
const ZONE = text({ maxLength: 100 }).refine(
  (zone) => zones.get(zone, () => ({ isKnown: canonicalZone(zone) !== undefined })).isKnown,
  { error: "expected the name of a time zone" },
);
const WINDOW = z.union(
  [
    object({ ms: count({ max: MAX_WINDOW_MS }) }),
    object({ calendar: z.enum(["day", "month"]), zone: ZONE }),
  ],
  {
    error: "expected a window",
  },
);
const RULE = object({ amount: count({}), window: WINDOW }).optional();
const RULES = object({
  requests: RULE,
  tokens: RULE,
  nanodollars: RULE,
  slots: count().optional(),
});
const SHARE = object({ key: KEY, weight: number(0.000_001, 1_000_000) }).optional();

const RETURN = object({
  ...{ key: KEY, rules: RULES, ticket: TICKET.optional(), share: SHARE },
  lease: number(0, Number.MAX_SAFE_INTEGER),
  ...{ lent: AMOUNTS, used: AMOUNTS, usedAgoMs: ms(DAY_MS) },
});
const RETURNS = list(RETURN, { max: 1_000 });

const ASK = object({
  ...{ ticket: TICKET, key: KEY, rules: RULES, need: AMOUNTS, ahead: AMOUNTS.optional() },
  share: SHARE,
  priority: number(-100, 100).optional(),
  waitedMs: ms(MAX_WAIT_MS),
  ageMs: ms(MAX_WAIT_MS).optional(),
  isRenewal: z.boolean().optional(),
  hasBegun: z.boolean().optional(),
  failsIfFull: z.boolean().optional(),
  singleton: z.enum(["replace", "skip"]).optional(),
  returns: RETURNS.optional(),
  notified: list(text({ maxLength: 2_048 }), { max: 100 }).optional(),
});

const OBSERVATION = object({
  ...{ key: KEY, rules: RULES },
  allowed: object({ requests: AMOUNT.optional(), tokens: AMOUNT.optional() }).optional(),
  refused: object({ retryAfterMs: ms(DAY_MS).optional() }).optional(),
});

const PAUSE = object({ key: KEY, reason: text({ maxLength: MAX_REASON_LENGTH }) });
const PAGE = object({
  key: KEY.optional(),
  after: KEY.optional(),
  limit: count({ max: MAX_PAGE }),
});

/** Which keys of a keeper, in their order. */
export type KeyPage = {
  /** Only this one. */
  readonly key?: string | undefined;
  /** Those after this one. */
  readonly after?: string | undefined;
  readonly limit: number;
};

const reader =
  <Value>(schema: z.ZodType, name: string) =>
  (value: unknown): Value => {
    const invalid = (field: string, message: string) => new InvalidKeeperCallError(field, message);
    return readOptions(schema, value, name, invalid) as Value;
  };

/** Each throws InvalidKeeperCallError. */
export const readAsk = reader<Ask>(ASK, "ask");
export const readReturns = reader<readonly Return[]>(RETURNS, "returns");
export const readObservation = reader<Observation>(OBSERVATION, "observation");
export const readPause = reader<{ readonly key: string; readonly reason: string }>(PAUSE, "pause");
export const readRules = reader<Rules>(RULES, "rules");
export const readKey = reader<string>(KEY, "key");
export const readPage = reader<KeyPage>(PAGE, "page");
