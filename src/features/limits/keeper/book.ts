/** Decides what a keeper lends: the keys of one limit, the work that waits for each, and the clock. Pure, but for its store. */

import type { Clock } from "../../../core/clock.ts";
import { Account, MAX_CLOSED_MS, type StoredKey } from "./account.ts";
import { expectedWaitMs, freeForecastMs } from "./forecast.ts";
import {
  ALL_KEYS,
  type Amounts,
  type Answer,
  type Ask,
  DIMENSIONS,
  type Dimension,
  type KeyState,
  type Notice,
  type Observation,
  type Return,
  type Rule,
  type Rules,
  SLOT_MS,
  type Wait,
} from "./protocol.ts";
import { FairQueue, type Ticket } from "./queue.ts";

export type BookStore = {
  load(key: string): StoredKey | undefined;
  save(key: string, state: StoredKey): void;
};

/**
 * Work that is told to come within this time is next: capacity is held for it, and lent from a time in the future on. In a short
 * window, a quarter of it: what is lent for later counts from now on.
 */
const NEXT_MS = 2_000;
const NEXT_PART = 0.25;
/**
 * Work that goes first and is told to come within this time gets what is free now: it is held for it. In a short window, a quarter
 * of it.
 */
const HELD_MS = 10_000;
/** A lease while others wait, or a window that is shorter. It must be longer than a call to the keeper takes. */
const SHORT_LEASE_MS = 2_000;
const LONG_LEASE_MS = 60_000;
/** Money is spent by calls that may take long, and comes back when its lease ends. */
const MONEY_LEASE_MS = 900_000;
/** Nobody waits: a lease takes what is likely to be used, up to this part of the limit, while this part is free. */
const AHEAD = 0.05;
const AHEAD_BELOW = 0.8;
/** Between two asks of work that waits. */
const LEAST_WAIT_MS = 250;
const MOST_WAIT_MS = 300_000;
const MOST_CALENDAR_WAIT_MS = 3_600_000;
const PAUSED_WAIT_MS = 30_000;
/** After the time at which it was to ask again, its place is kept for this long. */
const GRACE_MS = 30_000;
/** Asks of work that waits for the same moment come this far apart, and up to this much later. */
const APART_MS = 20;
const SPREAD_MS = 1_000;
/** How long a piece of work holds a slot, until the first has ended. */
const FIRST_HOLD_MS = 5_000;

type Desk = {
  readonly account: Account;
  readonly queue: FairQueue;
  /** How long a piece of work holds a slot. */
  holdMs: number;
  /** Which part of what is lent is used in the end. */
  usedPart: number;
};

export class Book {
  readonly #desks = new Map<string, Desk>();
  #latest = Number.NEGATIVE_INFINITY;
  #offset = 0;
  /** Until when the provider refuses requests of all keys; undefined: not read yet. */
  #closedUntil: number | undefined;

  /**
   * @param name of the limit, for notices
   * @param mostKeys keys in memory, without those that work waits for
   */
  constructor(
    private readonly name: string,
    private readonly store: BookStore,
    private readonly clock: Clock,
    private readonly mostKeys = 10_000,
  ) {}

  /** A clock that is set back goes on from its latest time: leases end after the time that they were lent for. */
  #now(): number {
    const time = this.clock.now() + this.#offset;
    if (time < this.#latest) this.#offset += this.#latest - time;
    this.#latest = Math.max(this.#latest, time);
    return this.#latest;
  }

  ask(ask: Ask): Answer {
    const now = this.#now();
    const desk = this.#deskOf(ask.key, ask.rules, now);
    for (const one of ask.returns ?? []) if (one.key === ask.key) this.#settle(desk, one, now);
    for (const id of ask.notified ?? []) desk.account.confirm(id);
    const others = (ask.returns ?? []).filter(({ key }) => key !== ask.key);
    const answer = this.#answer(desk, ask, now);
    const isChanged = answer.outcome === "lent" || ask.returns?.length || ask.notified?.length;
    if (isChanged || answer.outcome === "refused") this.#save(desk);
    const isWaiting = answer.outcome === "wait";
    const notices = [
      ...desk.account.notices(this.name, now, isWaiting ? ask.need.nanodollars : 0),
      ...(others.length > 0 ? this.giveBack(others) : []),
    ];
    return { ...answer, ...(notices.length > 0 && { notices }) };
  }

