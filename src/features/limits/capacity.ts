/**
 * What this object may use of each limit: takes it from leases in memory, asks keepers for more, renews the slots of work that
 * runs, and gives back what is not used.
 */

import type { Clock } from "../../core/clock.ts";
import type { DeclaredLimit } from "./declared/declarations.ts";
import {
  type Amounts,
  type Answer,
  type Ask,
  DIMENSIONS,
  type Notice,
  type Observation,
  type Refused,
  type Rules,
  type Wait,
} from "./keeper/protocol.ts";
import { type Keepers, KeeperUnreachableError, type KeptLimit } from "./keepers.ts";
import { Leases, type Slot, sharedLeases, type Taken } from "./leases.ts";

/** Keys of limits whose leases are in memory. Those that were used longest ago are given back first. */
const MAX_KEYS = 1_000;
/** For how long an agent that works again and again keeps what is left, after its work has ended. */
const KEPT_MS = 5_000;
/** What is likely to be used in this time is asked for ahead. */
const AHEAD_MS = 30_000;
/** The slot of a model call is not renewed any more: what holds it was never read to its end. */
const MAX_CALL_MS = 3_600_000;
/** A renewal that failed is repeated. */
const RENEW_AGAIN_MS = 5_000;
/** What was lent had ended when the answer came. */
const TOO_LATE: Denied = { outcome: "wait", waitMs: 250, why: "unreachable" };

/** A limit of the app, or one that a submission brings. */
export type WorkLimit = KeptLimit & {
  /** As `waitingFor` of a submission names it. */
  readonly shown: string;
  /** Of one shard. */
  readonly rules: Rules;
  readonly whenUnreachable: "wait" | "allow";
  readonly timeoutMs: number;
  readonly atEnd: "wait" | "fail";
  /** Undefined for one that a submission brings: nothing is kept of it after its end. */
  readonly declared?: DeclaredLimit;
};

/** What a piece of work needs of one key of a limit. */
export type Need = Pick<
  Ask,
  | "ticket"
  | "key"
  | "share"
  | "hasBegun"
  | "priority"
  | "waitedMs"
  | "ageMs"
  | "singleton"
  | "isRenewal"
> & {
  readonly limit: WorkLimit;
  readonly amounts: Amounts;
  /** The work has lost its place to a newer one while it ran. */
  readonly onReplaced?: () => void;
};

/** Capacity that is reserved until it is settled. */
export type Held = {
  readonly need: Need;
  readonly taken: Taken;
  readonly since: number;
  readonly desk: Desk;
};

/** The keeper lends nothing now. */
export type Denied = Refused | (Omit<Wait, "why"> & { readonly why: Wait["why"] | "unreachable" });

type Uses = {
  readonly keepers: Pick<Keepers, "ask" | "giveBack" | "observe">;
  readonly clock: Clock;
  /** Names the root of the object's sub-agents. */
  readonly root: () => string;
  /** Puts a notice into the outbox. */
  readonly notify: (limit: string, notice: Notice) => Promise<void>;
  readonly inBackground: (work: Promise<unknown>) => void;
  readonly maxKeys?: number;
};

/** One key of a limit. */
type Desk = {
  limit: WorkLimit;
  readonly leases: Leases;
  /** How many reservations are not settled. */
  open: number;
  /** The ask that is under way: others of this object wait for it. */
  asking: Promise<unknown> | undefined;
  /** What those that wait will need. */
  readonly wanted: Set<Need>;
  /** Notices that are in the outbox. The keeper is told with the next ask. */
  notified: string[];
};

export class Capacity {
  /** By limit and key, the one that was used last at the end. */
  readonly #desks = new Map<string, Desk>();
  readonly #slots = new Map<Slot, Held>();
  #renewing: ReturnType<typeof setTimeout> | undefined;
  #givingBack: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly uses: Uses) {}

  /** Reserves what was lent before, without a call. Undefined: it has to be asked for. */
  take(need: Need): Held | undefined {
    return this.#takeFrom(this.#deskOf(need), need);
  }

