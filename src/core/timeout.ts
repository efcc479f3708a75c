/** Time limits for promises. */

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
