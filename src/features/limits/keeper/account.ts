/** One key of a limit: what counts in its windows, its slots, what its provider allows, and whether it is paused. Pure. */

import { windowOf } from "./calendar.ts";
import { Charges, type StoredCharges } from "./charges.ts";
import {
  type Amounts,
  type Ask,
  type Dimension,
  type KeyState,
  type Notice,
  type Observation,
  type Return,
  type Rule,
  type Rules,
  SLOT_MS,
} from "./protocol.ts";
import type { StoredShares } from "./queue.ts";

/** By its ticket: until when a piece of work holds slots, how many, and since when. */
type Held = readonly [ticket: string, until: number, slots: number, since: number];

/** As it is stored, in one row. */
export type StoredKey = {
  readonly rules: Rules;
  readonly charges: Partial<Record<Windowed, StoredCharges>>;
  readonly held?: readonly Held[];
  readonly paused?: { readonly at: number; readonly reason: string };
  readonly closedUntil?: number;
  readonly allowed?: Observation["allowed"];
  /** When that is forgotten, unless an agent repeats it: all that have seen it may be gone. */
  readonly allowedUntil?: number;
  /** Which part of the declared amounts is lent after the provider has refused requests, and since when. */
  readonly factor?: readonly [factor: number, at: number];
  /** The newest piece of work with a singleton key, and when it was accepted. */
  readonly newest?: readonly [ticket: string, acceptedAt: number];
  readonly shares?: StoredShares;
  /** The notices that the app has got, by the end of their window. */
  readonly notified?: readonly [windowEndsAt: number, percent: number];
};

export type Windowed = keyof Omit<Rules, "slots">;
const WINDOWED = ["requests", "tokens", "nanodollars"] as const satisfies readonly Windowed[];

/** After a refusal that names no limit, this part of the amounts is left, and it grows back by the second number each minute. */
const LESS = 0.8;
const MORE_A_MINUTE = 0.02;
const LEAST = 0.1;
/** Requests that are on their way when the provider refuses one are refused as well: they count as one refusal. */
const ONE_REFUSAL_MS = 5_000;
/** How long nothing is lent after a refusal that names no time. */
const CLOSED_MS = 1_000;
export const MAX_CLOSED_MS = 3_600_000;
/** The app is to get a notice from one agent: another one gets it after this time without a confirmation. */
const NOTICE_MS = 60_000;
const ALLOWED_MS = 600_000;
/** The end of no lease is later, except for a clock that was set back since. */
const MOST_AHEAD_MS = 1_800_000;

export class Account {
  rules: Rules;
  readonly #charges = new Map<Windowed, Charges>();
  readonly #held = new Map<string, { until: number; slots: number; since: number }>();
  paused: StoredKey["paused"];
  #closedUntil = 0;
  /** Until when all keys of the limit are closed. It is stored with the key that stands for all. */
  closedWithAllUntil = 0;
  #allowed: NonNullable<Observation["allowed"]> = {};
  #allowedUntil = 0;
  #factor: readonly [number, number] = [1, 0];
  newest: StoredKey["newest"];
  #notified: StoredKey["notified"];
  /** By their ids: when an agent was given a notice. */
  readonly #given = new Map<string, number>();

  constructor(
    readonly key: string,
    stored: StoredKey | undefined,
    rules: Rules,
    now: number,
  ) {
    this.rules = rules;
    for (const name of WINDOWED) this.#charges.set(name, new Charges(stored?.charges[name]));
    if (!stored) return;
    for (const [ticket, until, slots, since] of stored.held ?? [])
      this.#held.set(ticket, { until: Math.min(until, now + SLOT_MS), slots, since });
    this.paused = stored.paused;
    this.#closedUntil = Math.min(stored.closedUntil ?? 0, now + MAX_CLOSED_MS);
    this.#allowed = stored.allowed ?? {};
    this.#allowedUntil = Math.min(stored.allowedUntil ?? 0, now + ALLOWED_MS);
    this.#factor = stored.factor ?? this.#factor;
    this.newest = stored.newest;
    this.#notified = stored.notified;
    this.#eachRule((name, rule) => this.#of(name).notAfter(rule, now + MOST_AHEAD_MS));
  }

