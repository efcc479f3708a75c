/**
 * Finds workflows that were terminated without the agent's knowledge: through the dashboard or their binding, or one that prompts
 * another agent. A workflow that has completed or failed is left alone: it may have left a prompt on purpose
 * (`cancelOnTimeout: false`), and can be restarted.
 */

import type { Clock } from "../../core/clock.ts";
import type { InstanceOf, WorkflowDestination } from "../../outbox/destinations/workflow-event.ts";
import type { Outbox } from "../../outbox/outbox.ts";
import type { Submission } from "../store/rows.ts";
import type { SubmissionStore } from "../store/store.ts";

/** Younger submissions are not checked: most turns are over sooner. */
const MIN_AGE_MS = 25_000;
/** How long an answer is reused: turns may begin every few milliseconds. */
const CHECK_EVERY_MS = 25_000;

type Running = Pick<Submission, "createdAt" | "notify" | "batch">;

export class WorkflowLiveness {
  /** When each instance was last asked about, the oldest first. */
  readonly #askedAt = new Map<string, number>();

  constructor(
    private readonly store: { readonly batches: Pick<SubmissionStore["batches"], "waiterOf"> },
    private readonly outbox: Pick<Outbox, "endOf">,
    private readonly clock: Pick<Clock, "now">,
  ) {}

  /** Asks the platform for the workflows that wait for these turns. Each promise resolves with one that is gone, or undefined. */
  findGone(running: readonly Running[]): Promise<InstanceOf | undefined>[] {
    const now = this.clock.now();
    this.#forget(now);
    return running.flatMap((submission) => {
      if (now - submission.createdAt < MIN_AGE_MS) return [];
      const waiter = this.#waiterFor(submission);
      const id = JSON.stringify([waiter?.workflow, waiter?.instance]);
      if (!waiter || this.#askedAt.has(id)) return [];
      this.#askedAt.set(id, now);
      // Without an answer, the next check asks again.
      const end = this.outbox.endOf(waiter).catch(() => null);
      return end.then((found) => (found === "gone" ? waiter : undefined));
    });
  }

  #forget(now: number): void {
    for (const [id, askedAt] of this.#askedAt) {
      // A clock that was set back must not keep an answer for longer.
      if (Math.abs(now - askedAt) < CHECK_EVERY_MS) break;
      this.#askedAt.delete(id);
    }
  }

  /** The workflow, unless another destination is notified of the end as well. */
  #waiterFor({ notify, batch }: Running): WorkflowDestination | undefined {
    const [to, ...others] = notify;
    if (to) return to.kind === "workflow" && others.length === 0 ? to : undefined;
    const waiter = batch === undefined ? undefined : this.store.batches.waiterOf(batch);
    return waiter && { ...waiter, kind: "workflow", eventType: "none" };
  }
}
