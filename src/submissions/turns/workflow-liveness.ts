/**
 * Cancels turns whose workflow was terminated without the agent's knowledge: through the dashboard or its binding, or a
 * workflow that prompts another agent. A workflow that has completed or failed is left alone: it may have left a prompt on
 * purpose (`cancelOnTimeout: false`), and can be restarted.
 */

import type { Clock } from "../../core/clock.ts";
import type { InstanceOf, WorkflowDestination } from "../../outbox/destinations/workflow-event.ts";
import type { Outbox } from "../../outbox/outbox.ts";
import type { Submission } from "../store/rows.ts";

/** Younger submissions are not checked: most turns are over sooner. */
const MIN_AGE_MS = 25_000;
/** How long an answer is reused: turns may begin every few milliseconds. */
const CHECK_EVERY_MS = 25_000;

type Running = Pick<Submission, "createdAt" | "notify" | "batch">;

export class WorkflowLiveness {
  /** When each instance was last asked about, the oldest first. */
  readonly #askedAt = new Map<string, number>();

  /**
   * @param waiterOf returns the workflow that a batch is for
   * @param cancelFor cancels everything that a workflow instance waits for
   */
  constructor(
    private readonly outbox: Pick<Outbox, "endOf">,
    private readonly clock: Pick<Clock, "now">,
    private readonly waiterOf: (batch: string) => InstanceOf | undefined,
    private readonly cancelFor: (of: InstanceOf) => Promise<void>,
  ) {}

  /** Asks in the background whether the workflows of these turns still exist. Never fails. */
  check(running: readonly Running[]): void {
    const now = this.clock.now();
    this.#forget(now);
    for (const submission of running) {
      if (now - submission.createdAt < MIN_AGE_MS) continue;
      const waiter = this.#waiterFor(submission);
      const id = JSON.stringify([waiter?.workflow, waiter?.instance]);
      if (!waiter || this.#askedAt.has(id)) continue;
      this.#askedAt.set(id, now);
      void this.#ask(waiter);
    }
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
    const waiter = batch === undefined ? undefined : this.waiterOf(batch);
    return waiter && { ...waiter, kind: "workflow", eventType: "none" };
  }

  async #ask(to: WorkflowDestination): Promise<void> {
    // Without an answer, the next check asks again.
    const isGone = (await this.outbox.endOf(to).catch(() => null)) === "gone";
    if (!isGone) return;
    try {
      await this.cancelFor(to);
    } catch (error) {
      console.error("[perdure] turns of a terminated workflow could not be cancelled:", error);
    }
  }
}
