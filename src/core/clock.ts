/** The clock, the source of randomness, and time limits. Decisions take the first two as an argument, so that tests control both. */

export type Clock = {
  /** The current time, epoch milliseconds. */
  readonly now: () => number;
  /** A number in [0, 1). */
  readonly random: () => number;
};

/** The latest time of an alarm on the platform, epoch milliseconds. */
export const LAST_ALARM = Date.UTC(2189, 0, 1);

/** A clock that is monotonic: it never returns less than before, even if the machine's clock is set back. */
export function monotonic({ now, random }: Clock): Clock {
  let latest = Number.NEGATIVE_INFINITY;
  return {
    now: () => {
      latest = Math.max(latest, now());
      return latest;
    },
    random,
  };
}

/** The earliest of these times, or null where there is none. */
export function earliest(times: Iterable<number | null>): number | null {
  let first: number | null = null;
  for (const time of times) if (time !== null && (first === null || time < first)) first = time;
  return first;
}

export const systemClock: Clock = { now: () => Date.now(), random: () => Math.random() };

/** Longer timers fire at once: https://developer.mozilla.org/docs/Web/API/Window/setTimeout#maximum_delay_value */
export const MAX_TIMER_MS = 2_147_483_647;

export class TimeoutError extends Error {
  override readonly name = "TimeoutError";
}

/** {@link withTimeout} for many promises with the same limit. Uses one timer for all: a runtime has at most 10,000 timers. */
export class Deadlines {
  /** Pending promises, oldest first. */
  readonly #open = new Set<{ readonly at: number; readonly expire: () => void }>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly ms: number) {}

  /** @throws TimeoutError when the promise has not settled within the limit */
  async within<T>(work: Promise<T>): Promise<T> {
    const { promise: timeout, reject } = Promise.withResolvers<never>();
    const expire = () => reject(new TimeoutError(`No answer within ${this.ms} ms`));
    const own = { at: performance.now() + this.ms, expire };
    this.#open.add(own);
    this.#timer ??= setTimeout(() => this.#expire(), this.ms);
    try {
      return await Promise.race([work, timeout]);
    } finally {
      this.#open.delete(own);
      // Without pending promises there is no timer, because a timer keeps the object in memory.
      if (this.#open.size === 0) {
        clearTimeout(this.#timer);
        this.#timer = undefined;
      }
    }
  }

  #expire(): void {
    this.#timer = undefined;
    const now = performance.now();
    for (const { at, expire } of this.#open) {
      if (at > now) {
        this.#timer = setTimeout(() => this.#expire(), at - now);
        return;
      }
      expire();
    }
  }
}

/** Rejects with a TimeoutError when a promise takes longer than `ms`. The work itself continues. */
export function withTimeout<T>(work: Promise<T>, ms: number): Promise<T> {
  return new Deadlines(ms).within(work);
}

/** The same promise, or a rejection with the signal's reason; the work itself continues. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  signal.addEventListener("abort", () => reject(signal.reason));
  if (signal.aborted) reject(signal.reason);
  return Promise.race([aborted, work]);
}
