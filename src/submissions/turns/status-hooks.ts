/**
 * Callers that wait for an end, and the app's status hook before them. In
 * memory only: whoever waits across a restart asks again, the ledger knows.
 */

import { AsyncLocalStorage } from "node:async_hooks";
import type { LifecycleServices } from "agents/lifecycle";
import { Deadlines, MAX_TIMER_MS } from "../../core/timeout.ts";
import type { TurnHost } from "../host.ts";
import { isTerminal } from "../states.ts";
import type { SubmissionInspection } from "../types.ts";

type Waiter = (submission: SubmissionInspection) => void;
type HookCall = { hasEnded: boolean };

export type WaitersOwner = {
  /** Calls the app's hook. */
  readonly hook: (submission: SubmissionInspection) => Promise<void>;
  /** How long a call of it is waited for. */
  readonly hookTimeoutMs: number;
};

/** Tells the app of a status: by events, and by its hook, which sees the request that has changed the status. */
export function tellApp(
  submission: SubmissionInspection,
  host: Pick<TurnHost, "onStatus" | "isInHostContext">,
  { events, runInHostContext }: LifecycleServices,
): Promise<void> {
  const { submissionId, requestId, status, error } = submission;
  events.emit("submission:status", { submissionId, requestId, status });
  if (status === "error") events.emit("submission:error", { submissionId, requestId, error });
  const hook = () => host.onStatus(submission);
  return host.isInHostContext() ? hook() : (runInHostContext(hook) as Promise<void>);
}

export class Waiters {
  readonly #waiting = new Map<string, Set<Waiter>>();
  /** Terminal submissions whose hook has not returned yet. */
  readonly #announcing = new Set<string>();
  readonly #insideHook = new AsyncLocalStorage<HookCall>();
  /** By submission, what resolves when the hook has returned for all of its statuses so far; gone when it has. */
  readonly #telling = new Map<string, Promise<void>>();

  readonly #deadlines: Deadlines;

  constructor(private readonly owner: WaitersOwner) {
    this.#deadlines = new Deadlines(owner.hookTimeoutMs);
  }

  /** Whether the caller runs inside a call of the status hook that is waited for. */
  get isInsideHook(): boolean {
    return this.#insideHook.getStore()?.hasEnded === false;
  }

  /** @throws Error where the wait could never end */
  refuseToWaitForItself(isInsideTurn: boolean): void {
    const where = this.isInsideHook
      ? "onSubmissionStatus: the submission settles only after the hook returns"
      : isInsideTurn
        ? "inside an active turn: the submission runs only after this turn ends"
        : undefined;
    if (where) throw new Error(`waitForSubmission() cannot be called from ${where}.`);
  }

  /** For how many submissions the hook has not returned yet. */
  get underWay(): number {
    return this.#telling.size;
  }

  /** Whether an end has been written that the app has not been told of yet. */
  isAnnouncing(submissionId: string): boolean {
    return this.#announcing.has(submissionId);
  }

  /** Tells the app, for each submission in the order of its statuses, and then whoever waits. */
  announce(submission: SubmissionInspection): void {
    const { submissionId, status } = submission;
    if (isTerminal(status)) this.#announcing.add(submissionId);
    const before = this.#telling.get(submissionId) ?? Promise.resolve();
    const telling = before.then(async () => {
      await this.#tell(submission);
      if (this.#telling.get(submissionId) === telling) this.#telling.delete(submissionId);
      if (isTerminal(status)) this.#settled(submission);
    });
    this.#telling.set(submissionId, telling);
  }

  /**
   * Resolves when the hook has returned for the latest status of a submission, or the signal is aborted. Inside the
   * hook, which would wait for itself, it resolves at once.
   */
  async told(submissionId: string, signal?: AbortSignal): Promise<void> {
    const telling = this.#telling.get(submissionId);
    if (this.isInsideHook || telling === undefined || signal?.aborted) return;
    const aborted = new Promise<void>((resolve) => {
      signal?.addEventListener("abort", () => resolve(), { once: true });
    });
    await Promise.race([telling, aborted]);
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

  /** Never fails, and never takes longer than the limit: what the hook does after that changes nothing here. */
  async #tell(submission: SubmissionInspection): Promise<void> {
    const { submissionId, status } = submission;
    const { hook, hookTimeoutMs } = this.owner;
    const call: HookCall = { hasEnded: false };
    const returned = this.#insideHook
      .run(call, async () => hook(submission))
      .catch((error) => {
        console.error(
          `[perdure] onSubmissionStatus failed for ${submissionId} (${status}):`,
          error,
        );
      });
    try {
      await this.#deadlines.within(returned);
    } catch {
      console.error(
        `[perdure] onSubmissionStatus has not returned for ${submissionId} (${status}) within ${hookTimeoutMs} ms, ` +
          "and is not waited for any longer.",
      );
    } finally {
      call.hasEnded = true;
    }
  }

  #settled(submission: SubmissionInspection): void {
    const { submissionId } = submission;
    this.#announcing.delete(submissionId);
    const waiting = this.#waiting.get(submissionId);
    this.#waiting.delete(submissionId);
    for (const waiter of waiting ?? []) waiter(submission);
  }
}
