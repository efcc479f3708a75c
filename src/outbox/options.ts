/** What an app can set about its outbox. Checked once, at construction. */

import type { Duration } from "../core/duration.ts";
import {
  checkHook,
  countOf,
  durationOf,
  InvalidOptionError,
  problemOfNames,
} from "../core/options.ts";
import type { OnProblem } from "../core/problems.ts";
import type { LetterLimits } from "./dead-letters.ts";
import type { KeptLimits } from "./delivered.ts";
import { problemOfPolicy } from "./policy.ts";
import type { DeadLetter, DeliveryPolicy } from "./types.ts";

export type OutboxSettings = {
  /**
   * Destinations of one kind that are told at the same time. While all of them take their
   * time one more starts every 300 ms, up to 16 times as many. Endpoints that have not answered yet have
   * fewer slots.
   * @default 8
   */
  readonly concurrency?: number;
  /** For destinations that say nothing of their own. */
  readonly policy?: DeliveryPolicy;
  /**
   * Bytes of one event, as JSON. Each delivery under way has its event in
   * memory, of which an object has 128 MB: with large events, lower `concurrency`.
   * @default 16 MiB
   */
  readonly maxEventBytes?: number;
  /**
   * Delivered entries that are kept to be looked up with `inspect()`. Those
   * that travelled as a reference are kept in any case, to be fetched (O4).
   * @default none, and those with a reference for 7 days
   */
  readonly keepDelivered?: {
    /** @default "7 days" */
    readonly maxAge?: Duration;
    /** @default 10_000 */
    readonly maxCount?: number;
  };
  /**
   * Entries that wait to be delivered. `put()` throws an `OutboxFullError` when there are so many. What the
   * end of a submission sends is stored all the same, so that the end commits.
   * @default 10_000
   */
  readonly maxWaiting?: number;
  /**
   * Dead letters that are kept, of those that `onDeadLetter` has been told of. The oldest are deleted first.
   * @default 10_000 of them, each for 30 days
   */
  readonly keepDeadLetters?: {
    /** @default "30 days" */
    readonly maxAge?: Duration;
    /** @default 10_000 */
    readonly maxCount?: number;
  };
  /**
   * Whether webhooks may go to private and loopback addresses, and over plain
   * `http:` there. For development and tests.
   * @default false
   */
  readonly allowPrivateAddresses?: boolean;
  /**
   * Told of each dead letter, at least once (O3). What it throws is logged,
   * and changes nothing.
   */
  readonly onDeadLetter?: (letter: DeadLetter) => void | Promise<void>;
  /**
   * Told of each problem: a dead letter (at least once), an endpoint that starts to fail, is disabled or recovers,
   * and, once in the life of the object, `maxWaiting`. To silence one, do nothing for its `type`.
   * @default logProblem, which logs one line of JSON
   */
  readonly onProblem?: OnProblem;
};

/** The same, with every default filled in. */
export type OutboxLimits = {
  readonly concurrency: number;
  readonly policy: DeliveryPolicy;
  readonly maxEventBytes: number;
  readonly kept: KeptLimits;
  readonly maxWaiting: number;
  readonly deadLetters: LetterLimits;
  readonly allowPrivateAddresses: boolean;
};

const MAX_EVENT_BYTES = 16 * 1_048_576;
const NAMES = [
  "concurrency",
  "policy",
  "maxEventBytes",
  "keepDelivered",
  "maxWaiting",
  "keepDeadLetters",
  "allowPrivateAddresses",
  "onDeadLetter",
  "onProblem",
] as const satisfies readonly (keyof OutboxSettings)[];

const KEEP = ["maxAge", "maxCount"] as const;

/** @throws InvalidOptionError naming the option */
export function readSettings(settings: OutboxSettings): OutboxLimits {
  const { keepDelivered, keepDeadLetters } = settings;
  const unknown =
    problemOfNames("the outbox", settings, NAMES) ??
    problemOfNames("keepDelivered", keepDelivered, KEEP) ??
    problemOfNames("keepDeadLetters", keepDeadLetters, KEEP);
  if (unknown) throw new InvalidOptionError(unknown.name, unknown.message);
  const { concurrency = 8, policy = {}, maxEventBytes = MAX_EVENT_BYTES } = settings;
  const { maxWaiting = 10_000, onDeadLetter, onProblem, allowPrivateAddresses = false } = settings;
  if (typeof allowPrivateAddresses !== "boolean") {
    throw new InvalidOptionError(
      "allowPrivateAddresses",
      `allowPrivateAddresses is ${JSON.stringify(allowPrivateAddresses)}; expected true or false, or leave it out.`,
    );
  }
  checkHook("onDeadLetter", onDeadLetter);
  checkHook("onProblem", onProblem);
  const problem = problemOfPolicy(policy);
  if (problem) throw new InvalidOptionError("policy", `The outbox ${problem}`);
  const { maxAge = "7 days", maxCount = 10_000 } = keepDelivered ?? {};
  const letters = { maxAge: "30 days", maxCount: 10_000, ...keepDeadLetters } as const;
  return {
    concurrency: countOf("concurrency", concurrency, 64),
    policy,
    maxEventBytes: countOf("maxEventBytes", maxEventBytes, MAX_EVENT_BYTES),
    kept: {
      all: keepDelivered !== undefined,
      maxAgeMs: durationOf("keepDelivered.maxAge", maxAge),
      maxCount: countOf("keepDelivered.maxCount", maxCount),
    },
    maxWaiting: countOf("maxWaiting", maxWaiting),
    deadLetters: {
      maxAgeMs: durationOf("keepDeadLetters.maxAge", letters.maxAge),
      maxCount: countOf("keepDeadLetters.maxCount", letters.maxCount),
    },
    allowPrivateAddresses,
  };
}
