/**
 * The outbox: events that committed together with what they report, delivered
 * at least once (O1, O2). It owns the delivery and its retries; it never waits
 * for a turn, and no entry waits for another entry's trouble.
 */

import {
  LifecycleCapability,
  type LifecycleJobContext,
  type LifecycleRouteContext,
} from "agents/lifecycle";
import { type Backoff, backoffMs } from "../core/backoff.ts";
import { type Clock, systemClock } from "../core/clock.ts";
import { failureOf } from "../core/failures.ts";
import { withTimeout } from "../core/timeout.ts";
import { Wake } from "../core/wake.ts";
import { OutboxStore } from "./store.ts";
import {
  type Courier,
  type DeadLetter,
  type Destination,
  type Entry,
  UndeliverableError,
} from "./types.ts";

/** Destinations that are delivered to at the same time; to each of them one entry after the other. */
const CONCURRENCY = 64;
/** Attempts before an entry becomes a dead letter: the last ones ten minutes apart, about two hours in all. */
const MAX_ATTEMPTS = 20;
const BACKOFF: Backoff = { baseMs: 1_000, capMs: 600_000 };
/** An attempt that takes longer has failed; the event may still have arrived, so the next one repeats its id. */
const ATTEMPT_TIMEOUT_MS = 30_000;

export type OutboxOptions = {
  readonly clock?: Clock;
};

export class Outbox extends LifecycleCapability {
  readonly #courier: Courier;
  readonly #clock: Clock;
  readonly #wake = new Wake(
    () => this.lifecycle,
    "perdure.outbox",
    () => this.#drive(),
  );
  /** What is being delivered, by entry id. */
  readonly #underWay = new Map<string, { destination: Destination; attempt: Promise<void> }>();
  /** Whether something may be due that could not be started: more than fits, or behind another of its destination. */
  #hasMore = false;
  #opened: OutboxStore | undefined;

  constructor(courier: Courier, { clock = systemClock }: OutboxOptions = {}) {
    super("perdure.outbox");
    this.#courier = courier;
    this.#clock = clock;
  }

  override async onStart(): Promise<void> {
    this.#store.migrate();
    if (!this.#store.isEmpty()) await this.#wake.noLaterThan(this.#clock.now());
  }

  onJob(context: LifecycleJobContext) {
    return this.#wake.onJob(context);
  }

  onJobError(context: LifecycleJobContext, error: unknown) {
    return this.#wake.onJobError(context, error);
  }

  onRoute(context: LifecycleRouteContext) {
    return this.#wake.onRoute(context);
  }

  /**
   * Stores an event for a destination. Call it inside the transaction that
   * makes the event true, and {@link flush} after that has committed (O1).
   *
   * @param id the delivery id, the same for the same event however often it is put
   */
  put(id: string, destination: Destination, payload: unknown): void {
    this.#store.put(id, destination, payload, this.#clock.now());
  }

  /**
   * Starts to deliver what has been committed, now and without waiting for it (O2).
   *
   * @param nextWake when this object is woken anyway, or null. Where that is soon enough to
   *   find what a crash would leave behind, the outbox takes no wake of its own, which saves a
   *   row and an alarm on each event; the caller keeps that wake while {@link isBusy}.
   */
  flush(nextWake: number | null = null): void {
    this.#pump();
    const backstop = this.#clock.now() + ATTEMPT_TIMEOUT_MS;
    const isCovered = nextWake !== null && nextWake <= backstop;
    if (this.isBusy && !isCovered) this.#wake.request(backstop);
  }

  /** Whether a delivery is under way. */
  get isBusy(): boolean {
    return this.#underWay.size > 0;
  }

  /** Entries given up, newest first, at most `limit` of them. */
  async deadLetters(limit = 100): Promise<DeadLetter[]> {
    await this.lifecycle.ready();
    return this.#store.dead(limit);
  }

  get #store(): OutboxStore {
    this.#opened ??= new OutboxStore(this.lifecycle.storage);
    return this.#opened;
  }

  async #drive(): Promise<number | null> {
    this.#pump();
    for (const { attempt } of this.#underWay.values()) this.lifecycle.trackAlarmWork(attempt);
    return this.#nextWake();
  }

  /** When the outbox must be woken next: for what is due, for what a crash would leave behind, never when empty (O5). */
  #nextWake(): number | null {
    const next = this.#store.nextDue(this.#busy());
    if (this.#underWay.size === 0) return next;
    const backstop = this.#clock.now() + ATTEMPT_TIMEOUT_MS;
    return next === null ? backstop : Math.min(next, backstop);
  }

  #busy(): Destination[] {
    return [...this.#underWay.values()].map(({ destination }) => destination);
  }

  #pump(): void {
    const free = CONCURRENCY - this.#underWay.size;
    const due = free > 0 ? this.#store.due(this.#clock.now(), this.#busy(), free) : [];
    this.#hasMore = this.#underWay.size > 0 || due.length === free;
    for (const entry of due) {
      const attempt = this.#attempt(entry).finally(() => {
        this.#underWay.delete(entry.id);
        if (this.#hasMore) this.#pump();
        this.#mirror();
      });
      this.#underWay.set(entry.id, { destination: entry.destination, attempt });
    }
  }

  /** Never rejects: what cannot be noted down now is found again by the next start. */
  async #attempt(entry: Entry): Promise<void> {
    try {
      await withTimeout(this.#courier(entry), ATTEMPT_TIMEOUT_MS);
      this.#store.delivered(entry.id);
    } catch (error) {
      try {
        this.#failed(entry, error);
      } catch (storageError) {
        console.error(
          `[perdure] the outcome of delivery ${entry.id} was not stored:`,
          storageError,
        );
      }
    }
  }

  /** Removes the wake when there is nothing left to wake for (O5). */
  #mirror(): void {
    if (this.#wake.armedFor !== null && this.#store.isEmpty()) this.#wake.release();
  }

  #failed(entry: Entry, error: unknown): void {
    const { message } = failureOf(error);
    const failures = entry.failures + 1;
    const now = this.#clock.now();
    if (error instanceof UndeliverableError || failures >= MAX_ATTEMPTS) {
      this.#store.bury(entry.id, message, now);
      this.lifecycle.events.emit("outbox:dead", { id: entry.id, failures, error: message });
    } else {
      const dueAt = now + backoffMs(failures, BACKOFF, this.#clock.random());
      this.#store.retryAt(entry.id, dueAt, message);
      this.#wake.request(dueAt);
    }
  }
}
