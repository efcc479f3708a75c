/**
 * Keeps the outbox going: what was put is delivered, the app is told of what
 * was given up, and a wake comes as long as anything waits. Joins the parts;
 * each of them does one thing.
 */

import type { LifecycleServices } from "agents/lifecycle";
import type { Clock } from "../core/clock.ts";
import { type Problem, reportProblem } from "../core/problems.ts";
import { Wake } from "../core/wake.ts";
import { DeadLetterNotifier, type NotifierOwner } from "./delivery/dead-letter-notifier.ts";
import { BACKSTOP_MS, Deliveries, type DeliveriesOwner } from "./delivery/dispatcher.ts";
import { isOrdered } from "./delivery/policy.ts";
import type { Adapters } from "./destinations/destinations.ts";
import { addressOf, hostOf } from "./destinations/private-hosts.ts";
import { OutboxFullError } from "./errors.ts";
import type { OutboxLimits, OutboxSettings } from "./options.ts";
import { DeadLetters } from "./store/dead-letters.ts";
import { Delivered } from "./store/delivered.ts";
import { Endpoints } from "./store/endpoints.ts";
import { type Entry, OutboxStore } from "./store/entries.ts";
import type { DeadLetter, Destination, Endpoint } from "./types.ts";

/** Deliveries between two looks at what of the delivered ones can go. */
const PRUNE_EVERY = 64;
/** An endpoint that has failed for so long, and for which nothing waits, is not of interest any more. */
const ENDPOINT_AGE_MS = 30 * 86_400_000;

export type EngineOwner = {
  /** The object that the outbox belongs to. */
  readonly host: object;
  readonly clock: Clock;
  readonly limits: OutboxLimits;
  readonly adapters: Adapters;
  readonly onDeadLetter: OutboxSettings["onDeadLetter"];
  readonly onProblem: OutboxSettings["onProblem"];
  /** Given when the outbox is installed, which is later than its construction. */
  readonly lifecycle: () => LifecycleServices;
};

/** All that is kept in storage. */
type Stores = {
  readonly store: OutboxStore;
  readonly deadLetters: DeadLetters;
  readonly endpoints: Endpoints;
  readonly delivered: Delivered;
};

export class Engine implements DeliveriesOwner, NotifierOwner {
  readonly clock: Clock;
  readonly limits: OutboxLimits;
  readonly adapters: Adapters;
  readonly wake: Wake;
  readonly #deliveries: Deliveries;
  readonly #telling: DeadLetterNotifier;
  readonly #host: object;
  readonly #onDeadLetter: EngineOwner["onDeadLetter"];
  readonly #onProblem: EngineOwner["onProblem"];
  readonly #lifecycle: EngineOwner["lifecycle"];
  #stores: Stores | undefined;
  #hasWarned = false;
  #hasStarted = false;
  #isPutting = false;
  #sincePrune = 0;

