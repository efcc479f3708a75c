/**
 * Whether anybody still waits for what runs. A workflow can be terminated
 * where its agent does not see it (the dashboard, its binding), and one that
 * prompts another agent always is: its turns are cancelled here (W5). It
 * looks, and writes nothing. One that has completed or failed may have left a
 * prompt on purpose (`cancelOnTimeout: false`), and can be restarted.
 */

import type { Destination, InstanceOf, WorkflowDestination } from "../../outbox/types.ts";
import type { Submission } from "../store/rows.ts";

/** How old a submission is before anybody asks for its workflow: a shorter turn is over sooner than that is of use. */
const PATIENCE_MS = 25_000;
/**
 * How often all that run are looked at, and how long an answer is used again: while something is left to recover, the
 * object wakes every other second, and the next turn of a large batch may begin every few milliseconds.
 */
const LOOK_EVERY_MS = 25_000;

export type LivenessOwner = {
  readonly outbox: { isGone(destination: Destination): Promise<boolean> };
  readonly clock: { now(): number };
  /** The workflow that a batch is for. */
  waiterOf(batch: string): InstanceOf | undefined;
  /** Cancels whatever that instance of a workflow waits for. */
  cancelFor(of: InstanceOf): Promise<void>;
};

type Running = Pick<Submission, "createdAt" | "notify" | "batch">;

export class WorkflowLiveness {
  #lookedAt = Number.NEGATIVE_INFINITY;
  /** When an instance was asked for last, the oldest first. */
  readonly #askedAt = new Map<string, number>();

  constructor(private readonly owner: LivenessOwner) {}

  /** {@link look} at all that run, unless that was done shortly before. */
  lookAtAll(running: () => readonly Submission[]): void {
    const now = this.owner.clock.now();
    if (now - this.#lookedAt < LOOK_EVERY_MS) return;
    this.#lookedAt = now;
    this.look(running());
  }

  /** Asks for the workflows that these are for, in the background. Never fails. */
  look(running: readonly Running[]): void {
    const now = this.owner.clock.now();
    this.#forget(now);
    for (const submission of running) {
      if (now - submission.createdAt < PATIENCE_MS) continue;
      const waiter = this.#waiterOf(submission);
      const id = JSON.stringify([waiter?.workflow, waiter?.instance]);
      if (!waiter || this.#askedAt.has(id)) continue;
      this.#askedAt.set(id, now);
      void this.#ask(waiter);
    }
  }

  #forget(now: number): void {
    for (const [id, askedAt] of this.#askedAt) {
      // A clock that was set back must not keep an answer for longer.
      if (Math.abs(now - askedAt) < LOOK_EVERY_MS) break;
      this.#askedAt.delete(id);
    }
  }

  /** The workflow, where nobody else is told of the end, who may want it all the same. */
  #waiterOf({ notify, batch }: Running): WorkflowDestination | undefined {
    const [to, ...others] = notify;
    if (to) return to.kind === "workflow" && others.length === 0 ? to : undefined;
    const waiter = batch === undefined ? undefined : this.owner.waiterOf(batch);
    return waiter && { ...waiter, kind: "workflow", eventType: "none" };
  }

  async #ask(to: WorkflowDestination): Promise<void> {
    // What cannot be told now is asked for again at the next look.
    const isGone = await this.owner.outbox.isGone(to).catch(() => false);
    if (!isGone) return;
    try {
      await this.owner.cancelFor(to);
    } catch (error) {
      console.error(
        "[perdure] what a terminated workflow waited for could not be cancelled:",
        error,
      );
    }
  }
}