  toJSON(): Omit<StoredKey, "shares"> {
    const charges = WINDOWED.map((name) => [name, this.#charges.get(name)?.toJSON()] as const);
    const held = [...this.#held].map(
      ([ticket, { until, slots, since }]) => [ticket, until, slots, since] as const,
    );
    const [factor] = this.#factor;
    return {
      rules: this.rules,
      charges: Object.fromEntries(charges.filter(([, stored]) => stored && hasAny(stored))),
      ...(held.length > 0 && { held }),
      ...(this.paused && { paused: this.paused }),
      ...(this.#closedUntil > 0 && { closedUntil: this.#closedUntil }),
      ...(Object.keys(this.#allowed).length > 0 && {
        allowed: this.#allowed,
        allowedUntil: this.#allowedUntil,
      }),
      ...(factor < 1 && { factor: this.#factor }),
      ...(this.newest && { newest: this.newest }),
      ...(this.#notified && { notified: this.#notified }),
    };
  }

  /** Whether nothing of it is left that matters. */
  isIdle(now: number): boolean {
    this.#forgetSlots(now);
    if (this.paused || this.#held.size > 0 || this.#closedUntil > now) return false;
    if (this.factor(now) < 1 || this.#allowedUntil > now) return false;
    return this.#eachRule((name, rule) => this.#of(name).isEmpty(rule, now)).every(Boolean);
  }

  /** A time, or a part of the shortest window that slides. */
  shortest(ms: number, part: number): number {
    const windows = this.#eachRule((_, { window }) => ("ms" in window ? window.ms : Infinity));
    return Math.min(ms, ...windows.map((length) => part * length));
  }

  /** The rules with their charges. */
  #eachRule<T>(use: (name: Windowed, rule: Rule) => T): T[] {
    return WINDOWED.flatMap((name) => {
      const rule = this.rules[name];
      return rule ? [use(name, rule)] : [];
    });
  }

  #of(name: Windowed): Charges {
    return this.#charges.get(name) as Charges;
  }

  /** What may be lent of a dimension in all, by the declaration and the provider. */
  allowed(name: Dimension, now: number): number {
    if (name === "slots") return this.rules.slots ?? Number.POSITIVE_INFINITY;
    const declared = this.rules[name]?.amount ?? Number.POSITIVE_INFINITY;
    if (name === "nanodollars") return declared;
    const least = Math.min(declared, this.#observed(name, now) ?? declared) * this.factor(now);
    return Number.isFinite(least) ? Math.max(1, Math.floor(least)) : least;
  }

  /** What the provider's headers say, where that is less than declared. */
  #observed(name: "requests" | "tokens", now: number): number | undefined {
    return this.#allowedUntil > now ? this.#allowed[name] : undefined;
  }

  factor(now: number): number {
    const [factor, at] = this.#factor;
    return Math.min(1, factor + ((now - at) / 60_000) * MORE_A_MINUTE);
  }

  closedFor(now: number): number {
    return Math.max(0, Math.max(this.#closedUntil, this.closedWithAllUntil) - now);
  }

  /** What counts now, lent amounts included. */
  counted(name: Dimension, now: number): number {
    if (name === "slots") {
      this.#forgetSlots(now);
      return [...this.#held.values()].reduce((sum, { slots }) => sum + slots, 0);
    }
    const rule = this.rules[name];
    return rule ? this.#of(name).at(rule, now) : 0;
  }

  /** Whether another piece of work holds slots of the key. */
  isHeldByOther(ticket: string, now: number): boolean {
    this.#forgetSlots(now);
    return [...this.#held.keys()].some((other) => other !== ticket);
  }

  /** The dimension that never has so much, if there is one. */
  exceeded(need: Amounts): Dimension | undefined {
    if ((need.slots ?? 0) > (this.rules.slots ?? Number.POSITIVE_INFINITY)) return "slots";
    return WINDOWED.find((name) => (need[name] ?? 0) > (this.rules[name]?.amount ?? Infinity));
  }

  /**
   * The first time at which all of it fits besides what counts, and the dimension that fits last.
   * @param isGuess a time to ask again, at which nothing is lent ahead
   */
  freeAt(
    need: Amounts,
    now: number,
    isGuess = false,
  ): { at: number; dimension: Dimension | undefined } {
    let at = now;
    let dimension: Dimension | undefined;
    const slots = need.slots ?? 0;
    if (slots > 0 && this.counted("slots", now) + slots > this.allowed("slots", now))
      return { at: Number.POSITIVE_INFINITY, dimension: "slots" };
    this.#eachRule((name, rule) => {
      const amount = need[name] ?? 0;
      if (amount === 0) return;
      const free = this.#of(name).freeAt(rule, amount, this.allowed(name, now), now, isGuess);
      if (free > at || (free === at && !dimension && free > now)) [at, dimension] = [free, name];
    });
    return { at, dimension };
  }

  /** @param amounts at least what is needed; the rest is lent ahead */
  lend(ask: Pick<Ask, "ticket" | "need">, amounts: Amounts, until: number, now: number): void {
    const { ticket, need } = ask;
    this.#eachRule((name, rule) => {
      const { [name]: amount = 0 } = amounts;
      const needed = Math.min(amount, need[name] ?? 0);
      this.#of(name).lend(rule, until, needed, amount - needed, now);
    });
    if (!amounts.slots) return;
    const since = this.#held.get(ticket)?.since ?? now;
    this.#held.set(ticket, { until: now + SLOT_MS, slots: amounts.slots, since });
  }

  /** Returns how long it has held slots that are free now. */
  settle({ lease, ticket, lent, used, usedAgoMs }: Return, now: number): number | undefined {
    const usedAt = now - usedAgoMs;
    this.#eachRule((name, rule) => {
      const part = { until: lease, lent: lent[name] ?? 0, used: used[name] ?? 0, usedAt };
      this.#of(name).settle(rule, part, now);
    });
    const held = ticket === undefined || !lent.slots ? undefined : this.#held.get(ticket);
    if (!held || ticket === undefined) return undefined;
    const slots = held.slots - (lent.slots ?? 0);
    if (slots > 0) this.#held.set(ticket, { ...held, slots });
    else this.#held.delete(ticket);
    return now - held.since;
  }

  #forgetSlots(now: number): void {
    for (const [ticket, { until }] of this.#held) if (until <= now) this.#held.delete(ticket);
  }

  observe({ allowed, refused }: Observation, now: number): void {
    this.#allowed = { ...this.#allowed, ...allowed };
    for (const name of ["requests", "tokens"] as const)
      if ((this.#allowed[name] ?? 0) >= (this.rules[name]?.amount ?? 0)) delete this.#allowed[name];
    if (allowed) this.#allowedUntil = now + ALLOWED_MS;
    if (Object.keys(this.#allowed).length === 0) this.#allowedUntil = 0;
    if (!refused) return;
    const { retryAfterMs = CLOSED_MS } = refused;
    const until = now + Math.min(Math.max(0, retryAfterMs), MAX_CLOSED_MS);
    this.#closedUntil = Math.max(this.#closedUntil, until);
    const isNew = now - this.#factor[1] > ONE_REFUSAL_MS;
    if (isNew && !allowed) this.#factor = [Math.max(LEAST, this.factor(now) * LESS), now];
  }

  /**
   * The notices that the use of its money calls for, to be given to one agent. Calls that run do not count before they are reported. What does not cover the
   * next call is used up, although the call was not made.
   *
   * @param needed nanodollars of work that waits
   */
  notices(limit: string, now: number, needed = 0): Notice[] {
    const rule = this.rules.nanodollars;
    if (!rule) return [];
    const used = this.#of("nanodollars").settled(rule, now);
    if (used < 0.8 * rule.amount) return [];
    // Less than the smallest amount is left, or less than is needed.
    const isUsedUp = used + (needed || 1) > rule.amount;
    const endsAt = this.windowEndsAt(now) ?? now;
    const [notifiedEnd = 0, notified = 0] = this.#notified ?? [];
    const before = notifiedEnd >= endsAt ? notified : 0;
    return ([80, 100] as const)
      .filter((percent) => percent > before && (percent === 80 || isUsedUp))
      .map((percent) => {
        const id = `${limit}/${this.key}/${endsAt}/${percent}`;
        return { id, key: this.key, percent, usedNanodollars: used, ofNanodollars: rule.amount };
      })
      .filter(({ id }) => this.#give(id, now));
  }

  /** Whether no agent was given it lately. */
  #give(id: string, now: number): boolean {
    for (const [other, at] of this.#given) if (now - at >= NOTICE_MS) this.#given.delete(other);
    if (this.#given.has(id)) return false;
    this.#given.set(id, now);
    return true;
  }

  confirm(id: string): void {
    const [endsAt, percent] = id.split("/").slice(-2).map(Number);
    const [before = 0, notified = 0] = this.#notified ?? [];
    const isKnown = percent === 80 || percent === 100;
    if (endsAt === undefined || !isKnown || !(endsAt >= before)) return;
    this.#notified = [endsAt, endsAt === before ? Math.max(percent, notified) : percent];
  }

  /** When money comes back: at the end of the calendar's window; of a window that slides, when its oldest use leaves it. */
  #moneyBackAt(now: number): number | undefined {
    const rule = this.rules.nanodollars;
    if (!rule) return undefined;
    return "ms" in rule.window
      ? this.#of("nanodollars").nextEnd(rule, now)
      : this.windowEndsAt(now);
  }

  /** The end of the window that notices name: one that slides has one for each of its lengths. */
  windowEndsAt(now: number): number | undefined {
    const { window } = this.rules.nanodollars ?? {};
    if (!window) return undefined;
    return "ms" in window
      ? Math.ceil((now + 1) / window.ms) * window.ms
      : windowOf(window, now).endsAt;
  }

  inspect(now: number): Omit<KeyState, "waiting" | "longestWaitMs"> {
    const used = Object.fromEntries(
      [...WINDOWED, "slots" as const]
        .filter((name) => this.rules[name] !== undefined)
        .map((name) => [name, this.counted(name, now)]),
    );
    const dimensions = (["requests", "tokens"] as const).filter((name) => this.rules[name]);
    const allowed = dimensions.flatMap((name) => {
      const amount = this.#observed(name, now);
      return amount === undefined ? [] : [[name, amount] as const];
    });
    const lowered =
      this.factor(now) < 1 ? dimensions.map((name) => [name, this.allowed(name, now)]) : [];
    const closedForMs = this.closedFor(now);
    const windowEndsAt = this.#moneyBackAt(now);
    return {
      key: this.key,
      rules: this.rules,
      used,
      ...(allowed.length > 0 && { allowed: Object.fromEntries(allowed) }),
      ...(lowered.length > 0 && { lowered: Object.fromEntries(lowered) }),
      ...(this.paused && { pausedAt: this.paused.at, reason: this.paused.reason }),
      ...(closedForMs > 0 && { closedForMs }),
      ...(windowEndsAt !== undefined && { windowEndsAt }),
    };
  }
}

function hasAny({ used, lent = [] }: StoredCharges): boolean {
  return used.length + lent.length > 0;
}
