/** What counts in the window of one rule: amounts that were used, and amounts that are lent until their lease ends. Pure. */

import { windowOf } from "./calendar.ts";
import type { Rule } from "./protocol.ts";

/** An amount that counts from `at` on for the length of the window, rounded up to the end of a slice of it. */
type Charge = [at: number, amount: number];

/** As a key's row has it. */
export type StoredCharges = {
  readonly used: readonly Charge[];
  /** By the end of the lease. */
  readonly lent?: readonly Charge[];
  /** Of what is used, the part that is lent for calls that have not been reported, by the end of the lease. */
  readonly open?: readonly Charge[];
};

/** A window has so many slices. A charge leaves the window at the end of its slice: up to 1/120 of the window is lost. */
const SLICES = 120;
/** Leases of a calendar window are counted together by the end of a slice of this length. */
const CALENDAR_SLICE_MS = 10_000;

export class Charges {
  #used: Charge[];
  #lent: Charge[];
  #open: Charge[];

  constructor({ used, lent = [], open = [] }: StoredCharges = { used: [] }) {
    this.#used = copyOf(used);
    this.#lent = copyOf(lent);
    this.#open = copyOf(open);
  }

  toJSON(): StoredCharges {
    return {
      used: this.#used,
      ...(this.#lent.length > 0 && { lent: this.#lent }),
      ...(this.#open.length > 0 && { open: this.#open }),
    };
  }

  /** The clock may have been set back since these were stored: no lease ends later than `time`. */
  notAfter(rule: Rule, time: number): void {
    const isSliding = "ms" in rule.window;
    const charges = [...this.#lent, ...this.#open, ...(isSliding ? this.#used : [])];
    const beyond = Math.max(0, ...charges.map(([at]) => at - time));
    for (const charge of charges) charge[0] -= beyond;
  }

  /** Whether nothing counts at `now`, nor later. */
  isEmpty(rule: Rule, now: number): boolean {
    this.#forget(rule, now);
    return this.#used.length + this.#lent.length === 0;
  }

  /** What counts at a time, now or later, lent amounts included. */
  at(rule: Rule, time: number): number {
    const lent = this.#lent.filter(([at]) => at + keptOf(rule) > time);
    return this.#spent(rule, time) + sum(lent);
  }

  #spent(rule: Rule, time: number): number {
    return sum(this.#used.filter(([at]) => endOf(rule, at) > time));
  }

  /** What was used for certain: what agents have reported, and what was not reported until its lease ended. */
  settled(rule: Rule, time: number): number {
    const lost = this.#lent.filter(([at]) => at <= time && at + keptOf(rule) > time);
    const open = this.#open.filter(([at]) => at > time);
    return Math.max(0, this.#spent(rule, time) + sum(lost) - sum(open));
  }

  /**
   * An amount is lent until a time. Without a report, what is needed counts as used. What is lent ahead comes back at the end of
   * the lease in a calendar window; in a window that slides, it may have been used until then, and counts for a window more.
   */
  lend(rule: Rule, until: number, need: number, ahead: number, now: number): void {
    this.#forget(rule, now);
    const isSliding = "ms" in rule.window;
    add(this.#used, usedSlice(rule, now), isSliding ? 0 : need);
    add(this.#lent, lentSlice(rule, until), isSliding ? need + ahead : ahead);
    add(this.#open, lentSlice(rule, until), isSliding ? 0 : need);
  }

  /** A part of a lease is over: of what was lent, `used` was used at a time, and the rest was not. */
  settle(
    rule: Rule,
    lease: { until: number; lent: number; used: number; usedAt: number },
    now: number,
  ): void {
    this.#forget(rule, now);
    const at = lentSlice(rule, lease.until);
    const [, ahead] = this.#lent.find(([end]) => end === at) ?? [at, 0];
    const fromLent = "ms" in rule.window ? lease.lent : Math.min(ahead, lease.lent);
    add(this.#lent, at, -fromLent);
    add(this.#open, at, fromLent - lease.lent);
    add(this.#used, usedSlice(rule, lease.usedAt), lease.used - (lease.lent - fromLent));
  }

  /**
   * The first time from `now` on at which `amount` fits besides what counts. Infinity: it never does.
   * @param isGuess no report is lost, and no request is late
   */
  freeAt(rule: Rule, amount: number, allowed: number, now: number, isGuess: boolean): number {
    if (amount > allowed) {
      if (!isGuess || !("ms" in rule.window)) return Number.POSITIVE_INFINITY;
      // What goes before it fills whole windows.
      const windows = Math.ceil(amount / allowed) - 1;
      const rest = amount - windows * allowed;
      return this.freeAt(rule, rest, allowed, now, true) + windows * rule.window.ms;
    }
    let counted = this.at(rule, now);
    if (counted + amount <= allowed) return now;
    const leaving = [
      ...this.#used.map(([at, each]) => [endOf(rule, at), each] as const),
      ...this.#lent.map(
        ([at, each]) => [at + keptOf(rule) - (isGuess ? lateOf(rule) : 0), each] as const,
      ),
    ].sort(([one], [other]) => one - other);
    for (const [end, each] of leaving) {
      if (end <= now && !isGuess) continue;
      counted -= each;
      if (counted + amount <= allowed) return Math.max(end, now);
    }
    return Number.POSITIVE_INFINITY;
  }

  /** When the first of what counts at a time leaves the window. */
  nextEnd(rule: Rule, time: number): number | undefined {
    const ends = [
      ...this.#used.map(([at]) => endOf(rule, at)),
      ...this.#lent.map(([at]) => at + keptOf(rule)),
    ].filter((end) => end > time);
    return ends.length === 0 ? undefined : Math.min(...ends);
  }

  #forget(rule: Rule, now: number): void {
    this.#used = this.#used.filter(([at]) => endOf(rule, at) > now);
    this.#lent = this.#lent.filter(([at]) => at + keptOf(rule) > now);
    this.#open = this.#open.filter(([at]) => at > now);
  }
}

/** How long an amount counts after the end of its lease. */
function keptOf(rule: Rule): number {
  return "ms" in rule.window ? rule.window.ms + lateOf(rule) : 0;
}

/** A busy machine sends a request after its lease has ended: by so much at most, or by a part of a short window. */
const LATE_MS = 15_000;

function lateOf({ window }: Rule): number {
  return "ms" in window ? Math.min(LATE_MS, window.ms / 4) : 0;
}

/** When an amount that was used at a time no longer counts. */
function endOf({ window }: Rule, at: number): number {
  return "ms" in window ? at + window.ms : windowOf(window, at).endsAt;
}

function usedSlice(rule: Rule, at: number): number {
  return "ms" in rule.window ? sliceOf(rule.window.ms, at) : endOf(rule, at) - 1;
}

function lentSlice({ window }: Rule, until: number): number {
  if (!("ms" in window)) return Math.ceil(until / CALENDAR_SLICE_MS) * CALENDAR_SLICE_MS;
  return sliceOf(window.ms, until);
}

function sliceOf(windowMs: number, at: number): number {
  const ms = Math.max(1, windowMs / SLICES);
  return Math.ceil(at / ms) * ms;
}

/** Charges stay in the order of their times, and above zero. */
function add(charges: Charge[], at: number, amount: number): void {
  if (amount === 0) return;
  const index = charges.findIndex(([other]) => other >= at);
  const found = index < 0 ? undefined : charges[index];
  if (found?.[0] === at) found[1] = Math.max(0, found[1] + amount);
  else if (amount > 0) charges.splice(index < 0 ? charges.length : index, 0, [at, amount]);
  if (found?.[0] === at && found[1] === 0) charges.splice(index, 1);
}

function copyOf(charges: readonly Charge[]): Charge[] {
  return charges.map(([at, amount]) => [at, amount]);
}

function sum(charges: readonly Charge[]): number {
  return charges.reduce((total, [, amount]) => total + amount, 0);
}
