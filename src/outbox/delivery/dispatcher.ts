/**
 * Delivers what is due: destinations side by side, to each of them one entry
 * after the other (O2, O3). Never waits for anything itself; what an attempt
 * came to is noted when it has come to it.
 */

import type { Clock } from "../../core/clock.ts";
import { failureOf, transientOf } from "../../core/failures.ts";
import { byteLength } from "../../core/json.ts";
import { TimeoutError, withTimeout } from "../../core/timeout.ts";
import { NotNeededError } from "../errors.ts";
import type { OutboxLimits } from "../options.ts";
import type { DeadLetters } from "../store/dead-letters.ts";
import type { Endpoints } from "../store/endpoints.ts";
import type { Entry, OutboxStore } from "../store/entries.ts";
import type { Adapter, Delivery, Destination, ReferencedDelivery } from "../types.ts";
import { Claims } from "./attempts.ts";
import { nextAttempt, type Policy, policyOf } from "./policy.ts";
import { type Due, type Look, ReadyQueue } from "./ready-queue.ts";
import { EvictedError, PATIENCE_MS, Slots, YOUNG_MS } from "./slots.ts";

/** An object that dies in mid-delivery is looked after at most this long afterwards. */
export const BACKSTOP_MS = 30_000;
/** How long others wait until a suspect can be tried alone, and how long while it is tried. */
const QUIET_MS = 15_000;
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
  /** Nobody waits for it any more, which the next write stores. */
  discarding(entry: Entry, reason: string): void;
  /** Somebody is to be told of dead letters. */
  died(): void;
  /** An endpoint has changed its state, or fails for another reason that the app has to know. */
  changed(url: string, state: "healthy" | "failing" | "disabled", reason?: string): void;
};

type UnderWay = { readonly id: string; readonly attempt: Promise<void> };
type Failed = { readonly error: unknown };
/** A suspect is waiting to be tried alone, or is being tried. */
type Quiet = { readonly timer: ReturnType<typeof setTimeout>; isOver: boolean };

export class Deliveries {
  readonly #lines = new ReadyQueue((inLine) => this.#look(inLine));
  /** By destination key. */
  readonly #underWay = new Map<string, UnderWay>();
  #slots: Slots | undefined;
  readonly #claims: Claims;
  /** Nothing starts meanwhile but a suspect. */
  #quiet: Quiet | undefined;
  /** The key of the suspect that is under way; never more than one is. */
  #suspect: string | undefined;
  /** In a crowd, who came last and who has waited longest begin in turn. */
  #nextEnd: "first" | "last" = "last";
  /** Destinations of which an outcome could not be stored, and until when they are left alone. */
  readonly #resting = new Map<string, number>();

