/** How long to wait before the next attempt: exponential, capped, with full jitter. */

export type Backoff = {
  /** Upper bound of the first delay, in milliseconds. */
  readonly baseMs: number;
  /** Upper bound of every delay, in milliseconds. */
  readonly capMs: number;
};

/**
 * The delay after `failures` failed attempts (1 for the first).
 *
 * Full jitter, because it spreads a crowd that failed together best:
 * https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
 */
export function backoffMs(failures: number, { baseMs, capMs }: Backoff, random: number): number {
  const ceiling = Math.min(capMs, baseMs * 2 ** Math.min(failures - 1, 30));
  return Math.floor(ceiling * random);
}
