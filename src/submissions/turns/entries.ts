/** What follows on an acceptance: what has come in is announced and run, and takes the place of what it has to. */

import type { LifecycleServices } from "agents/lifecycle";
import type { Taken } from "../intake/intake.ts";
import type { Submission } from "../store/rows.ts";
import type { InternalSubmitOptions } from "../types.ts";
import type { Engine } from "./turn-engine.ts";

/** What was taken, and what it was submitted with. */
export type Entry = { readonly taken: Taken; readonly options: InternalSubmitOptions };

export async function begin(
  engine: Engine,
  events: LifecycleServices["events"],
  all: readonly Entry[],
): Promise<void> {
  const accepted: Submission[] = [];
  for (const { taken, options } of all) {
    const { submission, conflict, debounced } = taken;
    const { submissionId, idempotencyKey } = submission;
    if (conflict) events.emit("submission:conflict", { submissionId, idempotencyKey });
    if (debounced) events.emit("submission:debounce", { submissionId });
    if (!taken.accepted) continue;
    // Nobody is told that it is pending once more; its wake has changed.
    if (debounced) engine.wakeAt(submission.dueAt ?? engine.clock.now());
    else accepted.push(submission);
    if (options.whenBusy === "steer") engine.steer(submission);
  }
  const armed = engine.begin(accepted);
  for (const { taken, options } of all) {
    if (accepted.includes(taken.submission))
      interruptFor(engine, taken.submission, options, accepted);
  }
  await armed;
}

/** Cancels what runs in its thread, so that this one, which is next in line there, can run. */
function interruptFor(
  engine: Engine,
  { submissionId, thread }: Submission,
  { whenBusy }: InternalSubmitOptions,
  accepted: readonly Submission[],
): void {
  if (whenBusy !== "interrupt" && whenBusy !== "rollback") return;
  const running = engine.current(thread);
  // One that has not begun is in nobody's way for long, and must not be lost (L5).
  if (running?.status !== "running") return;
  if (accepted.some(({ seq }) => seq === running.seq)) return;
  const failure = {
    name: "SubmissionInterruptedError",
    message: `Interrupted by submission ${submissionId}`,
  };
  engine.cancel(running, failure, whenBusy === "rollback");
}
