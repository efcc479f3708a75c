/** The driver's calls of the worker, across its restarts. */

import { setTimeout as delay } from "node:timers/promises";

const PATIENCE_MS = 20_000;
const PAUSE_MS = 250;
/** Restarts with much pending work take less. */
const INSIST_MS = 300_000;

/** The state of the worker when a call failed. */
export type Failures = Map<string, number>;

export class Client {
  readonly #url: string;
  readonly #signal: AbortSignal;
  /** Errors of the agents, and how often. A kill can cause any error of a call; other errors are printed. */
  readonly failures: Failures = new Map();
  /** Calls wait while the machine is down, because too many at once would slow down its start. */
  isHeld = false;

  constructor(url: string, signal: AbortSignal) {
    this.#url = url;
    this.#signal = signal;
  }

  /** @throws Error without an answer, or with the error of the answer */
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

  /**
   * Repeats the call until there is an answer, or the soak ends.
   *
   * @throws Error that the last call threw, when none had an answer for 5 minutes
   */
  async insist<T>(agent: string, verb: string, body?: unknown): Promise<T | undefined> {
    const deadline = Date.now() + INSIST_MS;
    while (!this.#signal.aborted) {
      if (this.isHeld) {
        await delay(PAUSE_MS);
        continue;
      }
      try {
        return await this.call<T>(agent, verb, body);
      } catch (error) {
        if (Date.now() > deadline) throw error;
        // The call may have had its effect. The repetition has the same key.
        await delay(PAUSE_MS);
      }
    }
    return undefined;
  }
}