  constructor(private readonly owner: DeliveriesOwner) {
    const { limits, clock, wakeAt } = owner;
    this.#claims = new Claims({
      limits,
      clock,
      wakeAt,
      // These are opened later.
      get store() {
        return owner.store;
      },
      get deadLetters() {
        return owner.deadLetters;
      },
      died: () => owner.died(),
      isDisabled: (entry) => this.#isDisabled(entry),
      putOff: ({ key, isOrdered }) => {
        if (isOrdered) this.#lines.drop(key);
      },
    });
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

  /** An endpoint was enabled by hand: it counts as one that has not answered yet. */
  enabled(key: string): void {
    this.#room.forget(key);
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

  /** What starts next. Suspects come after all others that there is room for, so that neither waits for ever. */
  #next(): Due | undefined {
    const next = this.#quiet ? undefined : this.#nextInRoom();
    if (next || this.#suspect !== undefined) return next;
    const isNext = ({ key, isSuspect }: Due) => isSuspect && !this.#underWay.has(key);
    const isWaiting = this.#quiet !== undefined || this.#lines.some(isNext);
    if (!isWaiting) return undefined;
    const isQuiet = !this.isBusy || this.#quiet?.isOver;
    const suspect = isQuiet ? this.#lines.next(isNext, () => true) : undefined;
    if (suspect) return suspect;
    if (this.#lines.some(isNext)) {
      this.#quiet ??= this.#keepQuiet(() => {});
      return undefined;
    }
    // It is gone.
    this.#endQuiet();
    return this.#nextInRoom();
  }

  #nextInRoom(): Due | undefined {
    const hasRoom = (room: "free" | "crowded") => (due: Due) =>
      !due.isSuspect && !this.#underWay.has(due.key) && this.#room.roomFor(due.key) === room;
    const isWanted = (key: string) =>
      !this.#underWay.has(key) && this.#room.roomFor(key) !== undefined;
    const free = this.#lines.next(hasRoom("free"), isWanted);
    if (free) return free;
    const crowded = this.#lines[this.#nextEnd](hasRoom("crowded"));
    if (crowded) {
      this.#nextEnd = this.#nextEnd === "last" ? "first" : "last";
      return crowded;
    }
    const waits = ({ key }: Due) => !this.#underWay.has(key) && this.#room.isUnknown(key);
    if (this.#lines.some(waits)) this.#room.makeRoom();
    return undefined;
  }

  #keepQuiet(over: () => void): Quiet {
    const timer = setTimeout(() => {
      quiet.isOver = true;
      over();
      this.proceed();
    }, QUIET_MS);
    const quiet = { timer, isOver: false };
    return quiet;
  }

  #endQuiet(): void {
    clearTimeout(this.#quiet?.timer);
    this.#quiet = undefined;
  }

  get #room(): Slots {
    const { limits, endpoints } = this.owner;
    this.#slots ??= new Slots(limits.concurrency, endpoints.keys());
    return this.#slots;
  }

  #look(inLine: readonly string[]): Look {
    const { store, endpoints, clock } = this.owner;
    const now = clock.now();
    for (const [key, time] of this.#resting) if (time <= now) this.#resting.delete(key);
    const leftOut = [...inLine, ...this.#resting.keys(), ...endpoints.held(now)];
    const ids = [...this.#underWay.values()].map(({ id }) => id);
    return { found: store.due(now, this.#claims.bornAt, { keys: leftOut, ids }), leftOut };
  }

  #start(due: Due): void {
    const { id, key } = due;
    const isAlone = due.isSuspect && !this.isBusy;
    const { promise: evicted, reject: evict } = Promise.withResolvers<never>();
    evicted.catch(() => {});
    const slot = this.#room.begin(key, evict);
    let timer = setTimeout(() => {
      slot.isYoung = false;
      timer = setTimeout(() => {
        slot.isOverdue = true;
        this.proceed();
      }, PATIENCE_MS - YOUNG_MS);
      this.proceed();
    }, YOUNG_MS);
    if (due.isSuspect) this.#beginSuspect(due, isAlone);
    // Not before it is among those under way: what is told may come back here at once.
    const begun = Promise.resolve(due).then((next) => this.#attempt(next, isAlone, evicted));
    const attempt = begun.finally(() => {
      clearTimeout(timer);
      this.#room.end(slot);
      this.#underWay.delete(key);
      if (due.isSuspect) this.#endSuspect();
      this.#lines.freed(key);
      this.proceed();
      this.owner.settled();
    });
    this.#underWay.set(key, { id, attempt });
  }

  #beginSuspect({ id, key }: Due, isAlone: boolean): void {
    this.#endQuiet();
    this.#suspect = key;
    if (!isAlone) return;
    this.#quiet = this.#keepQuiet(() => {
      this.#quiet = undefined;
      // From now on a crash may be another's.
      try {
        this.owner.store.notAlone(id);
      } catch (error) {
        console.error(`[perdure] it was not stored that delivery ${id} is not alone:`, error);
      }
    });
  }

  #endSuspect(): void {
    this.#endQuiet();
    this.#suspect = undefined;
  }

  /** Never rejects: what cannot be noted down now is found again by the next wake. */
  async #attempt({ id, key }: Due, isAlone: boolean, evicted: Promise<never>): Promise<void> {
    try {
      const entry = this.#claims.claim(id, isAlone);
      if (!entry) return;
      const failed = await this.#send(entry, evicted);
      if (failed?.error instanceof NotNeededError) this.#discard(entry, failed.error);
      else if (failed) this.#failed(entry, failed.error);
    } catch (error) {
      console.error(`[perdure] the outcome of delivery ${id} was not stored:`, error);
      const time = this.owner.clock.now() + BACKSTOP_MS;
      this.#resting.set(key, time);
      this.#lines.drop(key);
      this.owner.wakeAt(time);
    }
  }

  /** Returns how it failed, or undefined when it was taken. */
  async #send(entry: Entry, evicted: Promise<never>): Promise<Failed | undefined> {
    const { store, limits, clock } = this.owner;
    const { key } = entry;
    const abort = new AbortController();
    let isWhole = true;
    try {
      const adapter = this.owner.adapterOf(entry.destination);
      const delivery = deliveryOf(entry, adapter.maxBytes, this.owner.sender);
      isWhole = "event" in delivery;
      // What leaves the object waits for its writes by itself. A method could end it before, and undo what it is told of.
      if (entry.destination.kind === "method") await store.durable();
      this.owner.attempting(entry);
      const sending = adapter.deliver(entry.destination, delivery, abort.signal);
      const timeoutMs = this.#policyOf(entry).timeoutMs ?? adapter.timeoutMs;
      await withTimeout(Promise.race([sending, evicted]), timeoutMs);
    } catch (error) {
      const isSilent = error instanceof TimeoutError || error instanceof EvictedError;
      if (isSilent) this.#room.silent(key);
      else this.#room.answered(key);
      return { error };
    } finally {
      abort.abort();
    }
    this.#room.answered(key);
    this.owner.taken(entry);
    store.delivered(entry, { isKept: limits.kept.all || !isWhole, isWhole }, clock.now());
    if (entry.destination.kind === "webhook") this.#heardFrom(key, entry.destination.url);
    return undefined;
  }

  #isDisabled({ key, destination }: Entry): boolean {
    return destination.kind === "webhook" && this.owner.endpoints.isDisabled(key);
  }

  #heardFrom(key: string, url: string): void {
    if (this.owner.endpoints.succeeded(key)) this.owner.changed(url, "healthy");
  }

  #discard(entry: Entry, { message }: Error): void {
    this.owner.discarding(entry, message);
    this.owner.store.discard(entry, message, this.owner.clock.now());
    if (entry.isOrdered) this.#lines.drop(entry.key);
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
    const isCounted = !(error instanceof EvictedError);
    const next = isOver
      ? { givenUp: "" }
      : nextAttempt({ ...tried, isCounted }, policy, clock, heldUntil);
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
      if (endpoints.failed(key, url, message, now, heldUntil)) changed(url, "failing", message);
    } else if (error.isGone) {
      endpoints.disable(key, url, message, now);
      store.dueNow(key, now);
      this.#lines.clear();
      changed(url, "disabled", message);
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
