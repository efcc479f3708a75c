/** Lets one request at a time work on an arrival, and a bounded number on all. Only in memory: a crash ends all of them. */

import { AsyncLocalStorage } from "node:async_hooks";
import { TimeoutError, withTimeout } from "../../core/clock.ts";
import { InboundBusyError } from "./errors.ts";

/** How long a request waits for an earlier one of the same arrival. */
const WAIT_MS = 60_000;
/** How long a request counts: a method of the app that never ends must not keep the place of other arrivals. */
const COUNTED_MS = 60_000;
/** Requests that have not ended, as a multiple of those that count. */
const MOST_UNENDED = 10;

type Holder = { readonly key: string; isRunning: boolean };

export class Serial {
  /** By key: resolves when the last request that was let in has ended. */
  readonly #tails = new Map<string, Promise<void>>();
  readonly #holder = new AsyncLocalStorage<Holder>();
  #count = 0;

  constructor(
    private readonly max: number,
    private readonly countedMs = COUNTED_MS,
  ) {}

  /** @throws InboundBusyError before the work starts */
  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const outer = this.#holder.getStore();
    if (outer?.isRunning && outer.key === key) {
      throw new InboundBusyError(
        "This arrival is being accepted by the caller itself. Replay it when the call has returned.",
      );
    }
    if (this.#count >= this.max || this.#tails.size >= this.max * MOST_UNENDED) {
      throw new InboundBusyError(
        `${this.#tails.size} arrivals are being accepted, and maxInFlight is ${this.max}. Send it again later.`,
      );
    }
    const uncount = this.#countFor(this.countedMs);
    const holder = { key, isRunning: true };
    const previous = this.#tails.get(key);
    const { promise: done, resolve } = Promise.withResolvers<void>();
    const tail = previous ? previous.then(() => done) : done;
    this.#tails.set(key, tail);
    void tail.then(() => {
      if (this.#tails.get(key) === tail) this.#tails.delete(key);
    });
    try {
      if (previous) await withTimeout(previous, WAIT_MS);
      return await this.#holder.run(holder, work);
    } catch (error) {
      if (!(error instanceof TimeoutError) || previous === undefined) throw error;
      throw new InboundBusyError(
        `An earlier request of this arrival has not ended within ${WAIT_MS / 1_000} s. Send it again later.`,
      );
    } finally {
      holder.isRunning = false;
      uncount();
      resolve();
    }
  }

  /** @returns what ends the count before its time */
  #countFor(ms: number): () => void {
    this.#count++;
    let isCounted = true;
    const uncount = () => {
      if (isCounted) this.#count--;
      isCounted = false;
      clearTimeout(timer);
    };
    const timer = setTimeout(uncount, ms);
    return uncount;
  }
}
