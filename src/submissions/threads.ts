/** The agent's own conversation. */
export const MAIN = "main";

/** No conversation at all: each turn of this name stands alone. */
export const ISOLATED = "isolated";

/** The prefix of the names of pools; no other thread may have such a name. */
export const POOL = `${ISOLATED}/`;

/** The thread of a batch: its turns are isolated, and at most `concurrency` of them run at a time. */
export function poolOf(batch: string, concurrency: number): string {
  return `${POOL}${concurrency}/${batch}`;
}

export function isPool(thread: string): boolean {
  return thread.startsWith(POOL);
}

/** Whether its turns belong to no conversation. */
export function isIsolated(thread: string): boolean {
  return thread === ISOLATED || isPool(thread);
}

/** The thread as callers know it: pools are `"isolated"`. */
export function publicThreadOf(thread: string): string {
  return isIsolated(thread) ? ISOLATED : thread;
}

/** How many turns of a thread may run at a time. */
export function concurrencyOf(thread: string): number {
  if (thread === ISOLATED) return Number.POSITIVE_INFINITY;
  return isPool(thread) ? Number.parseInt(thread.slice(POOL.length), 10) : 1;
}
