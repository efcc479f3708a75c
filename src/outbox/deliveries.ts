/**
 * Delivers what is due: destinations side by side, to each of them one entry
 * after the other (O2, O3). Never waits for anything itself; what an attempt
 * came to is noted when it has come to it.
 */

import type { Clock } from "../core/clock.ts";
import { failureOf, transientOf } from "../core/failures.ts";
import { byteLength } from "../core/json.ts";
import { withTimeout } from "../core/timeout.ts";
import type { DeadLetters } from "./dead-letters.ts";
import { type Due, DueLines, type Look } from "./due.ts";
import type { Endpoints } from "./endpoints.ts";
import type { OutboxLimits } from "./options.ts";
import { nextAttempt, type Policy, policyOf } from "./policy.ts";
import type { Entry, OutboxStore } from "./store.ts";
import type { Adapter, Delivery, Destination, ReferencedDelivery } from "./types.ts";

/** An object that dies in mid-delivery is looked after at most this long afterwards. */
export const BACKSTOP_MS = 30_000;
/** An attempt that takes longer makes room for another destination. */
const SLOW_MS = 1_000;
/** How many times as many may be under way in all, with the slow ones. */
const SLOW_FACTOR = 8;
/** Slow destinations that are remembered. */
const MAX_SLOW = 1_024;
/** A destination's Retry-After is not waited for longer than this. */
const MAX_WAIT_MS = 86_400_000;
/** What an envelope adds to an event; the limits of the adapters leave room for a little more. */
const ENVELOPE_BYTES = 1_024;

export type DeliveriesOwner = {
  readonly store: OutboxStore;
  readonly deadLetters: DeadLetters;
  readonly endpoints: Endpoints;
  readonly limits: OutboxLimits;
  readonly clock: Clock;
  /** The name of the agent, if it has one. */
  readonly sender: string | undefined;
  adapterOf(destination: Destination): Adapter;
  /** The object must be awake at that time. */
  wakeAt(time: number): void;
  /** The next thing that happens is that its destination is told. */
  attempting(entry: Entry): void;
  /** The destination has taken it, and nothing says so yet but this call. */
  taken(entry: Entry): void;
  /** An attempt is over. */
  settled(): void;
  /** Somebody is to be told of dead letters. */
  died(): void;
  /** An endpoint has changed its state. */
  changed(url: string, state: "healthy" | "failing" | "disabled"): void;
};

type UnderWay = { readonly id: string; readonly attempt: Promise<void>; isSlow: boolean };
type Failed = { readonly error: unknown };

export class Deliveries {
  readonly #lines = new DueLines((inLine) => this.#look(inLine));
  /** By destination key. */
  readonly #underWay = new Map<string, UnderWay>();
  /** Destinations that were slow the last time: they take no place from others, and never all of the room. */
  readonly #slow = new Set<string>();
  /** Destinations of which an outcome could not be stored, and until when they are left alone. */
  readonly #resting = new Map<string, number>();
  readonly #bornAt: number;
  /** Destinations of which the one has been found that an earlier life may have attempted last. */
  readonly #doubted = new Set<string>();

  constructor(private readonly owner: DeliveriesOwner) {
    this.#bornAt = owner.clock.now();
  }

  get isBusy(): boolean {
    return this.#underWay.size > 0;
  }