  constructor({ host, clock, limits, adapters, onDeadLetter, onProblem, lifecycle }: EngineOwner) {
    this.#host = host;
    this.clock = clock;
    this.limits = limits;
    this.adapters = adapters;
    this.#onDeadLetter = onDeadLetter;
    this.#onProblem = onProblem;
    this.#lifecycle = lifecycle;
    this.wake = new Wake(lifecycle, "perdure.outbox", () => this.#drive(), clock);
    this.#deliveries = new Deliveries(this);
    this.#telling = new DeadLetterNotifier(this);
  }

  get store(): OutboxStore {
    return this.#open().store;
  }

  get deadLetters(): DeadLetters {
    return this.#open().deadLetters;
  }

  get endpoints(): Endpoints {
    return this.#open().endpoints;
  }

  get sender(): string | undefined {
    const { name } = this.#host as { name?: unknown };
    return typeof name === "string" ? name : undefined;
  }

  /** Whether a delivery is under way. */
  get isBusy(): boolean {
    return this.#deliveries.isBusy;
  }

  /** The object has started: makes sure of a wake if an earlier life has left anything. */
  async start(): Promise<void> {
    const { store, deadLetters } = this.#open();
    this.#hasStarted = true;
    this.#prune();
    const hasWork = !store.isEmpty() || deadLetters.untold() !== undefined;
    if (hasWork) await this.wake.noLaterThan(this.clock.now());
  }

  /**
   * Stores an entry; {@link flush} is to follow when that has committed.
   *
   * @param mayRefuse whether the caller can do without, when too many wait
   * @throws OutboxFullError
   */
  put(id: string, destination: Destination, payload: string, mayRefuse: boolean): void {
    const waiting = this.store.full(this.limits.maxWaiting);
    if (waiting !== undefined) this.#full(id, waiting, mayRefuse);
    const key = this.adapters.lineOf(destination);
    const mustWait = isOrdered(destination.policy, this.limits.policy);
    const entry = { id, key, destination, payload, isOrdered: mustWait };
    const isNew = this.store.put(entry, this.clock.now());
    if (isNew) this.#deliveries.added({ id, key, isSuspect: false }, mustWait);
  }

  /** Whoever ends something must not fail because of those that are told of it; what has ended before is bounded elsewhere. */
  #full(id: string, waiting: number, mayRefuse: boolean): void {
    const { maxWaiting } = this.limits;
    // Put again, it stays as it is.
    if (this.store.has(id)) return;
    const refused = mayRefuse ? new OutboxFullError(waiting, maxWaiting) : undefined;
    if (!this.#hasWarned) {
      this.#hasWarned = true;
      const message =
        refused?.message ??
        `${waiting} entries wait in the outbox, and maxWaiting is ${maxWaiting}; those of submissions that end are stored all the same`;
      const ids = { waiting, maxWaiting };
      this.#problem({ type: "outbox:full", level: "error", message, ids });
    }
    if (refused) throw refused;
  }

