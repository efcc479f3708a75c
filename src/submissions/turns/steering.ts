/**
 * Submissions that want to join the turn that runs. In memory only: after a
 * restart they are next in line, and run as turns of their own.
 */

import type { UIMessage } from "ai";
import type { Clock } from "../../core/clock.ts";
import type { AttemptRef } from "../host.ts";
import type { Submission } from "../store/rows.ts";
import type { SubmissionStore } from "../store/store.ts";

export type SteeringOwner = {
  readonly store: SubmissionStore;
  readonly clock: Clock;
  /** Tells that a submission has changed. */
  announce(submission: Submission): void;
};

export class Steering {
  readonly #waiting = new Map<string, number[]>();

  constructor(private readonly owner: SteeringOwner) {}

  /** It joins the next call of the model in its thread, unless its own turn comes first. */
  add({ seq, thread }: Submission): void {
    this.#waiting.set(thread, [...(this.#waiting.get(thread) ?? []), seq]);
  }

  /** pending → running, in the turn that makes a call of the model next. Returns what it is told. */
  join(ref: AttemptRef): UIMessage[] {
    if (this.#waiting.size === 0) return [];
    const { store, clock, announce } = this.owner;
    const thread = store.get(ref.seq)?.thread;
    const waiting = (thread !== undefined && this.#waiting.get(thread)) || [];
    if (thread !== undefined) this.#waiting.delete(thread);
    const joined = store.transaction(() =>
      waiting.flatMap((seq) => (seq === ref.seq ? [] : (store.join(seq, ref, clock.now()) ?? []))),
    );
    for (const submission of joined) announce(submission);
    return joined.flatMap(({ messages }) => messages);
  }
}
