/** Calls of the status hook of the app, and callers that wait for an end. In memory only. */

import { AsyncLocalStorage } from "node:async_hooks";
import { Deadlines, MAX_TIMER_MS } from "../core/clock.ts";
import { isTerminal } from "./states.ts";
import type { SubmissionInspection } from "./types.ts";

/** Calls the app's status hook for each status, in order, and then resolves the callers that wait for an end. In memory only. */
export class StatusHooks {
  readonly #waiting = new Map<string, Set<Waiter>>();
  /** Terminal submissions whose hook has not returned yet. */
  readonly #announcing = new Set<string>();
  readonly #insideHook = new AsyncLocalStorage<HookCall>();
  /** By submission: resolves when the hook has returned for all of its statuses so far. Removed then. */
  readonly #pending = new Map<string, Promise<void>>();
  #deadlines: Deadlines | undefined;

  /**
   * @param limits.hookTimeoutMs how long a call of the hook is waited for
   * @param isHooked whether the app has a hook, which is waited for
   */
  constructor(
    private readonly hook: (submission: SubmissionInspection) => Promise<void>,
    private readonly limits: { readonly hookTimeoutMs: number },
    private readonly isHooked = () => true,
  ) {}

  /** Whether the caller runs inside a hook call that has not timed out. */
  get #isInsideHook(): boolean {
    return this.#insideHook.getStore()?.hasEnded === false;
  }

  /** @throws Error inside a turn or the hook, where a wait would never end */
  checkMayWait(isInsideTurn: boolean): void {
    const where = this.#isInsideHook
      ? "onSubmissionStatus: the submission settles only after the hook returns"
      : isInsideTurn
        ? "inside an active turn: the submission runs only after this turn ends"
        : undefined;
    if (where)
      throw new Error(
        `waitForSubmission() cannot be called from ${where}. Call it elsewhere, or pass notify to submitMessages().`,
      );
  }

  /** For how many submissions the hook has not returned yet. */
  get pending(): number {
    return this.#pending.size;
  }

  /** Whether the submission has ended and the hook has not returned for its end. */
  isAnnouncing(submissionId: string): boolean {
    return this.#announcing.has(submissionId);
  }

  /** Calls the hook, for each submission in the order of its statuses, and then resolves the waiting callers. */
  announce(submission: SubmissionInspection): void {
    const { submissionId, status } = submission;
    const earlier = this.#pending.get(submissionId);
    if (!earlier && !this.isHooked()) {
      this.hook(submission).catch((error) => logFailure(submission, error));
      if (isTerminal(status)) this.#resolveWaiters(submission);
      return;
    }
    if (isTerminal(status)) this.#announcing.add(submissionId);
    const before = earlier ?? Promise.resolve();
    const notified = before.then(async () => {
      await this.#callHook(submission);
      if (this.#pending.get(submissionId) === notified) this.#pending.delete(submissionId);
      if (isTerminal(status)) this.#resolveWaiters(submission);
    });
    this.#pending.set(submissionId, notified);
  }

  /**
   * Resolves when the hook has returned for the latest status of a submission, or the signal is aborted. Inside the
   * hook it resolves at once, because the hook would wait for itself.
   */
  async whenNotified(submissionId: string, signal?: AbortSignal): Promise<void> {
    const notified = this.#pending.get(submissionId);
    if (this.#isInsideHook || notified === undefined || signal?.aborted) return;
    const aborted = new Promise<void>((resolve) => {
      signal?.addEventListener("abort", () => resolve(), { once: true });
    });
    await Promise.race([notified, aborted]);
  }

  /** Resolves at the end, or with undefined when `timeoutMs` is over first. */
  wait(submissionId: string, timeoutMs?: number): Promise<SubmissionInspection | undefined> {
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(submissionId) ?? new Set();
      this.#waiting.set(submissionId, waiting);
      const stop = () => {
        waiting.delete(waiter);
        if (waiting.size === 0) this.#waiting.delete(submissionId);
        resolve(undefined);
      };
      const timer =
        timeoutMs === undefined ? undefined : setTimeout(stop, Math.min(timeoutMs, MAX_TIMER_MS));
      const waiter: Waiter = (submission) => {
        clearTimeout(timer);
        resolve(submission);
      };
      waiting.add(waiter);
    });
  }

  /** Never fails, and never takes longer than the limit. */
  async #callHook(submission: SubmissionInspection): Promise<void> {
    const call: HookCall = { hasEnded: false };
    const returned = this.#insideHook
      .run(call, async () => this.hook(submission))
      .catch((error) => logFailure(submission, error));
    try {
      this.#deadlines ??= new Deadlines(this.limits.hookTimeoutMs);
      await this.#deadlines.within(returned);
    } catch {
      console.error(
        `[perdure] onSubmissionStatus has not returned ${aboutOf(submission)} within ${this.limits.hookTimeoutMs} ms.`,
      );
    } finally {
      call.hasEnded = true;
    }
  }

  #resolveWaiters(submission: SubmissionInspection): void {
    const { submissionId } = submission;
    this.#announcing.delete(submissionId);
    const waiting = this.#waiting.get(submissionId);
    this.#waiting.delete(submissionId);
    for (const waiter of waiting ?? []) waiter(submission);
  }
}

type Waiter = (submission: SubmissionInspection) => void;

type HookCall = { hasEnded: boolean };

function logFailure(submission: SubmissionInspection, error: unknown): void {
  console.error(`[perdure] onSubmissionStatus failed ${aboutOf(submission)}:`, error);
}

function aboutOf({ submissionId, status }: SubmissionInspection): string {
  return `for ${submissionId} (${status})`;
}