  /** {@link flush}, once the code that puts has come to its end. */
  flushSoon(): void {
    if (this.#isPutting) return;
    this.#isPutting = true;
    queueMicrotask(() => {
      this.#isPutting = false;
      if (this.#hasStarted) this.flush(null);
      else this.#startAndFlush();
    });
  }

  /** A method can be called over RPC before its object has started: the start comes now. */
  #startAndFlush(): void {
    if (this.store.isEmpty()) return;
    this.wake.request(this.clock.now() + BACKSTOP_MS);
    const started = this.#lifecycle().ready();
    started.then(
      () => this.flush(null),
      (error) => {
        console.error("[perdure] what was put waits for the next start, because of:", error);
      },
    );
  }

  /**
   * Begins to deliver what has been put.
   *
   * @param nextWake when the object is woken anyway, or null
   */
  flush(nextWake: number | null): void {
    const now = this.clock.now();
    const { armedFor } = this.wake;
    // A wake that is late has something to do, which need not wait for it.
    if (armedFor !== null && armedFor <= now) this.#deliveries.reorder();
    this.#deliveries.proceed();
    const backstop = now + BACKSTOP_MS;
    const isCovered = nextWake !== null && nextWake <= backstop;
    if (this.isBusy && !isCovered) this.wake.request(backstop);
    // What was put for an endpoint that wants to be left alone begins then.
    const released = this.endpoints.nextRelease(now);
    if (released !== null && !this.store.isEmpty()) this.wake.request(released);
  }

  /** {@link flush} of what was not put now but comes again, or comes to its end. */
  flushAgain(): void {
    this.store.countAgain();
    this.#deliveries.reorder();
    this.flush(null);
  }

  /** An endpoint was enabled by hand. */
  enabled(key: string): void {
    this.#deliveries.enabled(key);
  }

  readonly wakeAt = (time: number): void => this.wake.request(time);

  readonly adapterOf = (destination: Destination) => this.adapters.of(destination);

  /** An attempt is over. */
  readonly settled = (): void => {
    try {
      this.done();
      if (++this.#sincePrune < PRUNE_EVERY) return;
      this.#sincePrune = 0;
      this.#prune();
    } catch (error) {
      console.error("[perdure] the wake of the outbox could not be removed:", error);
    }
  };

  /** What is not deleted now is found the next time. */
  #prune(): void {
    try {
      const now = this.clock.now();
      const { delivered, deadLetters, endpoints } = this.#open();
      delivered.prune(now);
      deadLetters.prune(now);
      endpoints.prune(now - ENDPOINT_AGE_MS);
    } catch (error) {
      console.error("[perdure] the outbox could not be tidied up:", error);
    }
  }

  /** Removes the wake when there is nothing left to wake for (O5). */
  readonly done = (): void => {
    // What is under way is a row still.
    if (this.wake.armedFor === null || this.#telling.isUnderWay || this.isBusy) return;
    if (this.store.isEmpty() && !this.deadLetters.untold()) this.wake.release();
  };

  /** Somebody is to be told of dead letters, in the next life if not in this one (O3). */
  readonly died = (): void => {
    this.wake.request(this.clock.now() + BACKSTOP_MS);
    this.#telling.start();
  };

  /** The app has been told of a letter, which need not be kept for that any more. */
  readonly told = (letter: DeadLetter): void => {
    this.deadLetters.told(letter);
    this.deadLetters.prune(this.clock.now());
  };

  readonly tell = async (letter: DeadLetter): Promise<void> => {
    const { id, destination, attempts, lastError: error } = letter;
    const { events, runInHostContext } = this.#lifecycle();
    events.emit("outbox:dead", { id, kind: destination.kind, attempts, error });
    const ids = { id, kind: destination.kind, to: addressOf(destination), attempts };
    this.#problem({ type: "outbox:dead", level: "error", message: error, ids });
    await runInHostContext(async () => this.#onDeadLetter?.(letter));
  };

  readonly attempting = (entry: Entry): void => this.#report("outbox:attempt", entry);

  readonly taken = (entry: Entry): void => this.#report("outbox:delivered", entry);

  readonly discarding = ({ id, attempt, destination }: Entry, reason: string): void => {
    const { events } = this.#lifecycle();
    events.emit("outbox:discarded", { id, attempt, kind: destination.kind, reason });
  };

  /** @param reason why it is not healthy */
  readonly changed = (url: string, state: Endpoint["state"], reason?: string): void => {
    this.#lifecycle().events.emit("outbox:endpoint", { url, state });
    const level = state === "disabled" ? "error" : "warn";
    const message = reason === undefined ? "The endpoint has recovered" : reason;
    const ids = { endpoint: hostOf(url), state };
    this.#problem({ type: "outbox:endpoint", level, message, ids });
  };

  #problem(problem: Problem): void {
    reportProblem(this.#onProblem, problem, this.#lifecycle().runInHostContext);
  }

  #report(type: string, { id, attempt, destination: { kind } }: Entry): void {
    this.#lifecycle().events.emit(type, { id, attempt, kind });
  }

  async #drive(): Promise<number | null> {
    this.#deliveries.deliver();
    this.#telling.start();
    const work = Promise.all([this.#deliveries.work, this.#telling.work]);
    this.#lifecycle().trackAlarmWork(work);
    const next = this.#deliveries.nextWake();
    if (!this.#telling.isUnderWay) return next;
    return Math.min(next ?? Number.POSITIVE_INFINITY, this.clock.now() + BACKSTOP_MS);
  }

  #open(): Stores {
    const { storage } = this.#lifecycle();
    this.#stores ??= {
      store: new OutboxStore(storage),
      deadLetters: new DeadLetters(storage, this.limits.deadLetters),
      endpoints: new Endpoints(storage.sql),
      delivered: new Delivered(storage, this.limits.kept),
    };
    // Before the start, whoever opened it first may have been rolled back, and the tables with it.
    if (!this.#hasStarted) this.#stores.store.migrate();
    return this.#stores;
  }
}
