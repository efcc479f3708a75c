/**
 * Who is next: the work that waits for one key of a limit. Between shares by weight, within a share, work that has begun
 * goes first, then by priority, then by time.
 * Start-time fair queueing: each share has a virtual time, which grows by what it was lent, divided by its weight. The share with
 * the least goes first. A share that begins to wait starts at the least of those that wait, so that it cannot save up turns.
 * https://doi.org/10.1109/90.649569 (Goyal, Vin, Cheng: Start-time fair queueing)
 */

export type Ticket = {
  readonly id: string;
  readonly share: string;
  readonly weight: number;
  readonly hasBegun: boolean;
  readonly priority: number;
  /** Since when it waits. */
  readonly since: number;
  /** Which part of the limit it needs, from 0 to 1: the largest over its dimensions. */
  readonly part: number;
  /** When it is expected to ask again. */
  readonly comesAt: number;
};

type Share = {
  time: number;
  /** Of its tickets. */
  part: number;
  weight: number;
  readonly tickets: Map<string, Ticket>;
  /** The parts of those that a restart has forgotten, and that have not asked again. */
  awaited: number;
};

/**
 * The virtual times of shares, as they are stored: a share that was served before a restart is not served first again. For a
 * share that waits, also what it waits for, so that it is not passed over before its tickets ask again.
 */
export type StoredShares = {
  readonly now: number;
  readonly times: Readonly<
    Record<string, number | readonly [time: number, part: number, weight: number]>
  >;
};

/** Shares that are remembered without waiting work, at most. The least served are forgotten first: they lose nothing. */
const MOST_SHARES = 1_000;
/** For how long after a restart the tickets that it has forgotten are expected. Most work asks more often. */
const AWAITED_MS = 60_000;
/** How often tickets that were not repeated are looked for. */
const EXPIRE_MS = 1_000;

export class FairQueue {
  readonly #shares = new Map<string, Share>();
  readonly #tickets = new Map<string, Ticket>();
  /** The virtual time of the share that was served last. */
  #now: number;
  #expiredAt = 0;
  #awaitedUntil: number;