  giveBack(returns: readonly Return[]): Notice[] {
    const now = this.#now();
    const desks = new Set<Desk>();
    for (const one of returns) {
      const desk = this.#deskOf(one.key, one.rules, now);
      this.#settle(desk, one, now);
      const isChange = Object.keys({ ...one.lent, ...one.used }).length > 0;
      if (isChange) desks.add(desk);
    }
    for (const desk of desks) this.#save(desk);
    return [...desks].flatMap(({ account }) => account.notices(this.name, now));
  }

  observe(seen: Observation): void {
    const now = this.#now();
    const desk = this.#deskOf(seen.key, seen.rules, now);
    desk.account.observe(seen, now);
    if (seen.key === ALL_KEYS) this.#closedUntil = now + desk.account.closedFor(now);
    this.#save(desk);
  }

  pause(key: string, reason: string, rules: Rules): void {
    const now = this.#now();
    const desk = this.#deskOf(key, rules, now);
    desk.account.paused = { at: now, reason };
    this.#save(desk);
  }

  /** Returns whether it was paused. */
  resume(key: string, rules: Rules): boolean {
    const desk = this.#deskOf(key, rules, this.#now());
    if (!desk.account.paused) return false;
    desk.account.paused = undefined;
    this.#save(desk);
    return true;
  }

  inspect(keys: readonly string[]): KeyState[] {
    const now = this.#now();
    return keys.flatMap((key) => {
      const stored = this.#desks.get(key)?.account.toJSON() ?? this.store.load(key);
      if (!stored) return [];
      const { account, queue } = this.#deskOf(key, stored.rules, now);
      queue.expire(now, GRACE_MS);
      let longestWaitMs = 0;
      for (const { since } of queue.tickets) longestWaitMs = Math.max(longestWaitMs, now - since);
      return [{ ...account.inspect(now), waiting: queue.size, longestWaitMs }];
    });
  }

  /** Whether nothing of a stored key matters any more. */
  isIdle(key: string, stored: StoredKey): boolean {
    const now = this.#now();
    if (this.#desks.get(key)?.queue.size) return false;
    return new Account(key, stored, stored.rules, now).isIdle(now);
  }

  /** Its row was deleted. */
  forget(key: string): void {
    this.#desks.delete(key);
  }

  #deskOf(key: string, rules: Rules, now: number): Desk {
    const known = this.#desks.get(key);
    // The desk that was used last stands last.
    this.#desks.delete(key);
    const stored = known ? undefined : this.store.load(key);
    const desk = known ?? {
      account: new Account(key, stored, rules, now),
      queue: new FairQueue(stored?.shares, now),
      holdMs: FIRST_HOLD_MS,
      usedPart: 1,
    };
    desk.account.rules = rules;
    this.#closedUntil ??= Math.min(
      this.store.load(ALL_KEYS)?.closedUntil ?? 0,
      now + MAX_CLOSED_MS,
    );
    if (key !== ALL_KEYS) desk.account.closedWithAllUntil = this.#closedUntil;
    this.#desks.set(key, desk);
    if (this.#desks.size > this.mostKeys) this.#shrink(now);
    return desk;
  }

  /** Removes the keys from memory that were not used for longest. Their rows stay. */
  #shrink(now: number): void {
    for (const [key, { queue }] of this.#desks) {
      if (this.#desks.size <= this.mostKeys) return;
      queue.expire(now, GRACE_MS);
      if (queue.size === 0) this.#desks.delete(key);
    }
  }

