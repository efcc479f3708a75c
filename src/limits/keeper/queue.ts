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
};

/** The virtual times of shares, as they are stored: a share that was served before a restart is not served first again. */
export type StoredShares = {
  readonly now: number;
  readonly times: Readonly<Record<string, number>>;
};

/** Shares that are remembered without waiting work, at most. The least served are forgotten first: they lose nothing. */
const MOST_SHARES = 1_000;
/** How often tickets that were not repeated are looked for. */
const EXPIRE_MS = 1_000;

export class FairQueue {
  readonly #shares = new Map<string, Share>();
  readonly #tickets = new Map<string, Ticket>();
  /** The virtual time of the share that was served last. */
  #now: number;
  #expiredAt = 0;

  constructor({ now, times }: StoredShares = { now: 0, times: {} }) {
    this.#now = now;
    for (const [name, time] of Object.entries(times)) this.#shareOf(name).time = time;
  }

  toJSON(): StoredShares | undefined {
    const ahead = [...this.#shares].filter(([, { time }]) => time > this.#now);
    if (ahead.length === 0) return undefined;
    const times = ahead.slice(0, MOST_SHARES).map(([name, { time }]) => [name, time] as const);
    return { now: this.#now, times: Object.fromEntries(times) };
  }

  get size(): number {
    return this.#tickets.size;
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
    const share = { time: this.#now, part: 0, weight: 1, tickets: new Map() };
    this.#shares.set(name, share);
    return share;
  }

  put(ticket: Ticket): void {
    this.#take(ticket.id);
    const share = this.#shareOf(ticket.share);
    if (share.tickets.size === 0) {
      share.time = Math.max(share.time, this.#now);
      share.part = 0;
    }
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
    for (const [name, { time, part, weight }] of this.#shares) {
      const waiting = present ? (present.get(name) ?? 0) : part;
      if (name === ticket.share || waiting <= 0) continue;
      ahead += Math.min(waiting, Math.max(0, (start - time) * weight));
    }
    return ahead;
  }

  #least(): number {
    let least = Number.POSITIVE_INFINITY;
    for (const { time, tickets } of this.#shares.values())
      if (tickets.size > 0) least = Math.min(least, time);
    return least;
  }

  /** A share without tickets that has not had more than the others is as good as a new one. */
  #forget(name: string): void {
    const share = this.#shares.get(name);
    if (share && share.tickets.size === 0 && share.time <= this.#now) this.#shares.delete(name);
  }

  #shrink(): void {
    const idle = [...this.#shares].filter(([, { tickets }]) => tickets.size === 0);
    idle.sort(([, one], [, other]) => one.time - other.time);
    for (const [name] of idle.slice(0, Math.ceil(idle.length / 2))) this.#shares.delete(name);
  }
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
