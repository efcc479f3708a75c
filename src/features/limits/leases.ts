/**
 * What keepers have lent to this object, of one key of a limit: how much of it is left, what was used, and what is given back.
 * In memory only. Pure: the time is an argument, of a clock that never goes back.
 */

import {
  type Amounts,
  DIMENSIONS,
  type Dimension,
  type Lent,
  type Return,
  type Rules,
  SLOT_MS,
} from "./keeper/protocol.ts";

type Windowed = Exclude<Dimension, "slots">;
const WINDOWED: readonly Windowed[] = DIMENSIONS.filter((name) => name !== "slots");

/** How long the recent past is, of which the rate is taken, and how much of it has passed at least. */
const RATE_MS = 60_000;
const LEAST_RATE_MS = 20_000;
/** Keys whose leases sub-agents can find. */
const MAX_SHARED = 10_000;
/** A crash leaves reservations that nobody settles. A lease with one is dropped an hour after its end. */
const UNSETTLED_MS = 3_600_000;
/** With less, the past begins again. */
const LEAST_RECENT = 0.01;

type Share = Return["share"];

type Lease = {
  readonly id: number;
  readonly share: Share;
  readonly startsAt: number;
  readonly endsAt: number;
  /** What may still be taken. */
  readonly left: Record<Windowed, number>;
  /** What is not reported yet: of the lent amounts, those that are over, and what was used of them. */
  readonly over: Record<Windowed, number>;
  readonly used: Record<Windowed, number>;
  usedAt: number;
  /** How many reservations are not settled. */
  open: number;
};

/** A place for one model call or turn at a time. The keeper knows it by the ticket of the ask that has got it. */
export type Slot = {
  readonly ticket: string;
  readonly share: Share;
  /** The time of the next renewal, if it is taken then. */
  renewAt: number;
  endsAt: number;
  isTaken: boolean;
  /** Whether a model call has held it and has ended. */
  wasUsed: boolean;
  /** Other agents waited for it at the last call of the keeper. */
  isWanted: boolean;
};

/** Capacity that is reserved, until it is settled. */
export type Taken = {
  readonly parts: readonly { readonly lease: Lease; readonly amounts: Record<Windowed, number> }[];
  readonly slot: Slot | undefined;
};

/** Who has asked, and when by this object's clock. */
export type Asked = { readonly at: number; readonly ticket: string; readonly share?: Share };

const none = (): Record<Windowed, number> => ({ requests: 0, tokens: 0, nanodollars: 0 });

export class Leases {
  #leases: Lease[] = [];
  #slots: Slot[] = [];
  /** What was used in the recent past: older use weighs less. */
  readonly #recent = { ...none(), count: 0 };
  #recentAt = 0;
  /** When the first of the recent past was used. */
  #recentFrom: number | undefined;

  constructor(
    readonly key: string,
    public rules: Rules,
  ) {}

  /** Whether nothing is lent that could be used or reported. */
  get isEmpty(): boolean {
    return this.#leases.length + this.#slots.length === 0;
  }

  /** Whether work that runs has reserved some of it. */
  isInUse(now: number): boolean {
    const isUsed = this.#leases.some(({ open, endsAt }) => open > 0 && endsAt > now);
    return isUsed || this.#slots.some(({ isTaken, endsAt }) => isTaken && endsAt > now);
  }

  /** The keeper has lent it. It ends counted from before the ask, so that it ends here no later than at the keeper. */
  lend(
    { lent, inMs, forMs, lease: id, isWanted }: Lent,
    { at, ticket, share }: Asked,
    now: number,
  ): void {
    const left = none();
    for (const name of WINDOWED) left[name] = lent[name] ?? 0;
    if (WINDOWED.some((name) => left[name] > 0)) {
      const times = { startsAt: now + inMs, endsAt: at + inMs + forMs, usedAt: now };
      this.#leases.push({ id, share, ...times, left, over: none(), used: none(), open: 0 });
    }
    if (!lent.slots) return;
    this.#slots = this.#slots.filter((slot) => slot.ticket !== ticket);
    this.#slots.push({ ticket, share, isTaken: false, wasUsed: false, ...slotOf(at, isWanted) });
  }