  #save({ account, queue }: Desk): void {
    const shares = queue.toJSON();
    this.store.save(account.key, { ...account.toJSON(), ...(shares && { shares }) });
  }

  #answer(desk: Desk, ask: Ask, now: number): Answer {
    const { account, queue } = desk;
    queue.expire(now, GRACE_MS);
    const refused = this.#refusal(desk, ask, now);
    if (refused) {
      queue.remove(ask.ticket);
      return { outcome: "refused", ...refused };
    }
    if (ask.isRenewal) return this.#lend(desk, ask, ask.need, now, now);
    const { key, weight } = ask.share ?? { key: "", weight: 1 };
    const ticket: Ticket = {
      id: ask.ticket,
      share: key,
      weight,
      hasBegun: ask.hasBegun ?? false,
      priority: ask.priority ?? 0,
      since: now - ask.waitedMs,
      part: this.#partOf(account, ask.need, now),
      comesAt: now,
    };
    queue.put(ticket);
    const start = this.#startOf(desk, ask, ticket, now);
    if (typeof start !== "number") {
      if (ask.failsIfFull && start.why === "full") queue.remove(ask.ticket);
      else queue.put({ ...ticket, comesAt: now + start.waitMs });
      return start;
    }
    queue.served(key, weight, ticket.part);
    queue.remove(ask.ticket);
    const amounts =
      queue.size === 0 && start === now ? this.#withAhead(account, ask, now) : ask.need;
    return this.#lend(desk, ask, amounts, start, now);
  }

  #refusal({ account, queue }: Desk, ask: Ask, now: number) {
    const dimension = account.exceeded(ask.need);
    if (dimension) {
      const declared = dimension === "slots" ? ask.rules.slots : ask.rules[dimension]?.amount;
      return { why: "exceeds", dimension, allowed: declared ?? 0 } as const;
    }
    if (!ask.singleton) return undefined;
    if (ask.singleton === "skip") {
      const isOpen = account.isHeldByOther(ask.ticket, now) || queue.size > 0;
      return isOpen && !queue.has(ask.ticket) && !ask.isRenewal
        ? ({ why: "skipped" } as const)
        : undefined;
    }
    const acceptedAt = now - (ask.ageMs ?? 0);
    const [newest, newestAt = Number.NEGATIVE_INFINITY] = account.newest ?? [];
    if (newest === ask.ticket || newest === undefined || acceptedAt >= newestAt) {
      // What it replaces may ask late, and must not keep it waiting.
      if (newest !== undefined && newest !== ask.ticket) queue.remove(newest);
      account.newest = [ask.ticket, newest === ask.ticket ? newestAt : acceptedAt];
      return undefined;
    }
    return { why: "replaced" } as const;
  }

  /** The largest part of what is allowed that the need takes of any dimension. */
  #partOf(account: Account, need: Amounts, now: number): number {
    const parts = DIMENSIONS.map((name) => (need[name] ?? 0) / account.allowed(name, now));
    return Math.max(0, ...parts.filter(Number.isFinite));
  }

  /** When all that it needs is free, after work that goes before it and can start soon. */
  #freeAt({ account, queue }: Desk, need: Amounts, ticket: Ticket, now: number) {
    const nextMs = account.shortest(NEXT_MS, NEXT_PART);
    const heldMs = Math.max(nextMs, account.shortest(HELD_MS, NEXT_PART));
    // Work that is late by more than that may have been cancelled: capacity is not held for it.
    const before = queue.before(
      ticket,
      ({ comesAt }) => comesAt <= now + heldMs && comesAt >= now - NEXT_MS,
    );
    // Those before it need as much of each dimension, in proportion, as it does itself.
    const times = ticket.part > 0 ? 1 + before / ticket.part : 1;
    const needs = Object.fromEntries(DIMENSIONS.map((name) => [name, (need[name] ?? 0) * times]));
    return account.freeAt(needs, now);
  }

  /** When it can start: now or within {@link NEXT_MS}. Otherwise, what it waits for. */
  #startOf(desk: Desk, ask: Ask, ticket: Ticket, now: number): number | Wait {
    const { account, queue } = desk;
    if (account.paused) {
      const { reason } = account.paused;
      return { outcome: "wait", waitMs: this.#spread(PAUSED_WAIT_MS), why: "paused", reason };
    }
    const times = queue.before(ticket) / ticket.part || 0;
    const closedMs = account.closedFor(now);
    const expectedMs = expectedWaitMs(desk, ask.need, times, now);
    if (closedMs > 0) {
      const longMs = Math.min(closedMs + expectedMs, MOST_CALENDAR_WAIT_MS);
      const waitMs = this.#spread(longMs, SPREAD_MS);
      return { outcome: "wait", waitMs: Math.max(closedMs, waitMs), why: "closed" };
    }
    const { at, dimension } = this.#freeAt(desk, ask.need, ticket, now);
    const nextMs = account.shortest(NEXT_MS, NEXT_PART);
    if (at <= now + nextMs && dimension !== "slots") return at;
    // The app is told when it is free.
    if (ask.failsIfFull && dimension !== "slots")
      return { outcome: "wait", waitMs: at - now, why: "full", ...(dimension && { dimension }) };
    const isCalendar =
      dimension && dimension !== "slots" && "calendar" in (ask.rules[dimension] as Rule).window;
    const most = isCalendar ? MOST_CALENDAR_WAIT_MS : MOST_WAIT_MS;
    const place = isCalendar ? Math.min(queue.size, times) * APART_MS : 0;
    const waitMs = Math.max(
      freeForecastMs(desk, ask.need, times, nextMs / 2, now) + place,
      // When a slot is free is known least.
      dimension === "slots" ? 0.25 * expectedMs : nextMs / 2,
      LEAST_WAIT_MS,
    );
    const wait = {
      outcome: "wait",
      waitMs: this.#spread(Math.min(waitMs, most), SPREAD_MS),
      why: "full",
    } as const;
    return { ...wait, ...(dimension && { dimension }) };
  }

  /** Work that waits for the same never comes together. */
  #spread(ms: number, mostMs = 0.1 * ms): number {
    return Math.round(ms + Math.min(0.1 * ms, mostMs) * this.clock.random());
  }

  #withAhead(account: Account, { need, ahead = {} }: Ask, now: number): Amounts {
    const amounts = DIMENSIONS.flatMap((name): [Dimension, number][] => {
      const least = need[name] ?? 0;
      if (least === 0) return [];
      const allowed = account.allowed(name, now);
      const free = allowed * AHEAD_BELOW - account.counted(name, now) - least;
      const more = name === "slots" ? 0 : Math.min(ahead[name] ?? 0, allowed * AHEAD, free);
      return [[name, least + Math.max(0, Math.floor(more))]];
    });
    return Object.fromEntries(amounts);
  }

  #lend(desk: Desk, ask: Ask, amounts: Amounts, start: number, now: number): Answer {
    const { account, queue } = desk;
    const forMs = this.#leaseMs(account, amounts, queue.size > 0, start);
    const until = start + forMs;
    account.lend(ask, amounts, until, now);
    const isWanted = Boolean(amounts.slots) && queue.isWantedByOthers(ask.ticket);
    const lease = { lent: amounts, inMs: start - now, forMs, lease: until };
    return { outcome: "lent", ...lease, ...(isWanted && { isWanted }) };
  }

  #leaseMs(account: Account, amounts: Amounts, isWanted: boolean, start: number): number {
    const times = (["requests", "tokens", "nanodollars"] as const).flatMap((name) => {
      const window = account.rules[name]?.window;
      if (!window || !amounts[name]) return [];
      if (name === "nanodollars") return [MONEY_LEASE_MS];
      const isFull = account.counted(name, start) > AHEAD_BELOW * account.allowed(name, start);
      const shortMs = account.shortest(SHORT_LEASE_MS, 1);
      if (isWanted || isFull) return [shortMs];
      return [
        "ms" in window ? Math.max(shortMs, Math.min(window.ms / 4, LONG_LEASE_MS)) : LONG_LEASE_MS,
      ];
    });
    const end = account.windowEndsAt(start);
    const untilEnd =
      amounts.nanodollars && end !== undefined ? end - start : Number.POSITIVE_INFINITY;
    return Math.min(
      SLOT_MS * (times.length === 0 ? 1 : Number.POSITIVE_INFINITY),
      untilEnd,
      ...times,
    );
  }

  #settle(desk: Desk, one: Return, now: number): void {
    if (one.ticket !== undefined) desk.queue.remove(one.ticket);
    const heldMs = desk.account.settle(one, now);
    if (heldMs !== undefined) desk.holdMs += 0.1 * (heldMs - desk.holdMs);
    const { tokens: lent = 0 } = one.lent;
    if (lent > 0)
      desk.usedPart += 0.1 * (Math.min(1, (one.used.tokens ?? 0) / lent) - desk.usedPart);
    if (!one.share) return;
    const part = (amounts: Amounts) => this.#partOf(desk.account, amounts, now);
    // A share has had the slots, however long it held them.
    const { slots = 0 } = one.lent;
    const used = part({ ...one.used, slots });
    desk.queue.served(one.share.key, one.share.weight, used - part(one.lent));
  }
}
