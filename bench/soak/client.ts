/** The driver's calls of the worker, over any number of its lives. */

import { setTimeout as delay } from "node:timers/promises";

const PATIENCE_MS = 20_000;
const PAUSE_MS = 250;

/** Where the worker was when a call failed. */
export type Failures = Map<string, number>;

export class Client {
  readonly #url: string;
  readonly #signal: AbortSignal;
  /** What the agents have answered instead, and how often: a kill ends a call in any way, everything else is worth a look. */
  readonly failures: Failures = new Map();
  /** While the machine is down, nobody calls: what all of them want at once would keep it from coming up. */
  isHeld = false;

  constructor(url: string, signal: AbortSignal) {
    this.#url = url;
    this.#signal = signal;
  }

  /** @throws Error when nobody answers, or with what is wrong */
  async call<T>(agent: string, verb: string, body: unknown = null): Promise<T> {
    const response = await fetch(`${this.#url}/${agent}/${verb}`, {
      method: "POST",
      body: JSON.stringify(body),
      signal: AbortSignal.any([this.#signal, AbortSignal.timeout(PATIENCE_MS)]),
    });
    const text = await response.text();
    if (response.ok) return JSON.parse(text) as T;
    // The first line: what follows is a stack, and differs.
    const [problem = ""] = text.split("\n");
    const known = `${verb}: ${response.status} ${problem.slice(0, 200)}`;
    this.failures.set(known, (this.failures.get(known) ?? 0) + 1);
    throw new Error(known);
  }

  /** Asks until it is answered, or the soak gives up. */
  async insist<T>(agent: string, verb: string, body?: unknown): Promise<T | undefined> {
    while (!this.#signal.aborted) {
      if (this.isHeld) {
        await delay(PAUSE_MS);
        continue;
      }
      try {
        return await this.call<T>(agent, verb, body);
      } catch {
        // It may have happened all the same: what is asked again has the same key.
        await delay(PAUSE_MS);
      }
    }
    return undefined;
  }
}
