/**
 * Decides which entry is delivered next, and keeps the wake: destinations side by side, one entry at a time to each.
 * Never waits for a delivery; attempt.ts runs each one and stores its outcome.
 */

import { earliest } from "../../core/clock.ts";
import { HEARTBEAT_MS, type WorkLoop } from "../../engine/work-loop.ts";
import type { Destinations } from "../destinations/index.ts";
import type { OutboxLimits } from "../options.ts";
import type { NewEntry } from "../store/entries.ts";
import type { Stores } from "../store/stores.ts";
import { AttemptRunner } from "./attempt.ts";
import { DeadLetterNotifier } from "./dead-letter-notifier.ts";
import { type Loaded, type ReadyEntry, ReadyQueue } from "./ready-queue.ts";
import type { Reports } from "./reports.ts";
import { PREEMPTIBLE_AFTER_MS, RAMP_UP_MS, Slots } from "./slots.ts";

/** How long others wait until a suspect can start alone, and how long while it runs alone. */
const ISOLATION_MS = 15_000;
/** Attempts between two deletions of old rows. */
const PRUNE_EVERY = 64;
/** A failing endpoint without waiting entries is deleted after this time. */
const MAX_ENDPOINT_AGE_MS = 30 * 86_400_000;

/** The key of the pause after entries could not be read; the others are those of destinations. */
const READING = "";

/** Quarantine: run one crash suspect alone. */
type Isolation = { readonly timer: ReturnType<typeof setTimeout>; isOver: boolean };

export class Dispatcher {
  readonly #queue = new ReadyQueue((inMemory) => this.#load(inMemory));
  readonly #slots: Slots;
  readonly #notifier: DeadLetterNotifier;
  readonly #attempts: AttemptRunner;
  /** The entry's id, by destination key. */
  readonly #inFlight = new Map<string, string>();
  #isolation: Isolation | undefined;
  /** The destination key of the suspect in flight; there is never more than one. */
  #suspectKey: string | undefined;
  /** While slots are scarce, the newest and the oldest destination start in turn. */
  #nextEnd: "first" | "last" = "last";
  #isFlushScheduled = false;
  hasStarted = false;
  #attemptsSincePrune = 0;

  constructor(
    private readonly loop: WorkLoop,
    private readonly stores: Stores,
    private readonly destinations: Destinations,
    private readonly limits: OutboxLimits,
    private readonly reports: Reports,
  ) {
    const slots = new Slots(limits.concurrency, () => stores.endpoints.keys());
    const notifier = new DeadLetterNotifier(loop, stores.ended, reports, () => this.#releaseWake());
    this.#slots = slots;
    this.#notifier = notifier;
    this.#attempts = new AttemptRunner(
      loop,
      stores,
      destinations,
      limits,
      reports,
      this.#queue,
      slots,
      notifier,
    );
  }

