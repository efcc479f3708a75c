/** Forecasts when work can start that waits for a key. An early ask costs a call, a late one its place. Pure. */

import type { Account } from "./account.ts";
import { type Amounts, DIMENSIONS } from "./protocol.ts";

type Usual = {
  readonly account: Account;
  /** How long a piece of work holds a slot. */
  readonly holdMs: number;
  /** Which part of what is lent is used in the end. */
  readonly usedPart: number;
};

/** Tokens that are lent come back before the forecast, where less of them is used. */
const MOSTLY_USED = 0.9;

/**
 * How long it takes until those before it have had what they need, and a slot is free for it.
 *
 * @param times how often its own need goes before it
 */
export function expectedWaitMs(
  { account, holdMs, usedPart }: Usual,
  need: Amounts,
  times: number,
  now: number,
): number {
  const all = DIMENSIONS.map((name) => {
    const amount = need[name] ?? 0;
    if (amount === 0) return 0;
    const own = amount / account.allowed(name, now);
    if (name === "slots") return (times + 1) * own * holdMs;
    const { window } = account.rules[name] ?? {};
    if (!window || "calendar" in window) return 0;
    return times * own * (name === "requests" ? 1 : usedPart) * window.ms;
  });
  return Math.max(...all);
}

/**
 * When to ask again by what leaves the windows. Half of the time, where the forecast is rough: what goes before it fills whole
 * windows, or lent tokens come back earlier.
 *
 * @param leadMs how much earlier it asks
 */
export function freeForecastMs(
  { account, usedPart }: Usual,
  need: Amounts,
  times: number,
  leadMs: number,
  now: number,
): number {
  const needs = DIMENSIONS.map((name) => {
    const isWhole = name === "requests" || name === "slots";
    return [name, (need[name] ?? 0) * (1 + times * (isWhole ? 1 : usedPart))] as const;
  });
  const all = Object.fromEntries(needs);
  const { at, dimension } = account.freeAt(all, now);
  const ms = account.freeAt(all, now, true).at - now;
  if (!Number.isFinite(ms)) return 0;
  const isRough = !Number.isFinite(at) || (dimension === "tokens" && usedPart < MOSTLY_USED);
  return isRough ? 0.5 * ms : ms - leadMs;
}
