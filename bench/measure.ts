/** What a measure is, and what it is lent. */

import type { Result } from "./result.ts";
import type { Requests } from "./worker/requests.ts";

export type Measure = {
  readonly name: string;
  /** What it does, in a line. */
  readonly does: string;
  /** Whether it has counts, or sizes that cost little, which `--counts` asks for. */
  readonly hasCounts: boolean;
  run(bench: Bench): Promise<Result[]>;
};

export type Bench = {
  /** Whether counts are all that is wanted. */
  readonly onlyCounts: boolean;
  /** How many steps of one workflow are timed. */
  readonly steps: number;
  /** The worker of the bench, which starts when it is asked first. */
  readonly worker: Pick<BenchWorker, "ask">;
  /** Starts another worker, of that folder of the bench, with some of the requests. */
  start(folder: string): Promise<BenchWorker>;
};

export type BenchWorker = {
  ask: Ask;
  readonly inspectorUrl: URL;
};

export type Ask = <Name extends keyof Requests>(
  name: Name,
  ...args: Parameters<Requests[Name]> extends [unknown, infer Args] ? [Args] : []
) => Promise<Awaited<ReturnType<Requests[Name]>>>;

/** Runs them in turns, so that whatever else the machine does meets each alike: A B A B. */
export async function inTurns<Key extends string, T>(
  times: number,
  work: Readonly<Record<Key, () => Promise<T>>>,
): Promise<Record<Key, T[]>> {
  const entries = Object.entries<() => Promise<T>>(work);
  const found = Object.fromEntries(entries.map(([key]) => [key, [] as T[]])) as Record<Key, T[]>;
  for (let turn = 0; turn < times; turn++) {
    for (const [key, one] of entries) found[key as Key].push(await one());
  }
  return found;
}