  get #isBusy(): boolean {
    return this.#inFlight.size > 0;
  }

  /** The object has started: sets a wake if an earlier object instance left any work. */
  async start(): Promise<void> {
    const { wake, clock } = this.loop;
    const { entries, ended } = this.stores;
    this.hasStarted = true;
    this.#prune(true);
    const { installed } = this.destinations;
    let hasWork = false;
    for (const { kind, waiting } of entries.waitingByKind()) {
      if (installed.includes(kind)) hasWork = true;
      else this.reports.uninstalled(kind, waiting);
    }
    if (hasWork || ended.nextToNotify() !== undefined) await wake.noLaterThan(clock.now());
  }

  /** A new entry was inserted. {@link flush} follows when it has committed. */
  added({ id, key, isOrdered }: NewEntry): void {
    const now = this.loop.clock.now();
    const isHeld = this.loop.isPaused(key) || this.stores.endpoints.held(now).includes(key);
    this.#queue.add({ id, key, isSuspect: false }, isOrdered, isHeld || this.#inFlight.has(key));
  }

  /** {@link flush} after the caller's synchronous code. */
  flushSoon(): void {
    if (this.#isFlushScheduled) return;
    this.#isFlushScheduled = true;
    queueMicrotask(() => {
      this.#isFlushScheduled = false;
      if (this.hasStarted) this.flush();
      else this.#startAndFlush();
    });
  }

  /** A method can be called over RPC before its object has started: the start happens now. */
  #startAndFlush(): void {
    const { wake, clock, lifecycle } = this.loop;
    if (this.stores.entries.isEmpty()) return;
    wake.request(clock.now() + HEARTBEAT_MS);
    lifecycle.ready().then(
      () => this.flush(),
      (error) => {
        console.error("[perdure] deliveries could not be started, will retry:", error);
      },
    );
  }

  /** Starts to deliver what has committed. */
  flush(): void {
    const { wake, clock } = this.loop;
    const { endpoints, entries } = this.stores;
    const now = clock.now();
    // An overdue wake has work that need not wait for it.
    if (wake.armedFor !== null && wake.armedFor <= now) this.#queue.clear();
    this.#startReady();
    if (this.#isBusy) wake.request(now + HEARTBEAT_MS);
    const released = endpoints.nextRelease(now);
    if (released !== null && !entries.isEmpty()) wake.request(released);
  }

  /** {@link flush} after entries became ready again. They are read anew, because they may precede others. */
  flushAgain(): void {
    this.stores.entries.countAgain();
    this.#queue.clear();
    this.flush();
  }

  /** An endpoint was enabled by hand: it counts as one that has not responded yet. */
  enabled(key: string): void {
    this.#slots.forget(key);
  }

  /** The wake has fired: delivers and notifies. Returns when there is more to do. */
  drive(): number | null {
    this.#queue.expectMore();
    this.#startReady();
    this.#notifier.start();
    const { entries, endpoints } = this.stores;
    const now = this.loop.clock.now();
    const { next, isEmpty } = entries.waiting(now);
    if (isEmpty) return null;
    const times = [next, endpoints.nextRelease(now)];
    return earliest(times.filter((time) => time !== null && time > now)) ?? now + HEARTBEAT_MS;
  }

  /** Removes the wake when there is nothing left to wake for. */
  #releaseWake(): void {
    const { entries, ended } = this.stores;
    // A delivery in flight still has its row.
    if (this.#notifier.isRunning || this.#isBusy) return;
    if (entries.isEmpty() && !ended.nextToNotify()) this.loop.wake.release();
  }

  /** Starts ready entries while slots are free. Never throws: what cannot be read now is read at the next wake. */
  #startReady(): void {
    this.loop.tryOrPause(READING, "ready entries of the outbox could not be read", () => {
      for (let next = this.#next(); next; next = this.#next()) this.#start(next);
    });
  }

  /** The entry that starts next. A suspect starts after all others that have a slot, which prevents starvation. */
  #next(): ReadyEntry | undefined {
    const next = this.#isolation ? undefined : this.#nextWithSlot();
    if (next || this.#suspectKey !== undefined) return next;
    const isNext = ({ key, isSuspect }: ReadyEntry) => isSuspect && !this.#inFlight.has(key);
    const isWaiting = this.#isolation !== undefined || this.#queue.some(isNext);
    if (!isWaiting) return undefined;
    const mayStart = !this.#isBusy || this.#isolation?.isOver;
    const suspect = mayStart ? this.#queue.next(isNext, () => true) : undefined;
    if (suspect) return suspect;
    if (this.#queue.some(isNext)) {
      this.#isolation ??= this.#isolate(() => {});
      return undefined;
    }
    // The suspect was deleted or delivered meanwhile.
    this.#endIsolation();
    return this.#nextWithSlot();
  }

  #nextWithSlot(): ReadyEntry | undefined {
    const has = (slot: "free" | "extra") => (entry: ReadyEntry) =>
      !entry.isSuspect && !this.#inFlight.has(entry.key) && this.#slots.slotFor(entry.key) === slot;
    const isWorthLoading = (key: string) =>
      !this.#inFlight.has(key) && this.#slots.slotFor(key) !== undefined;
    const free = this.#queue.next(has("free"), isWorthLoading);
    if (free) return free;
    const extra = this.#queue[this.#nextEnd](has("extra"));
    if (extra) {
      this.#nextEnd = this.#nextEnd === "last" ? "first" : "last";
      return extra;
    }
    const waits = ({ key }: ReadyEntry) => !this.#inFlight.has(key) && this.#slots.isUnknown(key);
    if (this.#queue.some(waits)) this.#slots.preempt();
    return undefined;
  }

  #isolate(onTimeout: () => void): Isolation {
    const timer = setTimeout(() => {
      isolation.isOver = true;
      onTimeout();
      this.#startReady();
    }, ISOLATION_MS);
    const isolation = { timer, isOver: false };
    return isolation;
  }

  #endIsolation(): void {
    clearTimeout(this.#isolation?.timer);
    this.#isolation = undefined;
  }

  #load(inMemory: readonly string[]): Loaded {
    const { entries, endpoints } = this.stores;
    const now = this.loop.clock.now();
    const keys = [...inMemory, ...this.loop.paused, ...endpoints.held(now)];
    const ids = [...this.#inFlight.values()];
    return { found: entries.ready(now, this.loop.startedAt, { keys, ids }), skipped: keys };
  }

  #start(entry: ReadyEntry): void {
    const { id, key, isSuspect } = entry;
    const isAlone = isSuspect && !this.#isBusy;
    const { promise: preempted, reject: preempt } = Promise.withResolvers<never>();
    preempted.catch(() => {});
    const slot = this.#slots.take(key, preempt);
    let timer = setTimeout(() => {
      slot.isRecent = false;
      timer = setTimeout(() => {
        slot.isPreemptible = true;
        this.#startReady();
      }, PREEMPTIBLE_AFTER_MS - RAMP_UP_MS);
      this.#startReady();
    }, RAMP_UP_MS);
    if (isSuspect) this.#suspectStarted(id, key, isAlone);
    this.#inFlight.set(key, id);
    // Asynchronous, so that it is counted as in flight first: the receiver may call the outbox at once.
    const attempt = Promise.resolve()
      .then(() => this.#attempts.run(id, isAlone, preempted))
      .catch((error) => this.#pause(id, key, error))
      .finally(() => {
        clearTimeout(timer);
        this.#slots.release(slot);
        this.#inFlight.delete(key);
        if (isSuspect) this.#suspectEnded();
        this.#queue.freed(key);
        this.#startReady();
        this.#attemptEnded();
      });
    this.loop.track(slot, attempt);
  }

  #suspectStarted(id: string, key: string, isAlone: boolean): void {
    this.#endIsolation();
    this.#suspectKey = key;
    if (!isAlone) return;
    this.#isolation = this.#isolate(() => {
      this.#isolation = undefined;
      // Others start from now on, and may cause a crash as well.
      try {
        this.stores.entries.noLongerAlone(id);
      } catch (error) {
        console.error(`[perdure] it was not stored that delivery ${id} is not alone:`, error);
      }
    });
  }

  #suspectEnded(): void {
    this.#endIsolation();
    this.#suspectKey = undefined;
  }

  /** The outcome could not be stored: the entry is read again later. */
  #pause(id: string, key: string, error: unknown): void {
    this.loop.failed(key, `the outcome of delivery ${id} was not stored`, error);
    this.#queue.drop(key);
  }

  #attemptEnded(): void {
    try {
      this.#releaseWake();
      if (++this.#attemptsSincePrune < PRUNE_EVERY) return;
      this.#attemptsSincePrune = 0;
      this.#prune();
    } catch (error) {
      console.error("[perdure] the wake of the outbox could not be removed:", error);
    }
  }

  /**
   * Deletes what is no longer kept. A failure is logged, and the next call tries again.
   *
   * @param isStart dead letters are deleted by their age alone then
   */
  #prune(isStart = false): void {
    const { ended, endpoints } = this.stores;
    try {
      const now = this.loop.clock.now();
      if (!ended.isEmpty()) {
        ended.pruneKept(this.limits.kept, now);
        ended.prune(now, isStart);
      }
      endpoints.prune(now - MAX_ENDPOINT_AGE_MS);
    } catch (error) {
      console.error("[perdure] old rows of the outbox could not be deleted:", error);
    }
  }
}
