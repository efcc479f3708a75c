/** Work that must not be waited for too long. */

/** Longer timers fire at once: https://developer.mozilla.org/docs/Web/API/Window/setTimeout#maximum_delay_value */
export const MAX_TIMER_MS = 2_147_483_647;

/** Nothing has come in time. */
export class TimeoutError extends Error {
  override readonly name = "TimeoutError";
}

/**
 * {@link withTimeout} for many promises with the same limit, by one timer for all of them: a runtime has at most 10,000.
 */
export class Deadlines {
  /** Those that are waited for, the oldest first. */
  readonly #open = new Set<{ readonly at: number; readonly giveUp: () => void }>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly ms: number) {}

  /** @throws TimeoutError when nothing has come in time */
  async within<T>(work: Promise<T>): Promise<T> {
    const { promise: timeout, reject } = Promise.withResolvers<never>();
    const giveUp = () => reject(new TimeoutError(`No answer within ${this.ms} ms`));
    const own = { at: performance.now() + this.ms, giveUp };
    this.#open.add(own);
    this.#timer ??= setTimeout(() => this.#look(), this.ms);
    try {
      return await Promise.race([work, timeout]);
    } finally {
      this.#open.delete(own);
      if (this.#open.size === 0) this.#rest();
    }
  }

  /** A timer keeps the object in memory. */
  #rest(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #look(): void {
    this.#timer = undefined;
    const now = performance.now();
    for (const { at, giveUp } of this.#open) {
      if (at > now) {
        this.#timer = setTimeout(() => this.#look(), at - now);
        return;
      }
      giveUp();
    }
  }
}

/**
 * The same promise, or a rejection when it takes longer. The work itself goes on.
 *
 * @throws TimeoutError when nothing has come within `ms`
 */
export async function withTimeout<T>(work: Promise<T>, ms: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new TimeoutError(`No answer within ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([work, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
