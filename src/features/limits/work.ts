/** A piece of work that needs capacity: the turn of a submission, or of a client. What it needs, and what a refusal means for it. */

import { failureOf } from "../../core/failures.ts";
import type { Admission } from "../../submissions/gate.ts";
import type { WaitingFor } from "../../submissions/types.ts";
import type { Denied, Held, Need, WorkLimit } from "./capacity.ts";
import type { DeclaredLimit, LimitSubject } from "./declared/declarations.ts";
import type { PricedTokens } from "./declared/prices.ts";
import {
  LimitReachedError,
  LimitTimeoutError,
  SubmissionReplacedError,
  SubmissionSkippedError,
} from "./errors.ts";
import { windowOf } from "./keeper/calendar.ts";
import { type Amounts, DIMENSIONS, type Dimension, type Rules } from "./keeper/protocol.ts";
import { rulesOfShard } from "./keepers.ts";

export type Work = {
  /** Undefined for a client's turn. */
  readonly seq: number | undefined;
  readonly ticket: string;
  readonly subject: LimitSubject;
  readonly priority: number;
  /** When it was accepted, epoch milliseconds. */
  readonly acceptedAt: number;
  /** In nanodollars. */
  readonly budget: number | undefined;
  /** Nanodollars of all its model calls, and of those since the last report. */
  spent: number;
  cost: number | undefined;
  /** Nanodollars that its open calls may cost. */
  reserved: number;
  /** Whether it has made a call in this attempt. */
  hasBegun: boolean;
  /** Whether it has started without its limits of models, which it has not got yet: its model was not known. */
  isUnasked: boolean;
  /** What it waits for, since the last ask. */
  waits: readonly Need[];
  /** Since when it waits, without a model call in between. */
  since: number | undefined;
  /** The keys of the limits that were asked for it. */
  readonly keys: Map<WorkLimit, string | undefined>;
  /** What was reserved at its admission, by the name of the limit. */
  readonly held: Map<string, Held>;
  /** Ends the model calls that run. */
  readonly calls: Set<() => void>;
  isOver: boolean;
};

const DAY_MS = 86_400_000;

export function workLimitOf(declared: DeclaredLimit): WorkLimit {
  const { name, shards, whenUnreachable, timeoutMs, atEnd } = declared;
  const rules = rulesOfShard(declared);
  return { name, shards, rules, whenUnreachable, timeoutMs, atEnd, declared, shown: name };
}

/** A limit that submissions bring, by its key. Each key has a keeper. */
export function ownLimitOf(option: "concurrency" | "rate", key: string, rules: Rules): WorkLimit {
  return {
    ...{ name: `${option}/${key}`, shown: option, shards: 1, rules },
    ...{ whenUnreachable: "wait", timeoutMs: DAY_MS, atEnd: "wait" },
  };
}

/** The amounts of the dimensions that a limit has. */
export function amountsFor(rules: Rules, amounts: Amounts): Amounts {
  const some = DIMENSIONS.filter((name) => rules[name] !== undefined && amounts[name]);
  return Object.fromEntries(some.map((name) => [name, amounts[name]]));
}

/** The tokens of a call, as the provider of the limit counts them. */
export function tokensFor(
  { declared }: WorkLimit,
  model: string | undefined,
  { input, cachedInput = 0, output }: PricedTokens,
): number {
  const skipped = declared?.countsCached(model) === false ? Math.min(cachedInput, input) : 0;
  return input - skipped + output;
}

/** By no more than the limit ever has: before the call, the need is a guess. */
export function clamped(rules: Rules, amounts: Amounts): Amounts {
  const entries = Object.entries(amounts) as [Dimension, number][];
  return Object.fromEntries(
    entries.map(([name, amount]) => [name, Math.min(amount, amountOf(rules, name) ?? amount)]),
  );
}

function amountOf(rules: Rules, name: Dimension): number | undefined {
  return name === "slots" ? rules.slots : rules[name]?.amount;
}

/** The dimension of which the limit never has so much. */
export function exceeded({ limit, amounts }: Need): Dimension | undefined {
  return DIMENSIONS.find(
    (name) => (amounts[name] ?? 0) > (amountOf(limit.rules, name) ?? Number.POSITIVE_INFINITY),
  );
}

export type DeniedNeed = { readonly need: Need; readonly denied: Denied };

/** What a denial means: an error ends the work, or it waits. */
export type Verdict =
  | { readonly error: Error; readonly status: "error" | "skipped" | "aborted" }
  | { readonly waitingFor: WaitingFor; readonly waitMs: number };

/** @param denials at least one: what the work waits for from now on */
export function verdictOf(work: Work, denials: readonly DeniedNeed[], now: number): Verdict {
  work.waits = denials.map(({ need }) => need);
  for (const { need, denied } of denials) {
    const ended = endOf(work, need, denied, now);
    if (ended) return ended;
  }
  const [first, ...others] = denials.flatMap(({ need, denied }) =>
    denied.outcome === "wait" ? [{ need, denied }] : [],
  );
  if (!first) throw new Error("A denial was expected");
  const longest = others.reduce(
    (one, other) => (other.denied.waitMs > one.denied.waitMs ? other : one),
    first,
  );
  const { limit, key } = longest.need;
  const { waitMs, why, reason } = longest.denied;
  const since = work.since ?? now;
  const until = Math.max(now + 1, Math.min(now + waitMs, since + limit.timeoutMs));
  const waitingFor = { limit: limit.shown, key, until, since, why, ...(reason && { reason }) };
  return { waitingFor, waitMs: until - now };
}

function endOf(work: Work, need: Need, denied: Denied, now: number): Verdict | undefined {
  const { limit, key, amounts } = need;
  const { shown, rules, timeoutMs } = limit;
  const dimension =
    denied.outcome === "wait" && denied.why === "unreachable"
      ? undefined
      : (denied.dimension ?? DIMENSIONS.find((name) => amounts[name]));
  if (denied.outcome === "refused") {
    if (denied.why === "replaced")
      return { error: new SubmissionReplacedError(key), status: "aborted" };
    if (denied.why === "skipped")
      return { error: new SubmissionSkippedError(key), status: "skipped" };
    const name = dimension ?? "requests";
    const allowed = denied.allowed ?? amountOf(rules, name) ?? 0;
    const error = new LimitReachedError(shown, key, name, allowed, undefined, amounts[name]);
    return { error, status: "error" };
  }
  const { why, waitMs } = denied;
  if (limit.atEnd === "fail" && why === "full") {
    const name = dimension ?? "requests";
    const { window } = (name === "slots" ? undefined : rules[name]) ?? {};
    // The keeper lets no work wait as long as a day or a month.
    const until = window && "calendar" in window ? windowOf(window, now).endsAt : now + waitMs;
    const error = new LimitReachedError(shown, key, name, amountOf(rules, name) ?? 0, until);
    return { error, status: "error" };
  }
  if (now - (work.since ?? now) < timeoutMs) return undefined;
  return { error: new LimitTimeoutError(shown, key, timeoutMs, why), status: "error" };
}

/** A verdict as the ledger takes it. */
export function admissionOf(verdict: Verdict): Admission {
  if ("waitingFor" in verdict) return { waitingFor: verdict.waitingFor };
  return { status: verdict.status, failure: failureOf(verdict.error) };
}