  /** @param restartedAt when it was loaded */
  constructor({ now, times }: StoredShares = { now: 0, times: {} }, restartedAt = 0) {
    this.#now = now;
    this.#awaitedUntil = restartedAt + AWAITED_MS;
    for (const [name, stored] of Object.entries(times)) {
      const [time, awaited, weight] = typeof stored === "number" ? [stored, 0, 1] : stored;
      Object.assign(this.#shareOf(name), { time, awaited, weight });
    }
  }

  toJSON(): StoredShares | undefined {
    const known = [...this.#shares].filter(([, one]) => one.time > this.#now || isWaiting(one));
    if (known.length === 0) return undefined;
    const times = known.slice(0, MOST_SHARES).map(([name, share]) => {
      const { time, part, awaited, weight } = share;
      return [name, isWaiting(share) ? ([time, part + awaited, weight] as const) : time] as const;
    });
    return { now: this.#now, times: Object.fromEntries(times) };
  }

  get size(): number {
    return this.#tickets.size;
  }

  /** Whether another agent has work that waits. A ticket begins with the id of its agent. */
  isWantedByOthers(ticket: string): boolean {
    const [agent] = ticket.split("/", 1);
    for (const id of this.#tickets.keys()) if (!id.startsWith(`${agent}/`)) return true;
    return false;
  }

  get tickets(): Iterable<Ticket> {
    return this.#tickets.values();
  }

  has(id: string): boolean {
    return this.#tickets.has(id);
  }

  #shareOf(name: string): Share {
    const known = this.#shares.get(name);
    if (known) return known;
    const share = { time: this.#now, part: 0, weight: 1, tickets: new Map(), awaited: 0 };
    this.#shares.set(name, share);
    return share;
  }

  put(ticket: Ticket): void {
    const isKnown = this.#take(ticket.id) !== undefined;
    const share = this.#shareOf(ticket.share);
    if (!isWaiting(share)) share.time = Math.max(share.time, this.#now);
    if (share.tickets.size === 0) share.part = 0;
    if (!isKnown) share.awaited = Math.max(0, share.awaited - ticket.part);
    share.weight = ticket.weight;
    share.part += ticket.part;
    share.tickets.set(ticket.id, ticket);
    this.#tickets.set(ticket.id, ticket);
  }

  remove(id: string): void {
    const ticket = this.#take(id);
    if (ticket) this.#forget(ticket.share);
  }

  #take(id: string): Ticket | undefined {
    const ticket = this.#tickets.get(id);
    if (!ticket) return undefined;
    this.#tickets.delete(id);
    const share = this.#shareOf(ticket.share);
    share.part -= ticket.part;
    share.tickets.delete(id);
    return ticket;
  }

  /** A part of the limit was lent to a share, or has come back from it if it is negative. */
  served(name: string, weight: number, part: number): void {
    const share = this.#shareOf(name);
    if (part > 0) this.#now = Math.max(this.#now, Math.min(share.time, this.#least()));
    share.time += part / weight;
    this.#forget(name);
    if (this.#shares.size > this.#tickets.size + MOST_SHARES) this.#shrink();
  }

  /** Forgets tickets that were not repeated in time. */
  expire(now: number, graceMs: number): void {
    if (Math.abs(now - this.#expiredAt) < EXPIRE_MS) return;
    this.#expiredAt = now;
    for (const { id, comesAt } of this.#tickets.values())
      if (comesAt + graceMs < now) this.remove(id);
    if (now < this.#awaitedUntil) return;
    this.#awaitedUntil = Number.POSITIVE_INFINITY;
    for (const [name, share] of this.#shares) {
      share.awaited = 0;
      this.#forget(name);
    }
  }

  /**
   * The parts of the limit that go before a ticket.
   * @param isPresent which tickets count: those of work that can start soon. @default all
   */
  before(ticket: Ticket, isPresent?: (other: Ticket) => boolean): number {
    const own = this.#shares.get(ticket.share);
    if (!own) return 0;
    const present = isPresent && partsOf(this.#tickets.values(), isPresent);
    let ahead = 0;
    for (const other of own.tickets.values()) {
      if (other.id === ticket.id || (isPresent && !isPresent(other))) continue;
      if (goesBefore(other, ticket)) ahead += other.part;
    }
    const start = own.time + ahead / ticket.weight;
    for (const [name, { time, part, weight, awaited }] of this.#shares) {
      const waiting = awaited + (present ? (present.get(name) ?? 0) : part);
      if (name === ticket.share || waiting <= 0) continue;
      ahead += Math.min(waiting, Math.max(0, (start - time) * weight));
    }
    return ahead;
  }

  #least(): number {
    let least = Number.POSITIVE_INFINITY;
    for (const share of this.#shares.values())
      if (isWaiting(share)) least = Math.min(least, share.time);
    return least;
  }

  /** A share without tickets that has not had more than the others is as good as a new one. */
  #forget(name: string): void {
    const share = this.#shares.get(name);
    if (share && !isWaiting(share) && share.time <= this.#now) this.#shares.delete(name);
  }

  #shrink(): void {
    const idle = [...this.#shares].filter(([, share]) => !isWaiting(share));
    idle.sort(([, one], [, other]) => one.time - other.time);
    for (const [name] of idle.slice(0, Math.ceil(idle.length / 2))) this.#shares.delete(name);
  }
}

function isWaiting({ tickets, awaited }: Share): boolean {
  return tickets.size > 0 || awaited > 0;
}

function partsOf(
  tickets: Iterable<Ticket>,
  isCounted: (ticket: Ticket) => boolean,
): Map<string, number> {
  const parts = new Map<string, number>();
  for (const ticket of tickets)
    if (isCounted(ticket)) parts.set(ticket.share, (parts.get(ticket.share) ?? 0) + ticket.part);
  return parts;
}

function goesBefore(one: Ticket, other: Ticket): boolean {
  if (one.hasBegun !== other.hasBegun) return one.hasBegun;
  if (one.priority !== other.priority) return one.priority > other.priority;
  if (one.since !== other.since) return one.since < other.since;
  return one.id < other.id;
}
