/** Work that must not be waited for too long. */

/** Longer timers fire at once: https://developer.mozilla.org/docs/Web/API/Window/setTimeout#maximum_delay_value */
export const MAX_TIMER_MS = 2_147_483_647;

/** Nothing has come in time. */
export class TimeoutError extends Error {
  override readonly name = "TimeoutError";
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
