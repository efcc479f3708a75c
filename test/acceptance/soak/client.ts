/** The driver's calls of the worker, across its restarts. */

import { setTimeout as delay } from "node:timers/promises";

const PATIENCE_MS = 20_000;
const PAUSE_MS = 250;
/** Restarts with much pending work take less. */
const INSIST_MS = 300_000;

/** Errors of calls, and how often each came. */
export type Failures = Map<string, number>;

export class Client {
  readonly #url: string;
  readonly #signal: AbortSignal;
  /** A kill can cause any error of a call; the report prints them where there are findings. */
  readonly failures: Failures = new Map();
  /** Calls wait while the machine is down, because too many at once would slow down its start. */
  isHeld = false;

  constructor(url: string, signal: AbortSignal) {
    this.#url = url;
    this.#signal = signal;
  }

  /** @throws Error without an answer, or with the error of the answer */
  async call<T>(agent: string, verb: string, body: unknown = null): Promise<T> {
    const text = await this.post(`call/${agent}/${verb}`, JSON.stringify(body));
    return JSON.parse(text) as T;
  }

  /** Repeats a call until it has an answer, see {@link insist}. */
  async insistOn<T>(agent: string, verb: string, body?: unknown): Promise<T | undefined> {
    return this.insist(() => this.call<T>(agent, verb, body));
  }

  /** An action on workflows; returns the platform's status of each. */
  async onWorkflows(action: string, ids: readonly string[]): Promise<Record<string, string>> {
    const answer = await this.insist(() => this.post(`workflows/${action}`, JSON.stringify(ids)));
    return answer === undefined ? {} : JSON.parse(answer);
  }

  /** @throws Error without an answer, or for a status other than 2xx */
  async post(path: string, body: string, headers: Record<string, string> = {}): Promise<string> {
    const response = await fetch(`${this.#url}/${path}`, {
      ...{ method: "POST", body, headers },
      signal: AbortSignal.any([this.#signal, AbortSignal.timeout(PATIENCE_MS)]),
    });
    const text = await response.text();
    if (response.ok) return text;
    throw this.#failure(path.split("/").at(-1), response.status, text);
  }

  /** @throws Error if the stream cannot be opened */
  async open(path: string, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
    const either = AbortSignal.any([this.#signal, signal]);
    const response = await fetch(`${this.#url}/${path}`, { signal: either });
    if (response.ok && response.body) return response.body;
    throw this.#failure("follow", response.status, await response.text());
  }

  #failure(verb: string | undefined, status: number, text: string): Error {
    // The first line: what follows is a stack, and differs.
    const [problem = ""] = text.split("\n");
    const known = `${verb}: ${status} ${problem.slice(0, 200)}`;
    this.failures.set(known, (this.failures.get(known) ?? 0) + 1);
    return new Error(known);
  }

  /**
   * Repeats the call until there is an answer, or the soak ends.
   *
   * @throws Error that the last call threw, when none had an answer for 5 minutes
   */
  async insist<T>(call: () => Promise<T>): Promise<T | undefined> {
    const deadline = performance.now() + INSIST_MS;
    while (!this.#signal.aborted) {
      if (this.isHeld) {
        await delay(PAUSE_MS);
        continue;
      }
      try {
        return await call();
      } catch (error) {
        if (performance.now() > deadline) throw error;
        // The call may have had its effect. The repetition has the same key.
        await delay(PAUSE_MS);
      }
    }
    return undefined;
  }
}