  #takeFrom(desk: Desk, need: Need, isAhead = false): Held | undefined {
    const since = this.uses.clock.now();
    const taken = desk.leases.take(need.amounts, since, isAhead);
    return taken && this.#hold({ desk, need, taken, since });
  }

  #hold(held: Held): Held {
    held.desk.open++;
    const { slot } = held.taken;
    if (slot) {
      this.#slots.set(slot, held);
      this.#renewLater();
    }
    return held;
  }

  /** Reserves it, and asks the keeper where too little was lent. One ask at a time for each key. */
  async obtain(need: Need): Promise<Held | Denied> {
    const desk = this.#deskOf(need);
    desk.wanted.add(need);
    try {
      while (desk.asking) {
        await desk.asking;
        const held = this.#takeFrom(desk, need);
        if (held) return held;
      }
      const asking = this.#ask(desk, need);
      desk.asking = asking.catch(() => {}).finally(() => (desk.asking = undefined));
      return await asking;
    } finally {
      desk.wanted.delete(need);
    }
  }

  async #ask(desk: Desk, need: Need): Promise<Held | Denied> {
    const { limit, leases } = desk;
    const { clock, keepers, root } = this.uses;
    const at = clock.now();
    const ticket = need.amounts.slots ? leases.freeTicket(need.ticket) : need.ticket;
    const notified = desk.notified;
    const ask = this.#askOf(desk, { ...need, ticket }, at);
    let answer: Answer;
    try {
      answer = await keepers.ask(limit, root(), ask);
    } catch (error) {
      return this.#unreachable(desk, need, error);
    }
    desk.notified = desk.notified.filter((id) => !notified.includes(id));
    this.#noticed(desk, answer.notices);
    if (answer.outcome !== "lent") return answer;
    const now = clock.now();
    leases.lend(answer, { at, ticket, ...(need.share && { share: need.share }) }, now);
    return this.#takeFrom(desk, need, true) ?? TOO_LATE;
  }

  #askOf(desk: Desk, need: Need, now: number): Ask {
    const { leases, notified, limit, wanted } = desk;
    const { ticket, key, share, hasBegun, priority, waitedMs, ageMs } = need;
    const { singleton, isRenewal, amounts } = need;
    const ahead = !limit.declared ? {} : leases.ahead(AHEAD_MS, now);
    const expected = DIMENSIONS.map((name) => {
      const others = [...wanted].reduce((sum, other) => sum + (other.amounts[name] ?? 0), 0);
      return [name, (ahead[name] ?? 0) + others - (amounts[name] ?? 0)] as const;
    });
    const more = Object.fromEntries(expected.filter(([, amount]) => amount > 0));
    const returns = leases.returns(now);
    return {
      ...{ ticket, key, rules: limit.rules, need: amounts, waitedMs },
      ...(Object.keys(more).length > 0 && { ahead: more }),
      ...(share && { share }),
      ...(hasBegun && { hasBegun }),
      ...(priority !== undefined && { priority }),
      ...(ageMs !== undefined && { ageMs }),
      ...(singleton && { singleton }),
      ...(isRenewal && { isRenewal }),
      ...(limit.atEnd === "fail" && { failsIfFull: true }),
      ...(returns.length > 0 && { returns }),
      ...(notified.length > 0 && { notified }),
    };
  }

  #unreachable(desk: Desk, need: Need, error: unknown): Held | Denied {
    if (!(error instanceof KeeperUnreachableError)) throw error;
    const { retryAfterMs: waitMs } = error;
    if (desk.limit.whenUnreachable === "wait")
      return { outcome: "wait", waitMs, why: "unreachable" };
    const since = this.uses.clock.now();
    return this.#hold({ desk, need, taken: desk.leases.overdraw(since), since });
  }

  #noticed(desk: Desk, notices: readonly Notice[] = []): void {
    for (const notice of notices)
      this.uses.inBackground(
        this.uses
          .notify(desk.limit.name, notice)
          .then(() => this.#confirm(desk, notice))
          .catch((error) => {
            console.warn("[perdure] A notice of used money is given again:", error);
          }),
      );
  }

  /** Without a confirmation, the keeper gives the notice to another agent. */
  async #confirm(desk: Desk, { id, key }: Notice): Promise<void> {
    desk.notified.push(id);
    const { keepers, root } = this.uses;
    const { limit } = desk;
    const nothing = { ticket: id, key, rules: limit.rules, need: {}, waitedMs: 0 };
    const { notices } = await keepers.ask(limit, root(), { ...nothing, notified: [id] });
    this.#noticed(desk, notices);
    desk.notified = desk.notified.filter((other) => other !== id);
  }

  /** From when on it can be used: at most a few seconds from now. */
  startOf({ desk, taken }: Held): number {
    return desk.leases.startOf(taken);
  }

  /** Until when it can be used. */
  endOf({ desk, taken }: Held): number {
    return desk.leases.endOf(taken);
  }

  /**
   * Ends a reservation, once.
   * @param used nothing for work that has not begun
   * @param at when it was used
   */
  settle({ desk, taken }: Held, used: Amounts, at = this.uses.clock.now()): void {
    desk.leases.settle(taken, used, at);
    desk.open--;
    if (taken.slot) this.#slots.delete(taken.slot);
    // Nobody else of this object uses it, or other agents wait for the slot.
    const isOver = !desk.limit.declared && desk.open === 0;
    if (isOver || (used.slots && taken.slot?.isWanted)) this.#giveBack([desk]);
  }

  /** Never rejects. */
  observe({ limit }: Need, observation: Observation): Promise<void> {
    const { keepers, root, inBackground } = this.uses;
    const observed = keepers.observe({ ...limit, ...limit.declared }, root(), observation);
    inBackground(observed);
    return observed;
  }

  /** Takes back an ask that waits, so that no other work waits behind it. */
  withdraw({ limit, key, ticket }: Need): void {
    const { keepers, root, inBackground } = this.uses;
    const nothing = { lease: 0, lent: {}, used: {}, usedAgoMs: 0 };
    inBackground(
      keepers.giveBack(limit, root(), [{ key, rules: limit.rules, ticket, ...nothing }]),
    );
  }

  /** Gives back what is free of a key. */
  giveBack(need: Need): void {
    this.#giveBack([this.#deskOf(need)]);
  }

  /** No work is left: gives back what is not likely to be used soon, and the rest if none comes. */
  idle(): void {
    clearTimeout(this.#givingBack);
    this.#givingBack = undefined;
    const now = this.uses.clock.now();
    const unused = [...this.#desks.values()].filter(
      ({ leases }) => !leases.isEmpty && !leases.isInUse(now),
    );
    const isKept = ({ leases }: Desk) => Object.keys(leases.ahead(KEPT_MS, now)).length > 0;
    this.#giveBack(unused.filter((desk) => !isKept(desk)));
    const kept = unused.filter(isKept);
    if (kept.length === 0) return;
    this.#givingBack = setTimeout(() => {
      const later = this.uses.clock.now();
      this.#giveBack(kept.filter(({ leases }) => !leases.isInUse(later)));
    }, KEPT_MS);
  }

  #giveBack(desks: readonly Desk[]): void {
    const { clock, keepers, root, inBackground } = this.uses;
    for (const desk of desks) {
      const returns = desk.leases.returns(clock.now());
      const returned = returns.length > 0 && keepers.giveBack(desk.limit, root(), returns);
      if (returned) inBackground(returned.then((notices) => this.#noticed(desk, notices)));
      const isOver = !desk.limit.declared && desk.open === 0 && !desk.asking;
      if (isOver) this.#desks.delete(deskKey(desk.limit, desk.leases.key));
    }
  }

  #deskOf({ limit, key }: Pick<Need, "limit" | "key">): Desk {
    const id = deskKey(limit, key);
    const known = this.#desks.get(id);
    const desk = known ?? this.#newDesk(limit, key);
    // Submissions may bring another rule for a key. The latest is valid.
    desk.limit = limit;
    desk.leases.rules = limit.rules;
    if (known) this.#desks.delete(id);
    this.#desks.set(id, desk);
    if (this.#desks.size > (this.uses.maxKeys ?? MAX_KEYS)) this.#forgetOldest(desk);
    return desk;
  }

  #newDesk(limit: WorkLimit, key: string): Desk {
    const { declared, rules } = limit;
    // What a submission brings is of its own turn.
    const leases = declared
      ? sharedLeases(`${this.uses.root()}\n${deskKey(limit, key)}`, key, rules)
      : new Leases(key, rules);
    return { limit, leases, open: 0, asking: undefined, wanted: new Set(), notified: [] };
  }

  #forgetOldest(used: Desk): void {
    for (const [id, desk] of this.#desks) {
      if (desk === used || desk.open > 0 || desk.wanted.size > 0) continue;
      this.#giveBack([desk]);
      this.#desks.delete(id);
      return;
    }
  }

  #renewLater(): void {
    if (this.#renewing !== undefined || this.#slots.size === 0) return;
    const next = Math.min(...[...this.#slots.keys()].map(({ renewAt }) => renewAt));
    const ms = Math.max(0, next - this.uses.clock.now());
    this.#renewing = setTimeout(() => {
      this.#renewing = undefined;
      const now = this.uses.clock.now();
      for (const [slot, held] of this.#slots) if (slot.renewAt <= now) this.#renew(slot, held);
      this.#renewLater();
    }, ms);
  }

  #renew(slot: Slot, held: Held): void {
    const { clock, keepers, root, inBackground } = this.uses;
    const { need, since, desk } = held;
    const at = clock.now();
    if (need.limit.declared && at - since > MAX_CALL_MS) {
      this.#slots.delete(slot);
      return;
    }
    slot.renewAt = at + RENEW_AGAIN_MS;
    const { key, ageMs, singleton, limit } = need;
    const ask: Ask = {
      ...{ ticket: slot.ticket, key, rules: limit.rules, need: { slots: 1 }, waitedMs: 0 },
      ...{ isRenewal: true, ...(slot.share && { share: slot.share }) },
      ...(ageMs !== undefined && { ageMs: ageMs + at - since }),
      ...(singleton && { singleton }),
    };
    const renewed = keepers.ask(limit, root(), ask).then(
      (answer) => {
        if (answer.outcome === "lent") desk.leases.renewed(slot, answer, at);
        else if (answer.outcome === "refused" && answer.why === "replaced") need.onReplaced?.();
      },
      // The work goes on. The keeper may lend its slot to others when the lease has ended.
      (error) => console.warn("[perdure] A slot of a limit could not be renewed:", error),
    );
    inBackground(renewed);
  }
}

function deskKey({ name }: WorkLimit, key: string): string {
  return `${name}\n${key}`;
}