  /** A ticket under which nothing is lent. */
  freeTicket(ticket: string): string {
    const isKnown = (id: string) => this.#slots.some((slot) => slot.ticket === id);
    if (!isKnown(ticket)) return ticket;
    for (let n = 2; ; n++) if (!isKnown(`${ticket}/${n}`)) return `${ticket}/${n}`;
  }

  /**
   * Reserves amounts, all of them or none.
   * @param isAhead whether leases that begin later count as well
   */
  take(amounts: Amounts, now: number, isAhead = false): Taken | undefined {
    const live = this.#leases.filter(
      ({ startsAt, endsAt }) => endsAt > now && (isAhead || startsAt <= now),
    );
    for (const name of WINDOWED) {
      const needed = amounts[name] ?? 0;
      if (needed > 0 && sumOf(live, name) < needed) return undefined;
    }
    const slot = amounts.slots ? this.#freeSlot(now) : undefined;
    if (amounts.slots && !slot) return undefined;
    if (slot) slot.isTaken = true;
    // Those that end first are used first.
    live.sort((one, other) => one.endsAt - other.endsAt);
    const parts = live.map((lease) => ({ lease, amounts: none() }));
    for (const name of WINDOWED) {
      let needed = amounts[name] ?? 0;
      for (const { lease, amounts: part } of parts) {
        part[name] = Math.min(needed, lease.left[name]);
        lease.left[name] -= part[name];
        needed -= part[name];
      }
    }
    const taken = { parts: parts.filter(({ amounts: part }) => hasAny(part)), slot };
    for (const { lease } of taken.parts) lease.open++;
    return taken;
  }

  /** A reservation without a lease, for work that runs while the keeper cannot be reached: its use is reported later. */
  overdraw(now: number): Taken {
    const times = { startsAt: now, endsAt: now + SLOT_MS, usedAt: now };
    const amounts = { left: none(), over: none(), used: none() };
    const lease: Lease = { id: 0, share: undefined, ...times, ...amounts, open: 1 };
    this.#leases.push(lease);
    return { parts: [{ lease, amounts: none() }], slot: undefined };
  }

  /** A slot that was used before is taken again only while the keeper has lately said that nobody else waits for it. */
  #freeSlot(now: number): Slot | undefined {
    return this.#slots.find(
      ({ isTaken, wasUsed, isWanted, renewAt, endsAt }) =>
        !isTaken && endsAt > now && (!wasUsed || (!isWanted && renewAt > now)),
    );
  }

  /** When it may be used: later than now where a lease begins later. */
  startOf({ parts }: Taken): number {
    return Math.max(0, ...parts.map(({ lease }) => lease.startsAt));
  }

  /** Until when it may be used. */
  endOf({ parts, slot }: Taken): number {
    const ends = parts.map(({ lease }) => lease.endsAt);
    return Math.min(...ends, slot?.endsAt ?? Number.POSITIVE_INFINITY);
  }

  /**
   * Ends a reservation, once. What was not used is free for others; what was used beyond it is reported to the keeper.
   * @param used nothing for work that has not begun
   * @param at when it was used
   */
  settle({ parts, slot }: Taken, used: Amounts, at: number): void {
    if (slot) Object.assign(slot, { isTaken: false, wasUsed: slot.wasUsed || Boolean(used.slots) });
    const last = parts.at(-1)?.lease;
    this.#decay(at);
    if (hasAny({ ...none(), ...used })) {
      this.#recent.count++;
      this.#recentFrom ??= at;
    }
    for (const name of WINDOWED) {
      let rest = used[name] ?? 0;
      this.#recent[name] += rest;
      for (const { lease, amounts } of parts) {
        const share = Math.min(rest, amounts[name]);
        rest -= share;
        lease.left[name] += amounts[name] - share;
        lease.over[name] += share;
        lease.used[name] += share;
      }
      // The last one that is at hand reports it, also one of which this dimension was not lent.
      if (last) last.used[name] += rest;
    }
    for (const { lease } of parts) {
      lease.usedAt = Math.max(lease.usedAt, at);
      lease.open--;
    }
  }

  #decay(now: number): void {
    const passed = Math.max(0, now - this.#recentAt);
    const part = Math.exp(-passed / RATE_MS);
    for (const name of WINDOWED) this.#recent[name] *= part;
    this.#recentAt = Math.max(this.#recentAt, now);
    this.#recent.count *= part;
    if (this.#recent.count < LEAST_RECENT) this.#recentFrom = undefined;
  }

  /** What is likely to be used in some time, by the recent rate. Empty where that is less than one piece of work. */
  ahead(ms: number, now: number): Amounts {
    this.#decay(now);
    const sinceMs = Math.max(LEAST_RATE_MS, now - (this.#recentFrom ?? now));
    const part = ms / RATE_MS / (1 - Math.exp(-sinceMs / RATE_MS));
    const expected = (name: Windowed | "count") => Math.floor(this.#recent[name] * part);
    if (expected("count") < 1) return {};
    const some = WINDOWED.filter((name) => this.rules[name] && expected(name) > 0);
    return Object.fromEntries(some.map((name) => [name, expected(name)]));
  }

  /** @param at when it was asked for */
  renewed(slot: Slot, { isWanted }: Lent, at: number): void {
    Object.assign(slot, slotOf(at, isWanted));
  }

  /** What the keeper is told now, at most once: what was used, and what is free. What is reserved stays. */
  returns(now: number): Return[] {
    const all: Return[] = [];
    const add = (share: Share, one: Omit<Return, "key" | "rules">) =>
      all.push({ key: this.key, rules: this.rules, ...(share && { share }), ...one });
    for (const lease of this.#leases) {
      const { id, share, left, over, used } = lease;
      const lent = someOf((name) => left[name] + over[name]);
      const amounts = { lent, used: someOf((name) => used[name]) };
      for (const part of [left, over, used]) Object.assign(part, none());
      if (Object.keys(amounts.lent).length + Object.keys(amounts.used).length === 0) continue;
      add(share, { lease: id, ...amounts, usedAgoMs: Math.max(0, now - lease.usedAt) });
    }
    for (const { ticket, share, isTaken, endsAt } of this.#slots) {
      // One that has ended is free at the keeper.
      if (isTaken || endsAt <= now) continue;
      add(share, { lease: 0, ticket, lent: { slots: 1 }, used: {}, usedAgoMs: 0 });
    }
    const isKept = ({ endsAt }: { endsAt: number }) => endsAt > now - UNSETTLED_MS;
    this.#leases = this.#leases.filter((lease) => lease.open > 0 && isKept(lease));
    this.#slots = this.#slots.filter((slot) => slot.isTaken && isKept(slot));
    return all;
  }
}

/**
 * Of roots and their sub-agents, which run in one isolate: what was lent to one of them all may use. The one that was added last
 * stands at the end.
 */
const shared = new Map<string, Leases>();

/** @param id names the root, the limit and the key */
export function sharedLeases(id: string, key: string, rules: Rules): Leases {
  const known = shared.get(id);
  if (known) return known;
  const leases = new Leases(key, rules);
  shared.set(id, leases);
  const [oldest] = shared.keys();
  if (shared.size > MAX_SHARED && oldest !== undefined) shared.delete(oldest);
  return leases;
}

function slotOf(at: number, isWanted = false): Pick<Slot, "renewAt" | "endsAt" | "isWanted"> {
  return { renewAt: at + SLOT_MS / 3, endsAt: at + SLOT_MS, isWanted };
}

function sumOf(leases: readonly Lease[], name: Windowed): number {
  return leases.reduce((sum, { left }) => sum + left[name], 0);
}

function hasAny(amounts: Record<Windowed, number>): boolean {
  return WINDOWED.some((name) => amounts[name] > 0);
}

/** The amounts that are not zero. */
function someOf(amountOf: (name: Windowed) => number): Amounts {
  const amounts = WINDOWED.map((name) => [name, amountOf(name)] as const);
  return Object.fromEntries(amounts.filter(([, amount]) => amount > 0));
}
