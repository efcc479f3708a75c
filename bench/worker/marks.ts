/**
 * Start and end times in the memory of the isolate, which all objects and workflows of the local runtime share. Reading them
 * does not affect the measurement. Epoch milliseconds.
 */

export type Span = { readonly from: number; readonly to: number };

/** Calls of the model, by its prompt; `to` is missing until it has answered. */
export const modelSpans = new Map<string, { from: number; to?: number }>();

/** Steps of workflows, by the instance's id, in their order. */
export const steps = new Map<string, Span[]>();

/** The ends of workflows, by the instance's id, with the error if they failed. */
export const ends = new Map<string, unknown>();

/** Waits until `find` finds something. */
export async function found<T>(find: () => T | undefined, timeoutMs = 120_000): Promise<T> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const value = find();
    if (value !== undefined) return value;
    if (Date.now() > deadline) throw new Error(`Nothing was found within ${timeoutMs} ms`);
    await sleep(2);
  }
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
