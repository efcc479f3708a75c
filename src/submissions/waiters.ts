/**
 * Callers that wait for an end, and the app's status hook before them. In
 * memory only: whoever waits across a restart asks again, the ledger knows.
 */

import { AsyncLocalStorage } from "node:async_hooks";
import { MAX_TIMER_MS } from "../core/timeout.ts";
import { isTerminal } from "./states.ts";
import type { SubmissionInspection } from "./types.ts";

type Waiter = (submission: SubmissionInspection) => void;

export class Waiters {
  readonly #waiting = new Map<string, Set<Waiter>>();
  /** Terminal submissions whose hook has not returned yet. */
  readonly #announcing = new Set<string>();
  readonly #insideHook = new AsyncLocalStorage<true>();
  #last: Promise<void> = Promise.resolve();

  constructor(private readonly hook: (submission: SubmissionInspection) => Promise<void>) {}

  /** Whether the caller runs inside the status hook. */
  get isInsideHook(): boolean {
    return this.#insideHook.getStore() === true;
  }

  /** Whether an end has been written that the app has not been told of yet. */
  isAnnouncing(submissionId: string): boolean {
    return this.#announcing.has(submissionId);
  }

  /** Tells the app, in the order of the changes, and then whoever waits. */
  announce(submission: SubmissionInspection): void {
    const { submissionId, status } = submission;
    if (isTerminal(status)) this.#announcing.add(submissionId);
    this.#last = this.#last.then(async () => {
      try {
        await this.#insideHook.run(true, () => this.hook(submission));
      } catch (error) {
        console.error(
          `[perdure] onSubmissionStatus failed for ${submissionId} (${status}):`,
          error,
        );
      }
      if (isTerminal(status)) this.#settled(submission);
    });
  }

  /** Resolves at the end, or with undefined when `timeoutMs` is over first. */
  wait(submissionId: string, timeoutMs?: number): Promise<SubmissionInspection | undefined> {
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(submissionId) ?? new Set();
      this.#waiting.set(submissionId, waiting);
      const timer =
        timeoutMs === undefined
          ? undefined
          : setTimeout(
              () => {
                waiting.delete(waiter);
                if (waiting.size === 0) this.#waiting.delete(submissionId);
                resolve(undefined);
              },
              Math.min(timeoutMs, MAX_TIMER_MS),
            );
      const waiter: Waiter = (submission) => {
        clearTimeout(timer);
        resolve(submission);
      };
      waiting.add(waiter);
    });
  }

  #settled(submission: SubmissionInspection): void {
    const { submissionId } = submission;
    this.#announcing.delete(submissionId);
    const waiting = this.#waiting.get(submissionId);
    this.#waiting.delete(submissionId);
    for (const waiter of waiting ?? []) waiter(submission);
  }
}