  /** All that is under way. */
  get work(): Promise<unknown> {
    return Promise.all([...this.#underWay.values()].map(({ attempt }) => attempt));
  }

  /** Something may be due that was not: starts that, too. */
  deliver(): void {
    this.#lines.expect();
    this.proceed();
  }

  /** One has been put, and is due. */
  added(due: Due, isOrdered: boolean): void {
    const { key } = due;
    const now = this.owner.clock.now();
    const isResting = (this.#resting.get(key) ?? 0) > now;
    const isLeftAlone = isResting || this.owner.endpoints.held(now).includes(key);
    this.#lines.add(due, isOrdered, isLeftAlone || this.#underWay.has(key));
  }

  /** Some are due again that have a place in line before those who stand there. */
  reorder(): void {
    this.#lines.clear();
  }

  /** When the object must be awake next: for what is due, for what a crash would leave behind; null when nothing waits (O5). */
  nextWake(): number | null {
    const { store, endpoints, clock } = this.owner;
    const now = clock.now();
    const { next, isEmpty } = store.waiting(now);
    if (isEmpty) return null;
    const released = [endpoints.nextRelease(now), ...this.#resting.values()];
    const times = [next, ...released].filter((time) => time !== null).filter((time) => time > now);
    if (this.isBusy || times.length === 0) times.push(now + BACKSTOP_MS);
    return Math.min(...times);
  }

  /**
   * Starts what is in line, as far as there is room. Never throws: whoever has put an event
   * has done all there was to do, and what cannot be read now is read at the next wake.
   */
  proceed(): void {
    try {
      for (let due = this.#next(); due; due = this.#next()) this.#start(due);
    } catch (error) {
      console.error("[perdure] what is due in the outbox could not be read:", error);
      this.owner.wakeAt(this.owner.clock.now() + BACKSTOP_MS);
    }
  }

  #next(): Due | undefined {
    const { concurrency } = this.owner.limits;
    if (this.#underWay.size >= concurrency * SLOW_FACTOR) return undefined;
    const slow = [...this.#underWay.values()].filter(({ isSlow }) => isSlow).length;
    if (this.#underWay.size - slow >= concurrency) return undefined;
    const hasRoomForSlow = slow < concurrency * (SLOW_FACTOR - 1);
    return this.#lines.next(
      (key) => !this.#underWay.has(key) && (hasRoomForSlow || !this.#slow.has(key)),
    );
  }

  #look(inLine: readonly string[]): Look {
    const { store, endpoints, clock } = this.owner;
    const now = clock.now();
    for (const [key, time] of this.#resting) if (time <= now) this.#resting.delete(key);
    const leftOut = [...inLine, ...this.#resting.keys(), ...endpoints.held(now)];
    const ids = [...this.#underWay.values()].map(({ id }) => id);
    return { found: store.due(now, { keys: leftOut, ids }), leftOut };
  }

  #start(due: Due): void {
    const { id, key } = due;
    const isSlow = this.#slow.delete(key);
    const slow = setTimeout(() => this.#isSlow(key), SLOW_MS);
    // Not before it is among those under way: what is told may come back here at once.
    const begun = Promise.resolve(due).then((next) => this.#attempt(next));
    const attempt = begun.finally(() => {
      clearTimeout(slow);
      this.#underWay.delete(key);
      this.#lines.freed(key);
      this.proceed();
      if (!this.isBusy) this.#slow.clear();
      this.owner.settled();
    });
    this.#underWay.set(key, { id, attempt, isSlow });
  }

  #isSlow(key: string): void {
    if (this.#slow.size < MAX_SLOW) this.#slow.add(key);
    const underWay = this.#underWay.get(key);
    if (underWay) underWay.isSlow = true;
    this.proceed();
  }

  /** Never rejects: what cannot be noted down now is found again by the next wake. */
  async #attempt({ id, key }: Due): Promise<void> {
    try {
      const entry = this.#claim(id);
      if (!entry) return;
      const failed = await this.#send(entry);
      if (failed) this.#failed(entry, failed.error);
    } catch (error) {
      console.error(`[perdure] the outcome of delivery ${id} was not stored:`, error);
      const time = this.owner.clock.now() + BACKSTOP_MS;
      this.#resting.set(key, time);
      this.#lines.drop(key);
      this.owner.wakeAt(time);
    }
  }

  /** The entry to be attempted, its attempt counted; or none, when it is not to be. */
  #claim(id: string): Entry | undefined {
    const { store, deadLetters, clock, died } = this.owner;
    const entry = store.get(id);
    // It may be in line twice, where a transaction that put it was rolled back, and its first attempt has failed.
    if (!entry || entry.dueAt > clock.now()) return undefined;
    const bury = (attempts: number, why: string) => {
      deadLetters.bury(id, attempts, why, clock.now());
      died();
      return undefined;
    };
    const isDoubtful = this.#isDoubtful(entry);
    if (this.#isDisabled(entry)) {
      return bury(isDoubtful ? entry.attempt : entry.attempt - 1, "The endpoint is disabled");
    }
    const begun = entry.attempt - entry.attemptsBefore;
    // Where only one is allowed there is a second: that one may never have begun.
    if (isDoubtful && begun >= Math.max(this.#policyOf(entry).maxAttempts, 2)) {
      const why = `Given up after ${begun} attempts, of which the object may not have survived the last`;
      return bury(entry.attempt, why);
    }
    const attempt = isDoubtful ? entry.attempt + 1 : entry.attempt;
    // The first attempt was counted when it was put.
    if (isDoubtful || !entry.isBegun) store.begin(id, attempt);
    return { ...entry, attempt };
  }

  /**
   * Whether an earlier life may have ended in the middle of this attempt, which
   * then counts. A first attempt is not noted before it begins; of those of a
   * destination, only the first in line can have been under way.
   */
  #isDoubtful({ key, isBegun, attempt, attemptsBefore, dueAt }: Entry): boolean {
    if (!isBegun || dueAt >= this.#bornAt) return false;
    const isFirst = attempt === attemptsBefore + 1;
    if (isFirst && this.#doubted.has(key)) return false;
    this.#doubted.add(key);
    return true;
  }

  /** Returns how it failed, or undefined when it was taken. */
  async #send(entry: Entry): Promise<Failed | undefined> {
    const { store, limits, clock } = this.owner;
    const abort = new AbortController();
    let isWhole = true;
    try {
      const adapter = this.owner.adapterOf(entry.destination);
      const delivery = deliveryOf(entry, adapter.maxBytes, this.owner.sender);
      isWhole = "event" in delivery;
      this.owner.attempting(entry);
      const sending = adapter.deliver(entry.destination, delivery, abort.signal);
      await withTimeout(sending, this.#policyOf(entry).timeoutMs ?? adapter.timeoutMs);
    } catch (error) {
      return { error };
    } finally {
      abort.abort();
    }
    this.owner.taken(entry);
    store.delivered(entry, { isKept: limits.kept.all || !isWhole, isWhole }, clock.now());
    if (entry.destination.kind === "webhook") this.#heardFrom(entry.key, entry.destination.url);
    return undefined;
  }

  #isDisabled({ key, destination }: Entry): boolean {
    return destination.kind === "webhook" && this.owner.endpoints.isDisabled(key);
  }

  #heardFrom(key: string, url: string): void {
    if (this.owner.endpoints.succeeded(key)) this.owner.changed(url, "healthy");
  }

  #failed(entry: Entry, error: unknown): void {
    const { store, deadLetters, clock, wakeAt, died } = this.owner;
    const { message } = failureOf(error);
    const now = clock.now();
    const wait = transientOf(error, now)?.retryAfterMs;
    const heldUntil = wait ? now + Math.min(wait, MAX_WAIT_MS) : null;
    const policy = this.#policyOf(entry);
    const tried = { attempts: entry.attempt - entry.attemptsBefore, since: entry.since };
    const isOver = isForGood(error) || this.#isDisabled(entry);
    const next = isOver ? { givenUp: "" } : nextAttempt(tried, policy, clock, heldUntil);
    if ("dueAt" in next) {
      store.retryAt(entry.id, next.dueAt, message);
      wakeAt(next.dueAt);
    } else {
      const why = next.givenUp ? `${next.givenUp}: ${message}` : message;
      deadLetters.bury(entry.id, entry.attempt, why, now);
      died();
    }
    // Those behind it are read again: they may have to wait for it now.
    if (entry.isOrdered) this.#lines.drop(entry.key);
    this.#noteTrouble(entry, error, now, heldUntil);
  }

  /**
   * What a failure says about the endpoint as a whole.
   *
   * @param now when it failed: the time of the dead letter too, which enabling the endpoint looks for
   */
  #noteTrouble(
    { key, destination }: Entry,
    error: unknown,
    now: number,
    heldUntil: number | null,
  ): void {
    if (destination.kind !== "webhook") return;
    const { endpoints, store, changed } = this.owner;
    const { url } = destination;
    const { message } = failureOf(error);
    if (!isForGood(error)) {
      if (heldUntil !== null) this.#lines.drop(key);
      if (endpoints.failed(key, url, message, now, heldUntil)) changed(url, "failing");
    } else if (error.isGone) {
      endpoints.disable(key, url, message, now);
      store.dueNow(key, now);
      this.#lines.clear();
      changed(url, "disabled");
    }
    // Any other refusal for good judges the event, and not the endpoint.
  }

  #policyOf({ destination }: Entry): Policy {
    return policyOf(destination.policy, this.owner.limits.policy);
  }
}

/** By its name: RPC loses the class. */
function isForGood(error: unknown): error is Error & { readonly isGone?: boolean } {
  return error instanceof Error && error.name === "UndeliverableError";
}

/** The event as it travels: whole, or as a reference where the destination does not take so much (O4). */
function deliveryOf(
  { id, attempt, payload }: Entry,
  maxBytes: number,
  sender: string | undefined,
): Delivery | ReferencedDelivery {
  const room = maxBytes - ENVELOPE_BYTES;
  // A code unit is at most three bytes: most events need not be measured.
  const isSmall = payload.length * 3 <= room;
  const bytes = isSmall ? 0 : byteLength(payload);
  if (isSmall || bytes <= room) return { id, attempt, event: JSON.parse(payload) as unknown };
  return { id, attempt, reference: { bytes, ...(sender !== undefined && { sender }) } };
}
