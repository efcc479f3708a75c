/** Decides when an entry is attempted again, and when it becomes a dead letter. Pure functions. */

import type { Clock } from "../../core/clock.ts";
import { backoffMs } from "../../core/failures.ts";
import { count, duration, flag, optionsOf } from "../../core/options/option-schemas.ts";
import { type Duration, millisecondsOf } from "../../core/options/options.ts";

/** How deliveries to a destination are retried. A destination's own policy is stored with each of its entries. */
export type DeliveryPolicy = {
  /**
   * Attempts before the entry becomes a dead letter: a whole number from 1.
   * @default 100
   */
  readonly maxAttempts?: number;
  /**
   * The age at which an entry becomes a dead letter, whatever its attempts.
   * @default "3 days"
   */
  readonly maxAge?: Duration;
  /**
   * The time limit of one attempt. The event may still have arrived, so the next attempt repeats its id.
   * @default "30 seconds", of a webhook "15 seconds"
   */
  readonly timeout?: Duration;
  /** The delay after a failure: a random part of `base`, doubled with each failure, at most `cap` (full jitter). */
  readonly backoff?: {
    /** @default "1 second" */
    readonly base?: Duration;
    /** @default "1 hour" */
    readonly cap?: Duration;
  };
  /**
   * First attempts to one destination start in the order of `put()`, one at a time. With `true` an entry that fails also
   * blocks those behind it until it is delivered or a dead letter; with `false` they overtake it.
   * Use the same value for all entries of a destination.
   * @default false
   */
  readonly ordered?: boolean;
  /**
   * Whether an attempt whose outcome is unknown is repeated where the receiver would not recognize that: the message may come
   * twice. With `false` it is a dead letter.
   * @default false
   */
  readonly mayRepeat?: boolean;
};

/** Alarms reach to the year 2189. */
const length = () => duration({ max: "3650 days" }).optional();

export const POLICY = optionsOf<DeliveryPolicy>()({
  maxAttempts: count().optional(),
  maxAge: length(),
  // A timer cannot be longer than 24 days, and no object instance lives so long.
  timeout: duration({ max: "1 day" }).optional(),
  backoff: optionsOf<NonNullable<DeliveryPolicy["backoff"]>>()({
    base: length(),
    cap: length(),
  }).optional(),
  ordered: flag().optional(),
  mayRepeat: flag().optional(),
});

/** A policy with every default filled in. The kind of destination has the default of `timeoutMs`. */
export type Policy = ReturnType<typeof policyOf>;

/** The policy of one destination: its own, else that of the outbox, else the defaults. */
export function policyOf(own: DeliveryPolicy = {}, outbox: DeliveryPolicy = {}) {
  const {
    maxAttempts = 100,
    maxAge = "3 days",
    timeout,
    mayRepeat = false,
  } = { ...outbox, ...own };
  const { base = "1 second", cap = "1 hour" } = { ...outbox.backoff, ...own.backoff };
  const ms = (length: Duration) => millisecondsOf(length) ?? 1;
  return {
    maxAttempts,
    maxAgeMs: ms(maxAge),
    timeoutMs: timeout === undefined ? undefined : ms(timeout),
    backoff: { baseMs: ms(base), capMs: ms(cap) },
    mayRepeat,
  };
}

/** Whether an entry blocks those behind it. Decided by `put()`, and stored with the entry. */
export function isOrdered(own: DeliveryPolicy = {}, outbox: DeliveryPolicy = {}): boolean {
  return own.ordered ?? outbox.ordered ?? false;
}

/** The facts that decide whether an entry is attempted again. */
type Tried = {
  /** Attempts started since it was put or redriven. */
  readonly attempts: number;
  /** When it was put or redriven, epoch milliseconds. */
  readonly queuedAt: number;
};

type Next = { readonly dueAt: number } | { readonly givenUp: string };

/**
 * When the next attempt after a failed one is due, or why there is none.
 *
 * @param tried.isCounted false for an attempt that was ended early: it is never the last one
 * @param heldUntil until when the destination asked not to be called, or null
 */
export function nextAttempt(
  { attempts, queuedAt, isCounted }: Tried & { readonly isCounted: boolean },
  policy: Policy,
  { now, random }: Clock,
  heldUntil: number | null,
): Next {
  const givenUp = `Given up after ${attempts} ${attempts === 1 ? "attempt" : "attempts"}`;
  if (isCounted && attempts >= policy.maxAttempts) return { givenUp };
  const delayed = onGrid(now(), backoffMs(attempts, policy.backoff, random()));
  const dueAt = Math.max(delayed, heldUntil ?? 0);
  if (dueAt - queuedAt <= policy.maxAgeMs) return { dueAt };
  const seconds = Math.round(policy.maxAgeMs / 1_000);
  return { givenUp: `${givenUp}: the next one would come after its maxAge of ${seconds} s` };
}

/** The longest backoff after a crash. The destination did not cause it, so no policy makes it longer. */
const INTERRUPTED_BASE_MS = 1_000;
const INTERRUPTED_CAP_MS = 3_600_000;
/** Attempts in a row that a crash may interrupt: two beside others, and the rest alone. */
const MAX_INTERRUPTIONS = 8;

/**
 * When the next attempt after an interrupted one is due, or why there is none. One that ran beside others is the last only
 * because of its age, and never where it is the first, which may not have started.
 */
export function afterInterruption(
  tried: Tried & { readonly interruptions: number; readonly wasAlone: boolean },
  { maxAttempts, maxAgeMs, backoff }: Policy,
  { now, random }: Clock,
): Next {
  const { attempts, queuedAt, interruptions, wasAlone } = tried;
  const givenUp = `Given up: the object may not have survived the last ${interruptions} attempts`;
  const isLast = attempts >= maxAttempts || interruptions >= MAX_INTERRUPTIONS;
  if (wasAlone && isLast) return { givenUp };
  const baseMs = Math.min(backoff.baseMs, INTERRUPTED_BASE_MS);
  const capMs = Math.min(backoff.capMs, INTERRUPTED_CAP_MS);
  const dueAt = onGrid(now(), backoffMs(interruptions, { baseMs, capMs }, random()));
  return interruptions >= 2 && dueAt - queuedAt > maxAgeMs ? { givenUp } : { dueAt };
}

/** When a delay has passed, rounded up, so that retries at about the same time share a wake. */
function onGrid(now: number, delay: number): number {
  const step = 2 ** Math.max(0, Math.floor(Math.log2(delay / 16)));
  return Math.ceil((now + delay) / step) * step;
}
