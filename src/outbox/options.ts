/** The settings of an outbox. Validated once, at construction. */

import {
  count,
  duration,
  flag,
  hook,
  optionsOf,
  readOptions,
} from "../core/options/option-schemas.ts";
import type { Duration } from "../core/options/options.ts";
import type { OnProblem } from "../core/problems.ts";
import { type DeliveryPolicy, POLICY } from "./delivery/policy.ts";
import type { DeadLetter } from "./types.ts";

export type OutboxSettings = {
  /**
   * Deliveries of one kind of destination that run at the same time. While all of them last, one more starts every
   * 300 ms, up to 16 times as many. Endpoints that have not responded yet have fewer slots.
   * @default 8
   */
  readonly concurrency?: number;
  /** For destinations without a policy of their own. */
  readonly policy?: DeliveryPolicy;
  /**
   * Delivered entries that are kept for `inspect()`. Those that were sent as a reference are always kept, so that the
   * receiver can read the event.
   * @default none, and those with a reference for 7 days
   */
  readonly keepDelivered?: {
    /** @default "7 days" */
    readonly maxAge?: Duration;
    /** @default 10_000 */
    readonly maxCount?: number;
  };
  /**
   * Entries that wait to be delivered. `put()` throws an `OutboxFullError` at this number. The events of a submission's
   * end are still stored, so that the end commits.
   * @default 10_000
   */
  readonly maxWaiting?: number;
  /**
   * Dead letters that are kept after `onDeadLetter` was called. The oldest are deleted first.
   * @default 10_000 of them, each for 30 days
   */
  readonly keepDeadLetters?: {
    /** @default "30 days" */
    readonly maxAge?: Duration;
    /** @default 10_000 */
    readonly maxCount?: number;
  };
  /**
   * Whether webhooks may go to private and loopback addresses, there also over plain `http:`. For development and tests.
   * @default false
   */
  readonly allowPrivateAddresses?: boolean;
  /** Called for each dead letter, at least once. An error of the hook is logged, and changes nothing. */
  readonly onDeadLetter?: (letter: DeadLetter) => void | Promise<void>;
  /**
   * Called for each problem: a dead letter (at least once), an endpoint that starts to fail, is disabled or recovers, a
   * reply that was cut to the provider's limit, and a full outbox (once after each start of the object). To silence one, do
   * nothing for its `type`.
   * @default logProblem, which logs one line of JSON
   */
  readonly onProblem?: OnProblem;
};

/** Of rows that are kept. */
export type KeepLimits = { readonly maxAgeMs: number; readonly maxCount: number };
const keep = (maxAge: Duration) =>
  optionsOf<NonNullable<OutboxSettings["keepDelivered"]>>()({
    maxAge: duration({ infinity: true }).prefault(maxAge),
    maxCount: count({ infinity: true }).default(10_000),
  })
    .transform(({ maxAge, maxCount }): KeepLimits => ({ maxAgeMs: maxAge, maxCount }))
    .prefault({});

const SETTINGS = optionsOf<OutboxSettings>()({
  concurrency: count({ max: 64 }).default(8),
  policy: POLICY.prefault({}),
  keepDelivered: keep("7 days"),
  maxWaiting: count({ infinity: true }).default(10_000),
  keepDeadLetters: keep("30 days"),
  allowPrivateAddresses: flag().default(false),
  onDeadLetter: hook().optional(),
  onProblem: hook().optional(),
});

/** @throws InvalidOptionError naming the option */
export function readSettings(settings: OutboxSettings) {
  const { keepDelivered, keepDeadLetters, ...limits } = readOptions(SETTINGS, settings, "outbox");
  return {
    ...limits,
    /** `all`: whether all delivered entries are kept, or only those whose receiver got a reference. */
    kept: { ...keepDelivered, all: settings.keepDelivered !== undefined },
    deadLetters: keepDeadLetters,
  };
}

/** The settings with every default filled in. */
export type OutboxLimits = ReturnType<typeof readSettings>;
