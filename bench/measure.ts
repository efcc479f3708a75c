/** A measure, and the tools that it gets. */

import type { Result } from "./result.ts";
import type { RowRequests } from "./rows/requests.ts";
import type { Requests as WorkerRequests } from "./worker/requests.ts";

export type Measure = {
  readonly name: string;
  /** A description in one line. */
  readonly does: string;
  /** Whether it has counts or fast sizes, for `--counts`. */
  readonly hasCounts: boolean;
  /** Too long for a whole run: it needs `--only`. */
  readonly isOnlyByName?: boolean;
  run(bench: Bench): Promise<Result[]>;
};

export type Bench = {
  /** Whether only counts are requested. */
  readonly onlyCounts: boolean;
  /** The number of timed steps of one workflow. */
  readonly steps: number;
  /** The number of ended submissions that lists are read over. */
  readonly ended: number;
  /** The worker of the bench, which starts at the first request. */
  readonly worker: Pick<BenchWorker, "ask">;
  /** Starts another worker, of that folder of the bench, with some of the requests. */
  start(folder: string): Promise<BenchWorker>;
};

export type BenchWorker = {
  ask: Ask;
  readonly inspectorUrl: URL;
};

type Requests = WorkerRequests & RowRequests;

export type Ask = <Name extends keyof Requests>(
  name: Name,
  ...args: Parameters<Requests[Name]> extends [unknown, infer Args] ? [Args] : []
) => Promise<Awaited<ReturnType<Requests[Name]>>>;

/** Runs them alternately (A B A B), so that other load on the machine affects both. */
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
