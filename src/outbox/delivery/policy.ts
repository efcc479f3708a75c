/** How often, how long and how fast a destination is tried. Decides, and has no state. */

import type { Clock } from "../../core/clock.ts";
import { millisecondsOf } from "../../core/duration.ts";
import { type Backoff, backoffMs } from "../../core/failures.ts";
import { count, duration, flag, optionsOf, readOptions } from "../../core/option-schemas.ts";
import { InvalidOptionError } from "../../core/options.ts";
import type { DeliveryPolicy } from "../types.ts";

const DEFAULTS = {
  maxAttempts: 100,
  maxAge: "3 days",
  base: "1 second",
  cap: "1 hour",
} as const;

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
});

/** A policy with every default filled in. */
export type Policy = {
  readonly maxAttempts: number;
  readonly maxAgeMs: number;
  /** Of one attempt; undefined leaves it to the kind of destination. */
  readonly timeoutMs: number | undefined;
  readonly backoff: Backoff;
};

const WITH_POLICY = optionsOf<{ readonly policy?: DeliveryPolicy }>()({
  policy: POLICY.optional(),
});

/** What is wrong with the policy of a destination, to be read after its name; undefined for a valid one, or none. */
export function problemOfPolicy(policy: unknown): string | undefined {
  try {
    readOptions(WITH_POLICY, { policy }, "destination");
    return undefined;
  } catch (error) {
    if (!(error instanceof InvalidOptionError)) throw error;
    return `has an invalid policy: ${error.message}`;
  }
}

/** The policy of one destination: what it says itself, else what the outbox says, else the defaults. */
export function policyOf(own: DeliveryPolicy = {}, outbox: DeliveryPolicy = {}): Policy {
  const either = { ...outbox, ...own };
  const { base = DEFAULTS.base, cap = DEFAULTS.cap } = { ...outbox.backoff, ...own.backoff };
  const ms = (length: Parameters<typeof millisecondsOf>[0]) => millisecondsOf(length) ?? 1;
  return {
    maxAttempts: either.maxAttempts ?? DEFAULTS.maxAttempts,
    maxAgeMs: ms(either.maxAge ?? DEFAULTS.maxAge),
    timeoutMs: either.timeout === undefined ? undefined : ms(either.timeout),
    backoff: { baseMs: ms(base), capMs: ms(cap) },
  };
}

/** Whether entries of a destination wait for those before them. Decided when one is put, and stored with it. */
export function isOrdered(own: DeliveryPolicy = {}, outbox: DeliveryPolicy = {}): boolean {
  return own.ordered ?? outbox.ordered ?? false;
}

/** What of an entry decides whether it is tried again. */
export type Tried = {
  /** Attempts begun since it was put or redriven. */
  readonly attempts: number;
  /** When it was put or redriven, epoch milliseconds. */
  readonly since: number;
};

/**
 * When the next attempt is due after one that failed, or why there is none.
 * One that was ended early, and is not counted, is never the last.
 *
 * @param asked until when the destination asked to be left alone, or null
 */
export function nextAttempt(
  { attempts, since, isCounted }: Tried & { readonly isCounted: boolean },
  policy: Policy,
  { now, random }: Clock,
  asked: number | null,
): { readonly dueAt: number } | { readonly givenUp: string } {
  const givenUp = `Given up after ${attempts} ${attempts === 1 ? "attempt" : "attempts"}`;
  if (isCounted && attempts >= policy.maxAttempts) return { givenUp };
  const delayed = onGrid(now(), backoffMs(attempts, policy.backoff, random()));
  const dueAt = Math.max(delayed, asked ?? 0);
  if (dueAt - since <= policy.maxAgeMs) return { dueAt };
  const seconds = Math.round(policy.maxAgeMs / 1_000);
  return { givenUp: `${givenUp}: the next one would come after its maxAge of ${seconds} s` };
}

/** Of an attempt that a crash interrupted. The destination is not to blame, so no policy makes it longer. */
const LOST_BASE_MS = 1_000;
const LOST_CAP_MS = 3_600_000;
/** Attempts in a row that a crash may interrupt: two beside others, and the rest alone. */
const MAX_LOST = 8;

/**
 * When the next attempt is due after one that the object may not have survived, or why there is none. One that was made
 * beside others is the last only by its age, and not if it is the first, which may never have begun.
 */
export function afterLost(
  {
    attempts,
    since,
    lost,
    wasAlone,
  }: Tried & { readonly lost: number; readonly wasAlone: boolean },
  { maxAttempts, maxAgeMs, backoff }: Policy,
  { now, random }: Clock,
): { readonly dueAt: number } | { readonly givenUp: string } {
  const givenUp = `Given up: the object may not have survived the last ${lost} attempts`;
  if (wasAlone && (attempts >= maxAttempts || lost >= MAX_LOST)) return { givenUp };
  const baseMs = Math.min(backoff.baseMs, LOST_BASE_MS);
  const capMs = Math.min(backoff.capMs, LOST_CAP_MS);
  const dueAt = onGrid(now(), backoffMs(lost, { baseMs, capMs }, random()));
  return lost >= 2 && dueAt - since > maxAgeMs ? { givenUp } : { dueAt };
}

/** When a delay is over, or a little later, so that retries of about the same time come together, in one wake. */
function onGrid(now: number, delay: number): number {
  const step = 2 ** Math.max(0, Math.floor(Math.log2(delay / 16)));
  return Math.ceil((now + delay) / step) * step;
}
